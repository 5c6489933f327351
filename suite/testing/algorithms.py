"""Checks of the contract of algorithms, by short runs: declared fields, equal executions, checkpoints, and counted bytes."""

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
"""The allowed difference between executions in double precision, relative to the largest weight."""


class WrongError(AssertionError):
    """A breach of a contract by a user's own code. The message says which rule is broken."""


def demand(holds: bool, rule: str) -> None:
    """Raise `WrongError` with the text `rule` if `holds` is false."""
    if not holds:
        raise WrongError(rule)


@dataclass(frozen=True)
class CheckFinding:
    """The outcome of a check with one model. `detail` says what was measured, or what is wrong."""

    model: str
    check: str
    ok: bool
    detail: str

    @classmethod
    def of(cls, model: str, check: str, action: Callable[[], str]) -> "CheckFinding":
        """Run a check, and return its outcome. If the check raises an exception, it has failed, and `detail` describes the exception."""
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
    """Check an algorithm with the hyperparameters `params` on each of `models`, and yield the findings. If `reduces_to`
    names an algorithm, also check that both give equal results, bit for bit if `exact`. `how` has further arguments of
    `Checked`. Raise `UserError` for an unknown name or a wrong value.
    """
    # Wrong arguments are an error of the caller, not a finding.
    canonical(name, dict(params), Scenario("digits", "logreg", LEVEL), Settings(), 0)
    if reduces_to is not None:
        algorithms.resolve(reduces_to)
    data: dict[str, FederatedData] = {}
    for model in models or MODELS:
        checked = Checked(name, params, model, data, **how)
        actions: dict[str, Callable[[], str]] = {
            "hyperparameters": checked.declares,
            "two rounds": checked.runs,
            "executions": checked.executions,
            "repeats": checked.repeats,
            "bytes": checked.sent,
        }
        if reduces_to is not None:
            actions[f"is {reduces_to}"] = partial(checked.equals, reduces_to, exact)
        for check, action in actions.items():
            yield (finding := CheckFinding.of(model, check, action))
            if check == "two rounds" and not finding.ok:
                break  # the other checks would fail for the same reason


def check_algorithm(name: str, params: Mapping[str, Any] | None = None, **how: Any) -> None:
    """Check an algorithm, and raise `WrongError` with all faults if it has any. The `name` may be `FILE.py:Class`. `how` has
    further arguments of `checks`, such as `reduces_to="fedavg"`, `models=("logreg",)`, `settings` or `level`.
    """
    faults = []
    for finding in checks(name, params or {}, **how):
        if not finding.ok:
            faults.append(f"{finding.check} ({finding.model}): {finding.detail}")
    demand(not faults, "\n".join(faults))


