"""`suite check`: does an algorithm compute what it says, keep what it needs, and count what it sends?

Two rounds with some of the clients on three models, in double precision: each way to compute them, once
more, with a checkpoint between the rounds, and against a method that a setting makes it equal to.
"""

import io
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trials import algorithms
from trials.algorithm import Devices
from trials.common.errors import UserError
from trials.common.plugins import failure
from trials.common.tensors import Tensor, torch
from trials.engine.client_rows import ClientRows
from trials.engine.solver import EXECUTIONS
from trials.federated_data import FederatedData
from trials.run.scenario import Scenario
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec, canonical
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


class WrongError(Exception):
    """What is wrong with an algorithm, in words."""


@dataclass(frozen=True)
class CheckFinding:
    """One check on one model; `detail` says what was seen, or what is wrong."""

    model: str
    check: str
    ok: bool
    detail: str


def check(
    name: str, params: Mapping[str, Any], reduces_to: str | None = None
) -> Iterator[CheckFinding]:
    """All checks of an algorithm with these hyperparameters. Where one fails for an exception, only the
    frames of the algorithm's own file are told. Raises `UserError` for names and values that are none.
    """
    canonical(name, dict(params), Scenario("digits", "logreg", LEVEL), Settings(), 0)
    if reduces_to is not None:
        algorithms.resolve(reduces_to)
    data: dict[str, FederatedData] = {}
    for model in MODELS:
        one = Checked(name, params, model, data)
        checks: dict[str, Callable[[], str]] = {
            "two rounds": one.runs,
            "shapes": one.shapes,
            "executions": one.executions,
            "repeats": one.repeats,
            "state": one.state,
            "bytes": one.sent,
        }
        if reduces_to is not None:
            checks[f"is {reduces_to}"] = partial(one.equals, reduces_to)
        for what, action in checks.items():
            ok, detail = _attempt(action)
            yield CheckFinding(model, what, ok, detail)
            if what == "two rounds" and not ok:
                break  # the others would fail alike


