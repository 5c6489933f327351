"""The contract of algorithms, checked by running them. Each declares what it takes, computes the same in every execution,
keeps what it needs, and counts what it sends. On request: it equals another method under some setting.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

from trials import algorithms
from trials.algorithm import Devices
from trials.common.errors import UserError, unknown
from trials.common.plugins import failure
from trials.common.tensors import Tensor, torch
from trials.engine.federation import ClientRows
from trials.engine.training import EXECUTIONS
from trials.federated_data import FederatedData
from trials.run.simulation import Simulation
from trials.run.spec import Scenario, canonical
from trials.run.trial import load_dataset, partition_data, simulate
from trials.scoring.metrics import BYTES
from trials.settings import Settings

MODELS = ("logreg", "mlp(16,16)", "mcmahan_cnn")
LEVEL = "labels(3)"
SETTINGS: dict[str, Any] = {"rounds": 2, "clients": 6, "participation": 0.5, "eval_every": 1}
SETTINGS |= {"local_steps": 2, "batch_size": 8, "dtype": "float64"}
TOLERANCE = 1e-9
"""The largest difference between executions, relative to the largest weight: rounding in double precision."""


class WrongError(AssertionError):
    """A breach of a contract by code of one's own, in words."""


def demand(holds: bool, rule: str) -> None:
    """Raise `WrongError` with a rule that does not hold."""
    if not holds:
        raise WrongError(rule)


@dataclass(frozen=True)
class CheckFinding:
    """The outcome of a check on one model; `detail` says what was seen, or what is wrong."""

    model: str
    check: str
    ok: bool
    detail: str

    @classmethod
    def of(cls, model: str, check: str, action: Callable[[], str]) -> "CheckFinding":
        """Return the finding of a check; of an exception it has only the frames of a person's own file."""
        try:
            return cls(model, check, True, action())
        except (WrongError, UserError) as fault:
            return cls(model, check, False, str(fault))
        except Exception as error:
            detail = failure(error) or f"{type(error).__name__}: {error}"
            return cls(model, check, False, detail)


def checks(
    name: str,
    params: Mapping[str, Any],
    *,
    reduces_to: str | None = None,
    exact: bool = False,
    models: Sequence[str] | None = None,
    **how: Any,
) -> Iterator[CheckFinding]:
    """Yield all checks of an algorithm with these hyperparameters; `how` as in `Checked`, `exact` as in `Checked.equals`. Raises
    `UserError` for unknown names and wrong values.
    """
    # Refused here, before anything runs, and not as a finding.
    canonical(name, dict(params), Scenario("digits", "logreg", LEVEL), Settings(), 0)
    if reduces_to is not None:
        algorithms.resolve(reduces_to)
    data: dict[str, FederatedData] = {}
    for model in models or MODELS:
        checked = Checked(name, params, model, data, **how)
        wanted: dict[str, Callable[[], str]] = {
            "hyperparameters": checked.declares,
            "two rounds": checked.runs,
            "executions": checked.executions,
            "repeats": checked.repeats,
            "bytes": checked.sent,
        }
        if reduces_to is not None:
            wanted[f"is {reduces_to}"] = partial(checked.equals, reduces_to, exact)
        for what, action in wanted.items():
            yield (finding := CheckFinding.of(model, what, action))
            if what == "two rounds" and not finding.ok:
                break  # the others would fail alike


def check_algorithm(name: str, params: Mapping[str, Any] | None = None, **how: Any) -> None:
    """Raise `WrongError` with all that is wrong with an algorithm, by its name or `FILE.py:Class`; `how` as in
    `checks`: `reduces_to="fedavg"`, `models=("logreg",)`, `settings`, `level`.
    """
    wrong = []
    for finding in checks(name, params or {}, **how):
        if not finding.ok:
            wrong.append(f"{finding.check} ({finding.model}): {finding.detail}")
    demand(not wrong, "\n".join(wrong))