@dataclass
class Checked:
    """Checks of an algorithm by short runs with one model. `data` caches partitioned data by key. Parts of `settings` and
    `level` that the algorithm does not support are left out.
    """

    name: str
    params: Mapping[str, Any]
    model: str
    data: dict[str, FederatedData]
    settings: Mapping[str, Any] = field(default_factory=lambda: SETTINGS)
    level: str = LEVEL
    dataset: str = "digits"

    def begun(self, name: str | None = None, seed: int = 1, **more: Any) -> Simulation:
        """Return a simulation of the algorithm `name` (default: the checked one) before round 1. `more` replaces settings."""
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
        """Return a finished simulation of the algorithm in the default execution mode."""
        return finish(self.begun())

    def declares(self) -> str:
        """Check the declared defaults, conditions and unsupported settings. Return the names of the hyperparameters."""
        default, ranges = self.cls(), self.cls.ranges()
        for key, spec in ranges.items():
            value, when = getattr(default, key), spec.when or {}
            demand(spec.holds(value), f"{key}: its default {value!r} is not in its range")
            demand(when.keys() <= ranges.keys(), f"{key} depends on an unknown field: {when}")
        equal = self.cls.configured(default.params()) == default
        demand(equal, "configured(params()) is another algorithm: what does __post_init__ change?")
        for key in self.cls.unsupported:
            exists = key.partition("=")[0] in ("system", *Settings.model_fields)
            demand(exists, f"unsupported: {unknown('setting', key, Settings.model_fields)}")
        return ", ".join(ranges)

    def runs(self) -> str:
        """Check that training ends with finite losses, and that the state keeps its keys. Return the first and the last test score."""
        trained = self.done.fed.counters["sample_gradients"] > 0
        demand(trained, "nobody trained in any round: call fed.train")
        demand(not self.done.diverged, "diverged: a loss is not finite; try --set lr=...")
        names = ", ".join(sorted(self.begun().state.keys() ^ self.done.state.keys()))
        demand(not names, f"round() and init() give states with different names: {names}")
        metric = f"test_{self.done.fed.data.dataset.task.metric}"
        first, last = self.done.history[0][metric], self.done.history[-1][metric]
        return f"{first:.3f} to {last:.3f}, d = {self.done.fed.d:,}"

    def executions(self) -> str:
        """Check that the model's execution modes give equal counters, and weights equal up to rounding. Return the names of the modes."""
        runs: dict[str, Simulation] = {}
        for execution in EXECUTIONS:
            with suppress(UserError):  # not every model has every execution
                run = self.begun(execution=execution, dtype="float64")
                runs.setdefault(run.fed.execution, run)
        # The others are compared with this one, where clients are computed one by one and cannot mix.
        base = finish(runs.pop("sequential"))
        for execution, run in runs.items():
            difference, both = _difference(finish(run), base), f"{execution} and sequential"
            rule = "does a hook mix clients' rows, or change a tensor in place?"
            words = f"give weights that are {difference:.1e} apart, relative to the largest: {rule}"
            demand(difference <= TOLERANCE, f"{both} {words}")
            demand(run.fed.counters == base.fed.counters, f"{both} count differently")
        return ", ".join([*runs, "sequential"])

    def repeats(self) -> str:
        """Check that a repeated run, and runs continued from a checkpoint, equal the first run bit for bit. Return "to the bit" for the output."""
        rule = "a second run differs: draw random numbers by fed.uniform, and keep nothing on the class"
        demand(same(finish(self.begun()), self.done), rule)
        rule = "a run that goes on from a checkpoint differs: all that survives a round must be in the state"
        for evaluations in range(len(self.done.history) - 1):
            first, second = self.begun(), self.begun()
            for _ in range(evaluations):
                first.advance()
            finish(self.begun(seed=2))  # overwrites anything that is kept outside the state
            buffer = io.BytesIO()
            torch.save(first.save(), buffer)
            buffer.seek(0)
            second.load(torch.load(buffer, weights_only=True))
            demand(same(finish(second), self.done), rule)
        return "to the bit"

    def sent(self) -> str:
        """Check that bytes are counted if the model changes. Return how many models a selected client receives and sends per round."""
        fed, change = self.done.fed, _difference(self.done, self.begun())
        up, down, peer = itemgetter(*BYTES)(fed.counters)
        way = "up" if down else "down" if up else "down or up"
        rule = "what reaches the server goes by fed.upload, what leaves it by fed.broadcast"
        # References, such as centralised training, send nothing.
        counted = peer or (down and up) or change == 0 or self.cls.reference
        demand(bool(counted), f"the model changed and nothing was sent {way}: {rule}")
        model = fed.d * 8 * max(1, round(fed.settings.participation * fed.n)) * fed.settings.rounds
        peers = f", {peer / model:.3g} K d peers" if peer else ""
        return f"{down / model:.3g} K d down, {up / model:.3g} K d up{peers}"

    def equals(self, other: str, exact: bool = False) -> str:
        """Check that metrics (except bytes) and weights equal those of `other`, to the bit if `exact`, else nearly. Return a summary."""
        theirs, most = finish(self.begun(other)), 0.0 if exact else TOLERANCE
        difference = _difference(self.done, theirs)
        words = f"weights end {difference:.1e} apart, relative to the largest"
        for mine, its in zip(timeless(self.done.history), timeless(theirs.history), strict=True):
            differing = []
            for key in sorted(mine.keys() & its.keys() - {*BYTES}):
                # Another order of summation changes the last digits.
                if not abs(mine[key] - its[key]) <= most * max(1.0, abs(its[key])):
                    differing.append(f"{key} ({mine[key]:.6g}, not {its[key]:.6g})")
            where = f"differs from {other} at round {mine['round']:g} in {', '.join(differing)}"
            hint = "both run under --set's settings: aggregation=plain is a mean without weights"
            demand(not differing, f"{where}; {words}; {hint}")
        demand(difference <= most, f"scores are those of {other}, but {words}")
        return f"equal up to rounding: {words}" if difference else "to the bit"


def _difference(a: Simulation, b: Simulation) -> float:
    """Return the largest difference between two runs' weights, divided by the largest absolute weight of `b`. Return infinity if shapes differ."""
    weights = []
    for run in (a, b):
        model = next(iter(run.scored().values()))
        weights.append((model.models if isinstance(model, Devices) else model).double())
    left, right = weights
    if left.shape != right.shape:
        return float("inf")
    return float((left - right).abs().max() / right.abs().max().clamp(min=1e-300))


def finish(run: Simulation) -> Simulation:
    """Run the remaining rounds of a simulation, and return the simulation."""
    for _ in run.evaluations():
        pass
    return run


def numbers(run: Simulation) -> dict[str, Tensor]:
    """Return all tensors of a run's state, moved to the CPU, by name. Per-client values become a tensor with a row for each client."""
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
    """Return whether two runs agree bit for bit in their states, and in their histories without wall-clock times."""
    left, right = numbers(a), numbers(b)
    alike = timeless(a.history) == timeless(b.history) and left.keys() == right.keys()
    return alike and all(torch.equal(value, right[name]) for name, value in left.items())