def _attempt(action: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, action()
    except (WrongError, UserError) as fault:
        return False, str(fault)
    except Exception as error:
        return False, failure(error) or f"{type(error).__name__}: {error}"


class Checked:
    """An algorithm on one model. `data` keeps what is partitioned, by its key."""

    def __init__(
        self, name: str, params: Mapping[str, Any], model: str, data: dict[str, FederatedData]
    ) -> None:
        self.name, self.params, self.model, self.data = name, dict(params), model, data
        self.cls = algorithms.resolve(name)
        self._done: Simulation | None = None

    @property
    def done(self) -> Simulation:
        """Its two rounds, as they are computed by default."""
        if self._done is None:
            self._done = _finish(self.begun())
        return self._done

    def spec(
        self, name: str, params: Mapping[str, Any], seed: int, given: Mapping[str, Any]
    ) -> TrialSpec:
        """Two rounds of an algorithm under settings that this one takes."""
        taken = {key: value for key, value in SETTINGS.items() if key not in self.cls.unsupported}
        scenario = Scenario("digits", self.model, LEVEL)
        return canonical(name, dict(params), scenario, Settings(**{**taken, **given}), seed)

    def begun(self, name: str | None = None, seed: int = 1, **given: Any) -> Simulation:
        """A simulation of it at round 0; of another algorithm, with the hyperparameters both have."""
        params = self.params
        if name is not None:
            params = {k: v for k, v in params.items() if k in algorithms.resolve(name).ranges()}
        spec = self.spec(name or self.name, params, seed, given)
        if spec.data_key not in self.data:
            self.data[spec.data_key] = partition_data(spec, load_dataset(spec, None))
        return simulate(spec, self.data[spec.data_key])

    def runs(self) -> str:
        """To the end, with numbers that are finite."""
        if self.done.diverged:
            if not self.done.fed.counters["client_steps"]:
                raise WrongError(
                    "nobody trained in round 1: its loss is of no sample; call fed.train there"
                )
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
                run = self.begun(execution=way)
            except UserError:
                continue  # not for this model
            found.setdefault(run.fed.execution, run)
        base = _finish(found.pop("sequential"))
        for way, run in found.items():
            apart = _apart(_ranked(_finish(run)), _ranked(base))
            if not apart <= TOLERANCE:
                raise WrongError(
                    f"{way} and sequential give weights that are {apart:.1e} apart, relative to the "
                    "largest: does a hook mix clients' rows, or change a tensor in place?"
                )
            if run.fed.counters != base.fed.counters:
                raise WrongError(f"{way} and sequential count differently")
        return ", ".join([*found, "sequential"])

    def repeats(self) -> str:
        """The same seed, the same bits."""
        if not _same(_finish(self.begun()), self.done):
            raise WrongError(
                "a second run differs: draw random numbers by fed.uniform, a function of the seed, the "
                "round and the client, and keep nothing on the class"
            )
        return "to the bit"

    def state(self) -> str:
        """A run that goes on from a checkpoint ends as one that was not interrupted."""
        first, second = self.begun(), self.begun()
        first.advance()
        _finish(self.begun(seed=2))  # which overwrites what is kept elsewhere
        buffer = io.BytesIO()
        torch.save(first.save(), buffer)
        buffer.seek(0)
        second.load(torch.load(buffer, weights_only=True))
        if not _same(_finish(second), self.done):
            raise WrongError(
                "a run that goes on from a checkpoint differs: all that survives a round must be in the "
                "state"
            )
        return "all of it"

    def sent(self) -> str:
        """What is counted for one round, in models of each selected client."""
        fed, change = self.done.fed, _apart(_ranked(self.done), _ranked(self.begun()))
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
        theirs = _finish(self.begun(other))
        for mine, its in zip(self.done.history, theirs.history, strict=True):
            keys = [k for k in mine.keys() & its.keys() if not k.endswith("_seconds")]
            different = sorted(k for k in keys if mine[k] != its[k] and k not in COUNTERS)
            if different:
                apart = _apart(_ranked(self.done), _ranked(theirs))
                raise WrongError(
                    f"differs from {other} at round {mine['round']:g} in {different[0]} "
                    f"({mine[different[0]]!r}, {its[different[0]]!r}); weights end {_rounding(apart)}"
                )
        if not torch.equal(_ranked(self.done), _ranked(theirs)):
            apart = _apart(_ranked(self.done), _ranked(theirs))
            raise WrongError(f"scores are those of {other}, but weights are {_rounding(apart)}")
        return "to the bit"


def _finish(run: Simulation) -> Simulation:
    while not run.finished:
        run.advance()
    return run


def _ranked(run: Simulation) -> Tensor:
    """The ranked model's weights; of several devices' models all of them."""
    model = next(iter(run.algorithm.scored(run.state, run.fed).values()))
    return model.models if isinstance(model, Devices) else model


def _apart(a: Tensor, b: Tensor) -> float:
    """The largest difference, relative to the largest weight; infinite where shapes differ."""
    if a.shape != b.shape:
        return math.inf
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-300))


def _rounding(apart: float) -> str:
    """How far weights are apart, and whether that is rounding."""
    if apart > TOLERANCE:
        return f"{apart:.1e} apart, relative to the largest"
    return (
        f"{apart:.1e} apart, relative to the largest: that is rounding, as of an equal formula that adds up in "
        "another order; only the same operations give the same bits"
    )


def _same(a: Simulation, b: Simulation) -> bool:
    """Whether two runs have the same history, times apart, and end with the same weights."""
    histories = [
        [{k: v for k, v in entry.items() if not k.endswith("_seconds")} for entry in run.history]
        for run in (a, b)
    ]
    return histories[0] == histories[1] and torch.equal(_ranked(a), _ranked(b))