@dataclass
class Checked:
    """Short runs of an algorithm on one model, checked. `data` holds data already partitioned. What the algorithm cannot
    honour of `settings` and `level` is left out.
    """

    name: str
    params: Mapping[str, Any]
    model: str
    data: dict[str, FederatedData]
    settings: Mapping[str, Any] = field(default_factory=lambda: SETTINGS)
    level: str = LEVEL
    dataset: str = "digits"

    def begun(self, name: str | None = None, seed: int = 1, **more: Any) -> Simulation:
        """Return a run of it at round 0; of another algorithm, with the hyperparameters both have."""
        ranges, refused = algorithms.resolve(name or self.name).ranges(), self.cls.unsupported
        params = {key: value for key, value in self.params.items() if key in ranges}
        kept = {k: v for k, v in self.settings.items() if not {k, f"{k}={v}"} & refused.keys()}
        level = self.level.partition("+")[0] if "system" in refused else self.level
        scenario = Scenario(self.dataset, self.model, level)
        spec = canonical(name or self.name, params, scenario, Settings(**{**kept, **more}), seed)
        if spec.data_key not in self.data:
            self.data[spec.data_key] = partition_data(spec, load_dataset(spec, None))
        return simulate(spec, self.data[spec.data_key])

    @cached_property
    def cls(self) -> Any:
        """Return the algorithm's class."""
        return algorithms.resolve(self.name)

    @cached_property
    def done(self) -> Simulation:
        """Return its run to the end, as it is computed by default."""
        return finish(self.begun())

    def declares(self) -> str:
        """Check that hyperparameters and refusals fit together."""
        usual, ranges = self.cls(), self.cls.ranges()
        for key, spec in ranges.items():
            default, when = getattr(usual, key), spec.when or {}
            demand(spec.holds(default), f"{key}: its default {default!r} is not in its range")
            demand(when.keys() <= ranges.keys(), f"{key} exists under what there is not: {when}")
        kept = self.cls.configured(usual.params()) == usual
        demand(kept, "configured(params()) is another algorithm: what does __post_init__ change?")
        for key in self.cls.unsupported:
            there = key.partition("=")[0] in ("system", *Settings.model_fields)
            demand(there, f"unsupported: {unknown('setting', key, Settings.model_fields)}")
        return ", ".join(ranges)

    def runs(self) -> str:
        """Check that it runs to the end, with numbers that are finite and a state that keeps its names."""
        trained = self.done.fed.counters["sample_gradients"] > 0
        demand(trained, "nobody trained in any round: call fed.train")
        demand(not self.done.diverged, "diverged: a loss is not finite; try --set lr=...")
        names = ", ".join(sorted(self.begun().state.keys() ^ self.done.state.keys()))
        demand(not names, f"round() and init() give states with different names: {names}")
        metric = f"test_{self.done.fed.data.dataset.task.metric}"
        first, last = self.done.history[0][metric], self.done.history[-1][metric]
        return f"{first:.3f} to {last:.3f}, d = {self.done.fed.d:,}"

    def executions(self) -> str:
        """Check that computing clients at once or one by one gives the same results up to rounding, and the same counts."""
        runs: dict[str, Simulation] = {}
        for way in EXECUTIONS:
            with suppress(UserError):  # not for this model
                run = self.begun(execution=way, dtype="float64")
                runs.setdefault(run.fed.execution, run)
        # One client at a time is the oracle: no row can touch another.
        base = finish(runs.pop("sequential"))
        for way, run in runs.items():
            off, both = _off(finish(run), base), f"{way} and sequential"
            rule = "does a hook mix clients' rows, or change a tensor in place?"
            words = f"give weights that are {off:.1e} apart, relative to the largest: {rule}"
            demand(off <= TOLERANCE, f"{both} {words}")
            demand(run.fed.counters == base.fed.counters, f"{both} count differently")
        return ", ".join([*runs, "sequential"])

    def repeats(self) -> str:
        """Check that the same seed gives the same bits, in a second run and in one that goes on from a checkpoint."""
        rule = "a second run differs: draw random numbers by fed.uniform, and keep nothing on the class"
        demand(same(finish(self.begun()), self.done), rule)
        rule = "a run that goes on from a checkpoint differs: all that survives a round must be in the state"
        for evaluations in range(len(self.done.history) - 1):
            first, second = self.begun(), self.begun()
            for _ in range(evaluations):
                first.advance()
            finish(self.begun(seed=2))  # which overwrites what is kept elsewhere
            buffer = io.BytesIO()
            torch.save(first.save(), buffer)
            buffer.seek(0)
            second.load(torch.load(buffer, weights_only=True))
            demand(same(finish(second), self.done), rule)
        return "to the bit"

    def sent(self) -> str:
        """Check that something is sent if the model changes; return what a round sends, in units of K d."""
        fed, change = self.done.fed, _off(self.done, self.begun())
        up, down, peer = itemgetter(*BYTES)(fed.counters)
        way = "up" if down else "down" if up else "down or up"
        rule = "what reaches the server goes by fed.upload, what leaves it by fed.broadcast"
        # Centralised training and local training send nothing.
        counted = peer or (down and up) or change == 0 or self.cls.reference
        demand(bool(counted), f"the model changed and nothing was sent {way}: {rule}")
        model = fed.d * 8 * max(1, round(fed.settings.participation * fed.n)) * fed.settings.rounds
        peers = f", {peer / model:.3g} K d peers" if peer else ""
        return f"{down / model:.3g} K d down, {up / model:.3g} K d up{peers}"

    def equals(self, other: str, exact: bool = False) -> str:
        """Check that it is the other method's run, up to rounding or `exact` to the bit, whatever it sends."""
        theirs, most = finish(self.begun(other)), 0.0 if exact else TOLERANCE
        off = _off(self.done, theirs)
        words = f"weights end {off:.1e} apart, relative to the largest"
        for mine, its in zip(timeless(self.done.history), timeless(theirs.history), strict=True):
            differing = []
            for key in sorted(mine.keys() & its.keys() - {*BYTES}):
                # An equal formula that adds up in another order has other last digits.
                if not abs(mine[key] - its[key]) <= most * max(1.0, abs(its[key])):
                    differing.append(f"{key} ({mine[key]:.6g}, not {its[key]:.6g})")
            where = f"differs from {other} at round {mine['round']:g} in {', '.join(differing)}"
            hint = "both run under --set's settings: aggregation=plain is a mean without weights"
            demand(not differing, f"{where}; {words}; {hint}")
        demand(off <= most, f"scores are those of {other}, but {words}")
        return f"equal up to rounding: {words}" if off else "to the bit"


