"""`suite verify`: whether a bundle's rows are those of its runs, and a sample of its runs repeats."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from suite.boards.bundle import Bundle
from suite.boards.publish import rows_of
from suite.configurations import configuration
from suite.console import say
from suite.results.leaderboards import read_leaderboard
from suite.runs import single
from suite.tracking.machine import machine
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.schema.tags import RunKind, versions
from trials.common import plugins
from trials.common.errors import UserError
from trials.run.trial import fit_model, load_dataset, partition_data
from trials.scoring.metrics import score
from trials.sizing.footprint import footprint

ROUNDING = 1e-9
"""What a number may differ by when it is computed again, relative to itself or to 1."""

SAME, NEAR, DIFFERS, CANNOT = (
    "identical to the bit",
    "agrees to rounding",
    "differs",
    "cannot be repeated here",
)
BUDGET = 1_000_000
"""Client steps that runs are run again for unless a person says otherwise: with a small network on one core, up
to an hour."""
SHOWN = 20
"""Faults that are shown at most."""
LIBRARIES = ("torch_version", "numba_version")


@dataclass(frozen=True)
class Repeated:
    """A run that was run again: what of, what came out, and why, or what differs."""

    run_id: str
    of: str
    verdict: str
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verified:
    """What a bundle was found to be. `faults` are where it contradicts itself; the runs that were `repeated`
    were drawn from all `runs` with `seed`.
    """

    files: int
    rows: int
    runs: int
    seed: int
    faults: tuple[str, ...]
    repeated: tuple[Repeated, ...]

    @property
    def verdict(self) -> str:
        """The worst that was found; raises nothing."""
        found = {one.verdict for one in self.repeated}
        if self.faults or DIFFERS in found:
            return DIFFERS
        return next((one for one in (NEAR, SAME) if one in found), CANNOT)

    def document(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "verdict": self.verdict}


def verify(
    bundle: Bundle,
    sample: int,
    seed: int,
    data_root: str | None,
    shown: Callable[[Repeated], object],
    budget: float = BUDGET,
) -> Verified:
    """Check a bundle against itself, and run `sample` of its final runs again, drawn with `seed`.

    Says how many client steps they take, and raises `UserError` where that is more than the `budget`: what a
    bundle asks for is somebody else's to say.
    """
    finals = [run for run in bundle.sound(kind=RunKind.FINAL) if run.finished]
    faults = (*_rows(bundle), *(fault for run in finals for fault in _run(bundle, run)))
    faults += tuple(_tuned(bundle, finals))
    drawn = random.Random(seed).sample(finals, min(sample, len(finals)))
    _refuse_more(drawn, {run.run_id: _work(run, data_root) for run in drawn}, budget, faults)
    repeated = []
    for run in drawn:
        repeated.append(_repeated(bundle, run, data_root))
        shown(repeated[-1])
    return Verified(len(bundle.files), len(bundle.rows), len(finals), seed, faults, tuple(repeated))


def _work(run: Record, data_root: str | None) -> float:
    """About how many local steps all clients of a run take together; 0 of one that cannot be run here."""
    spec = run.tags.spec
    try:
        plugins.refuse_changed(run.tags.code or {}, f"run {run.run_id}")
        dataset = load_dataset(spec, data_root)
        data = partition_data(spec, dataset)
        found = footprint(spec, data, fit_model(spec, dataset), "cpu")
    except UserError:
        return 0.0
    return found.steps * spec.settings.rounds


def _refuse_more(
    drawn: Sequence[Record], work: Mapping[str, float], budget: float, faults: Sequence[str]
) -> None:
    total = sum(work.values())
    say(f"running {len(drawn)} runs again takes about {total:,.0f} client steps")
    if total <= budget:
        return
    most = max(drawn, key=lambda run: work[run.run_id])
    found = "".join(f"\n  {fault}" for fault in faults[:SHOWN])
    raise UserError(
        f"that is more than --budget {budget:,.0f}: run {most.run_id} alone ({_of(most)}, "
        f"{most.tags.spec.settings.rounds:,} rounds) takes {work[most.run_id]:,.0f}. A larger --budget runs it, "
        f"another --seed or a smaller --sample may draw others" + found
    )


def _of(run: Record) -> str:
    return f"{run.tags.algorithm} on {run.tags.scenario}, seed {run.tags.seed}"


def _rows(bundle: Bundle) -> list[str]:
    """Where the published rows are not those of the published runs."""
    mine = {_name(row): row for row in rows_of(read_leaderboard(bundle))}
    theirs = {_name(row): row for row in bundle.rows}
    found = []
    for name in mine.keys() | theirs:
        if name not in mine or name not in theirs:
            where = "its runs, not in its rows" if name in mine else "its rows, not in its runs"
            found.append(f"{name} is in {where}")
            continue
        fields = [key for key in mine[name] if not _alike(mine[name][key], theirs[name].get(key))]
        found += [
            f"{name}: {key} is {theirs[name].get(key)!r} in its rows and {mine[name][key]!r} by its runs"
            for key in fields
        ]
    return sorted(found)


def _name(row: Mapping[str, Any]) -> str:
    parts = ("algorithm", "dataset", "model", "heterogeneity", "sweeps")
    warm = " warm-started" if row.get("warm") else ""
    return " · ".join(str(row.get(part)) for part in parts) + warm


def _alike(mine: Any, theirs: Any) -> bool:
    """Whether a value is that of a row, up to rounding."""
    if isinstance(mine, float) and isinstance(theirs, float | int):
        return abs(mine - theirs) <= ROUNDING * max(1.0, abs(mine))
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        return mine.keys() == theirs.keys() and all(_alike(mine[k], theirs[k]) for k in mine)
    if isinstance(mine, Sequence) and isinstance(theirs, Sequence) and not isinstance(mine, str):
        return len(mine) == len(theirs) and all(map(_alike, mine, theirs))
    return bool(mine == theirs)


def _run(bundle: Bundle, run: Record) -> list[str]:
    """Where a final run is not what its specification or its course says."""
    tags, spec = run.tags, run.tags.spec
    said = {"algorithm": tags.algorithm, **tags.scenario.names(), "seed": tags.seed}
    found = [
        f"run {run.run_id}: {key} is {value!r}, and {getattr(spec, key)!r} in its specification"
        for key, value in said.items()
        if value != getattr(spec, key)
    ]
    if not bundle.curve(run, [f"test_{tags.metric}"]):
        found.append(f"run {run.run_id}: it has a score, and no course")
    elif apart := contradiction(bundle, run):
        found.append(f"run {run.run_id}: {apart}")
    return found


def _tuned(bundle: Bundle, finals: Sequence[Record]) -> list[str]:
    """Where a tuned file is not of the runs that it names."""
    found, runs = [], {run.run_id: run for run in finals}
    for path, text in bundle.tuned.items():
        try:
            given = configuration.parse(text, f"{bundle.uri}: {path}")
        except UserError as error:
            found.append(str(error))
            continue
        named = [runs.get(run_id) for run_id in given.provenance.get("runs", ())]
        specs = [run.tags.spec for run in named if run is not None]
        same = [
            (spec.algorithm, spec.scenario, spec.params)
            == (given.algorithm, given.scenario, given.params)
            and spec.settings == given.settings
            for spec in specs
        ]
        if not specs or len(specs) < len(named) or not all(same):
            found.append(f"{path} is not the configuration of the runs that it names")
    return found


def _repeated(bundle: Bundle, run: Record, data_root: str | None) -> Repeated:
    of = _of(run)
    try:
        done = single.replay(
            bundle, run.run_id, data_root, lambda entry: None, elsewhere(bundle, run)
        )
    except UserError as error:
        return Repeated(run.run_id, of, CANNOT, (str(error),))
    if done.exact:
        return Repeated(run.run_id, of, SAME)
    if done.differences:
        return Repeated(run.run_id, of, DIFFERS, tuple(done.differences))
    return Repeated(run.run_id, of, NEAR, (done.near,))


def elsewhere(bundle: Bundle, run: Record) -> str:
    """How a run was computed on another machine or with other libraries than here, in words; "" where bits
    must agree.
    """
    here = machine() | {name: versions().get(name, "none") for name in LIBRARIES}
    there = {
        key: bundle.listing.machine.get(key, "unknown") for key in ("processor", "architecture")
    }
    there |= {name: run.tags.get(name, "none") for name in LIBRARIES}
    apart = [
        f"{key.removesuffix('_version')} {there[key]}, here {here[key]}"
        for key in there
        if there[key] != here[key]
    ]
    return f"computed with {'; '.join(apart)}: only rounding has to agree" if apart else ""


def contradiction(store: Reader, run: Record) -> str:
    """How the score of a final run is not what its course gives, in words; "" where it is, or where no course
    was recorded.
    """
    metric = f"test_{run.tags.metric}"
    curve = store.curve(run, [metric])
    if not curve:
        return ""
    recorded, now = run.metrics["test_score"], score(curve, metric, run.lost(metric))
    if abs(recorded - now) <= ROUNDING * max(1.0, abs(now)):
        return ""
    return f"its score is {recorded!r}, and {now!r} by its course"
