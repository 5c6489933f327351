"""What every algorithm owes, whatever it computes: it declares what it takes, computes the same in every way, keeps
what it needs, and counts what it sends.

A short run with some of the clients on a few models: each way to compute it, once more, with a checkpoint at each
evaluation, and against a method that a setting makes it equal to.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from suite.testing.comparing import apart, finish, ranked, same, timeless
from suite.testing.wrong import WrongError
from trials import algorithms
from trials.algorithm import Algorithm
from trials.common.errors import UserError, unknown
from trials.common.plugins import failure
from trials.common.tensors import torch
from trials.engine.client_rows import ClientRows
from trials.engine.training import EXECUTIONS
from trials.federated_data import FederatedData
from trials.run.simulation import Simulation
from trials.run.spec import Scenario, TrialSpec, canonical
from trials.run.trial import load_dataset, partition_data, simulate
from trials.settings import Settings

MODELS = ("logreg", "mlp(16,16)", "mcmahan_cnn")
LEVEL = "labels(3)"
SETTINGS = {
    "rounds": 2,
    "clients": 6,
    "participation": 0.5,
    "local_steps": 2,
    "batch_size": 8,
    "dtype": "float64",
    "eval_every": 1,
}
TOLERANCE = 1e-9
"""How far ways to compute may be apart, relative to the largest weight: rounding, in double precision."""
COUNTERS = ("downloaded_bytes", "uploaded_bytes", "peer_bytes")


@dataclass(frozen=True)
class CheckFinding:
    """One check, on one model; `detail` says what was seen, or what is wrong."""

    model: str
    check: str
    ok: bool
    detail: str


def checks(
    name: str,
    params: Mapping[str, Any],
    reduces_to: str | None = None,
    models: Sequence[str] | None = None,
    **how: Any,
) -> Iterator[CheckFinding]:
    """All checks of an algorithm with these hyperparameters; `how` as in `AlgorithmRuns`. Where one fails for an
    exception, only the frames of the algorithm's own file are told. Raises `UserError` for names and values that
    are none.
    """
    canonical(name, dict(params), Scenario("digits", "logreg", LEVEL), Settings(), 0)
    if reduces_to is not None:
        algorithms.resolve(reduces_to)
    data: dict[str, FederatedData] = {}
    for model in models or MODELS:
        one = Checked(AlgorithmRuns(name, params, model, partitioned=partial(_once, data), **how))
        wanted: dict[str, Callable[[], str]] = {
            "hyperparameters": one.declares,
            "two rounds": one.runs,
            "shapes": one.shapes,
            "executions": one.executions,
            "repeats": one.repeats,
            "state": one.state,
            "bytes": one.sent,
        }
        if reduces_to is not None:
            wanted[f"is {reduces_to}"] = partial(one.equals, reduces_to)
        for what, action in wanted.items():
            ok, detail = attempt(action)
            yield CheckFinding(model, what, ok, detail)
            if what == "two rounds" and not ok:
                break  # the others would fail alike


def check_algorithm(name: str, params: Mapping[str, Any] | None = None, **how: Any) -> None:
    """Raise `WrongError` with all that is wrong with an algorithm, by its name or `FILE.py:Class`; `how` as in
    `checks`: `reduces_to="fedavg"`, `models=("logreg",)`, `settings`, `level`.
    """
    wrong = [one for one in checks(name, params or {}, **how) if not one.ok]
    if wrong:
        raise WrongError("\n".join(f"{one.check} ({one.model}): {one.detail}" for one in wrong))


def _once(data: dict[str, FederatedData], spec: TrialSpec) -> FederatedData:
    """The data of a spec, partitioned once."""
    if spec.data_key not in data:
        data[spec.data_key] = partition_data(spec, load_dataset(spec, None))
    return data[spec.data_key]


def attempt(action: Callable[[], str]) -> tuple[bool, str]:
    """Whether a check found nothing wrong, and what it says."""
    try:
        return True, action()
    except (WrongError, UserError) as fault:
        return False, str(fault)
    except Exception as error:
        return False, failure(error) or f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class AlgorithmRuns:
    """Short runs of an algorithm on one model. `partitioned` gives the data of a spec; of `settings` and `level`
    what the algorithm cannot honour is left out.
    """

    name: str
    params: Mapping[str, Any]
    model: str
    partitioned: Callable[[TrialSpec], FederatedData]
    settings: Mapping[str, Any] = field(default_factory=lambda: SETTINGS)
    level: str = LEVEL
    dataset: str = "digits"

    @property
    def cls(self) -> type[Algorithm]:
        """The algorithm."""
        return algorithms.resolve(self.name)

    def begun(
        self,
        name: str | None = None,
        seed: int = 1,
        **given: Any,
    ) -> Simulation:
        """A run of it at round 0; of another algorithm, with the hyperparameters both have."""
        params, refused = dict(self.params), self.cls.unsupported
        if name is not None:
            params = {k: v for k, v in params.items() if k in algorithms.resolve(name).ranges()}
        taken = {k: v for k, v in self.settings.items() if not {k, f"{k}={v}"} & refused.keys()}
        level = self.level.partition("+")[0] if "system" in refused else self.level
        scenario, settings = (
            Scenario(self.dataset, self.model, level),
            Settings(**{**taken, **given}),
        )
        spec = canonical(name or self.name, params, scenario, settings, seed)
        return simulate(spec, self.partitioned(spec))


class Checked:
    """An algorithm on one model, checked."""

    def __init__(self, runs: AlgorithmRuns) -> None:
        self.cls, self.begun = runs.cls, runs.begun

    @cached_property
    def done(self) -> Simulation:
        """Its run, as it is computed by default."""
        return finish(self.begun())

    def declares(self) -> str:
        """Hyperparameters and refusals that fit together."""
        made, ranges = self.cls(), self.cls.ranges()
        for key, spec in ranges.items():
            default = getattr(made, key)
            inside = default in spec.choices if spec.choices else spec.low <= default <= spec.high
            if not inside or spec.check(key, default) != default:
                raise WrongError(f"{key}: its default {default!r} is not in its range")
            if strange := (spec.when or {}).keys() - ranges:
                raise WrongError(
                    f"{key} exists when {strange.pop()} is something, which there is not"
                )
            exists = all(getattr(made, k) == v for k, v in (spec.when or {}).items())
            if (key in made.params()) != exists:
                raise WrongError(f"params() and the condition of {key} disagree")
        if self.cls.configured(made.params()) != made:
            raise WrongError(
                "configured(params()) is another algorithm: what does __post_init__ change?"
            )
        if "lr" not in ranges:
            raise WrongError("there is no learning rate lr, which every study searches")
        for key in self.cls.unsupported:
            if key.partition("=")[0] not in ("system", *Settings.model_fields):
                raise WrongError(f"unsupported: {unknown('setting', key, Settings.model_fields)}")
        return ", ".join(ranges)

    def runs(self) -> str:
        """To the end, with numbers that are finite."""
        if not self.done.fed.counters["sample_gradients"]:
            raise WrongError("nobody trained in any round: call fed.train")
        if self.done.diverged:
            raise WrongError("diverged: a loss is not finite; try another --set lr=...")
        metric = f"test_{self.done.fed.data.dataset.task.metric}"
        values = [entry[metric] for entry in self.done.history]
        return f"{values[0]:.3f} to {values[-1]:.3f}"

    def shapes(self) -> str:
        """The state keeps its names, and is of tensors; a run itself refuses what changes a shape."""
        fed, before, after = self.done.fed, self.begun().state, self.done.state
        if before.keys() != after.keys():
            names = ", ".join(sorted(before.keys() ^ after.keys()))
            raise WrongError(f"round() and init() give states with different names: {names}")
        for name, value in after.items():
            if not isinstance(value, ClientRows | torch.Tensor):
                raise WrongError(
                    f"state {name!r} is a {type(value).__name__}, not a tensor or ClientRows"
                )
        return f"d = {fed.d:,}"

    def executions(self) -> str:
        """Clients at once and one after the other: the same up to rounding, and the same counts."""
        found: dict[str, Simulation] = {}
        for way in EXECUTIONS:
            try:
                run = self.begun(execution=way, dtype="float64")
            except UserError:
                continue  # not for this model
            found.setdefault(run.fed.execution, run)
        base = finish(found.pop("sequential"))
        for way, run in found.items():
            off = _off(finish(run), base)
            if not off <= TOLERANCE:
                raise WrongError(
                    f"{way} and sequential give weights that are {off:.1e} apart, relative to the "
                    "largest: does a hook mix clients' rows, or change a tensor in place?"
                )
            if run.fed.counters != base.fed.counters:
                raise WrongError(f"{way} and sequential count differently")
        return ", ".join([*found, "sequential"])

    def repeats(self) -> str:
        """The same seed, the same bits."""
        if not same(finish(self.begun()), self.done):
            raise WrongError(
                "a second run differs: draw random numbers by fed.uniform, a function of the seed, the "
                "round and the client, and keep nothing on the class"
            )
        return "to the bit"

    def state(self) -> str:
        """A run that goes on from a checkpoint of any evaluation ends as one that was not interrupted."""
        for evaluations in range(len(self.done.history) - 1):
            first, second = self.begun(), self.begun()
            for _ in range(evaluations):
                first.advance()
            finish(self.begun(seed=2))  # which overwrites what is kept elsewhere
            buffer = io.BytesIO()
            torch.save(first.save(), buffer)
            buffer.seek(0)
            second.load(torch.load(buffer, weights_only=True))
            if not same(finish(second), self.done):
                raise WrongError(
                    "a run that goes on from a checkpoint differs: all that survives a round must be in the "
                    "state"
                )
        return "all of it"

    def sent(self) -> str:
        """What is counted for one round, in models of each selected client."""
        fed, change = self.done.fed, _off(self.done, self.begun())
        down, up, peer = (fed.counters[name] for name in COUNTERS)
        if not (peer or (down and up)) and change > 0 and not self.cls.reference:
            way = "up" if down else "down" if up else "down or up"
            raise WrongError(
                f"the model changed and nothing was sent {way}: what reaches the server goes through "
                "fed.upload, what leaves it through fed.broadcast"
            )
        one = fed.d * 8 * max(1, round(fed.settings.participation * fed.n)) * fed.settings.rounds
        peers = f", {peer / one:.3g} K d peers" if peer else ""
        return f"{down / one:.3g} K d down, {up / one:.3g} K d up{peers}"

    def equals(self, other: str) -> str:
        """The other method's run, to the bit."""
        theirs = finish(self.begun(other))
        off = _off(self.done, theirs)
        for mine, its in zip(timeless(self.done.history), timeless(theirs.history), strict=True):
            both = mine.keys() & its.keys() - {*COUNTERS}
            if different := sorted(key for key in both if mine[key] != its[key]):
                raise WrongError(
                    f"differs from {other} at round {mine['round']:g} in {different[0]} "
                    f"({mine[different[0]]!r}, {its[different[0]]!r}); weights end {_rounding(off)}"
                )
        if not torch.equal(ranked(self.done), ranked(theirs)):
            raise WrongError(f"scores are those of {other}, but weights are {_rounding(off)}")
        return "to the bit"


def _off(a: Simulation, b: Simulation) -> float:
    """How far the ranked weights are apart, relative to the largest."""
    return apart(ranked(a), ranked(b), max(float(ranked(b).abs().max()), 1e-300))


def _rounding(off: float) -> str:
    """How far weights are apart, and whether that is rounding."""
    if off > TOLERANCE:
        return f"{off:.1e} apart, relative to the largest"
    return (
        f"{off:.1e} apart, relative to the largest: that is rounding, as of an equal formula that adds up in "
        "another order; only the same operations give the same bits"
    )