def _off(a: Simulation, b: Simulation) -> float:
    """Return the largest difference of the ranked weights, relative to the largest weight; infinite where shapes differ."""
    weights = []
    for run in (a, b):
        model = next(iter(run.scored().values()))
        weights.append((model.models if isinstance(model, Devices) else model).double())
    left, right = weights
    if left.shape != right.shape:
        return float("inf")
    return float((left - right).abs().max() / right.abs().max().clamp(min=1e-300))


def finish(run: Simulation) -> Simulation:
    """Take a run to its end, and return it."""
    for _ in run.evaluations():
        pass
    return run


def numbers(run: Simulation) -> dict[str, Tensor]:
    """Return all tensors of the state, on the CPU; of per-client tables every client's row."""
    tensors, everyone = {}, torch.arange(run.fed.n)
    for name, value in run.state.items():
        tensors[name] = (value[everyone] if isinstance(value, ClientRows) else value).cpu()
    return tensors


def timeless(history: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return a history without wall-clock times."""
    kept = []
    for entry in history:
        kept.append({key: value for key, value in entry.items() if not key.endswith("_seconds")})
    return kept


def same(a: Simulation, b: Simulation) -> bool:
    """Return whether two runs have the same bits: history, times apart, and state."""
    left, right = numbers(a), numbers(b)
    alike = timeless(a.history) == timeless(b.history) and left.keys() == right.keys()
    return alike and all(torch.equal(value, right[name]) for name, value in left.items())
