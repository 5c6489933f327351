"""`suite doctor --gpu`: whether the suite computes on this machine's GPU what it computes on a CPU.

Each check takes the device, so that it can be tried where there is no GPU.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from suite.testing.algorithms import AlgorithmRuns
from suite.testing.comparing import apart, finish, numbers, same
from trials import heterogeneity
from trials.algorithms import ALGORITHMS
from trials.common import device as devices
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.engine import cuda_graphs
from trials.engine.pack import Pack
from trials.engine.solver import Solver
from trials.federated_data import FederatedData, partition
from trials.run.scenario import Scenario
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec, canonical
from trials.run.trial import load_dataset, partition_data, simulate
from trials.settings import Settings
from trials.sizing.footprint import footprint

ROUNDS, CLIENTS = 3, 6
TOLERANCE = 1e-8
"""How far numbers in double precision may be from the CPU's, beside 1 and beside themselves: after a few
rounds what orders of summation differ by is below it, and what is computed otherwise above."""
MODELS: Mapping[str, tuple[tuple[int, ...], int, int]] = {
    "logreg": ((20,), 4, 0),
    "mlp(16)": ((20,), 4, 0),
    "lenet5": ((1, 28, 28), 4, 0),
    "char_lstm": ((12,), 10, 10),
}
"""Models with the shape of their samples, the labels, and for token ids the size of the vocabulary."""


@dataclass(frozen=True)
class GpuCheck:
    """One finding. `table` holds what was measured, a row a line, where there is more than a sentence."""

    name: str
    ok: bool
    detail: str
    seconds: float
    table: Sequence[Mapping[str, Any]] = ()


def examine(names: Sequence[str] = tuple(ALGORITHMS), device: str = "cuda") -> Iterator[GpuCheck]:
    """All checks, one after the other as they end.

    Raises `UserError` before the first one where there is no GPU.
    """
    if device == "cuda" and (reason := devices.no_gpu()):
        raise UserError(f"no GPU to examine: {reason}")
    on = devices.usable(device)
    checks: list[tuple[str, Callable[[], tuple[str, Sequence[Mapping[str, Any]]]]]] = [
        ("device", lambda: (_named(on), ())),
        *((f"as on a CPU: {model}", partial(agrees, names, model, on)) for model in MODELS),
        ("as alone: a pack", partial(together, names, on)),
        ("steps as one launch", partial(replayed, on)),
        ("the same bits twice", partial(repeats, names, on)),
        ("memory of a trial", partial(within, on)),
        ("clients' tables on the host", partial(tables, on)),
        ("trials that share a GPU", partial(shared, on)),
        ("local steps a second", partial(paces, on)),
    ]
    for name, action in checks:
        started = time.monotonic()
        try:
            (detail, table), ok = action(), True
        except Exception as error:
            detail, table, ok = f"{type(error).__name__}: {error}", (), False
        yield GpuCheck(name, ok, detail, time.monotonic() - started, table)


def _named(on: torch.device) -> str:
    if on.type != "cuda":
        return f"{on}, torch {torch.__version__}"
    card = torch.cuda.get_device_properties(on)
    return (
        f"{card.name}, {card.total_memory / 1e9:.1f} GB, torch {torch.__version__}, "
        f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    )


@cache
def _partitioned(model: str) -> FederatedData:
    """Random samples that fit a model: 24 a client."""
    shape, classes, tokens = MODELS[model]
    rng, count = np.random.default_rng(0), 24 * CLIENTS + 60
    x = rng.integers(0, tokens, (count, *shape)) if tokens else rng.normal(size=(count, *shape))
    test = np.arange(count) < 60
    dataset = Dataset(x.astype(np.float32), rng.integers(0, classes, count), test, classes)
    return partition(dataset, heterogeneity.parse("iid"), Settings(clients=CLIENTS))


def _run(
    name: str,
    model: str,
    on: torch.device,
    execution: str,
    dtype: str = "float32",
    on_device: float | None = None,
    solver: Callable[..., Solver] = Solver,
) -> Simulation:
    """A few rounds of an algorithm with its defaults, at their end; `on_device` is the bytes
    of clients' tables that may lie on the device.
    """
    settings = {"rounds": ROUNDS, "clients": CLIENTS, "eval_every": 1, "batch_size": 8}
    runs = AlgorithmRuns(name, {}, model, lambda spec: _partitioned(model), settings, "iid")
    run = runs.begun(None, 0, on.type, solver, execution=execution, dtype=dtype)
    if on_device is not None:
        run.fed.tables = on_device
    return finish(run)


def agrees(names: Sequence[str], model: str, on: torch.device) -> tuple[str, Any]:
    """Whether every algorithm ends where it does on a CPU, one client after the other, in double
    precision and in both executions of the device; raises `RuntimeError` for those that do not.
    """
    most, wrong = 0.0, {}
    for name in names:
        right = numbers(_run(name, model, torch.device("cpu"), "sequential", "float64"))
        for execution in ("batched", "sequential"):
            found = numbers(_run(name, model, on, execution, "float64"))
            off = max(apart(found[key], right[key]) for key in right)
            most = max(most, off)
            if not off <= TOLERANCE:
                wrong[f"{name} ({execution})"] = off
    if wrong:
        raise RuntimeError(", ".join(f"{name} is {off:.1e} off" for name, off in wrong.items()))
    return f"{len(names)} algorithms in two executions, at most {most:.0e} off", ()


def together(names: Sequence[str], on: torch.device) -> tuple[str, Any]:
    """Whether every algorithm ends where it does alone on a CPU when all are computed in one pack, in
    double precision; raises `RuntimeError` for those that do not.
    """
    pack, most, wrong = Pack(), 0.0, {}
    how = ("batched", "float64")
    works = [partial(_run, name, "mlp(16)", on, *how, solver=pack.solver) for name in names]
    for name, run in zip(names, pack.run(works), strict=True):
        right = numbers(_run(name, "mlp(16)", torch.device("cpu"), *how))
        found = numbers(run)
        off = max(apart(found[key], right[key]) for key in right)
        most = max(most, off)
        if not off <= TOLERANCE:
            wrong[name] = off
    if wrong:
        raise RuntimeError(", ".join(f"{name} is {off:.1e} off" for name, off in wrong.items()))
    return f"{len(names)} algorithms in one, at most {most:.0e} off", ()


def replayed(on: torch.device) -> tuple[str, Any]:
    """Whether FedAvg ends where it does with steps launched one by one when they are captured and replayed,
    in double precision, and how long its rounds after the first take; raises `RuntimeError` for models
    whose steps are not captured or end elsewhere.
    """
    if on.type not in cuda_graphs.CAPTURES:
        return f"not measured: steps are not captured on {on}", ()
    most, wrong, table = 0.0, {}, []
    for model in MODELS:
        found = _run("fedavg", model, on, "batched", "float64")
        capture = cuda_graphs.CAPTURES.pop(on.type)
        try:
            right = _run("fedavg", model, on, "batched", "float64")
        finally:
            cuda_graphs.CAPTURES[on.type] = capture
        states = [numbers(run) for run in (found, right)]
        off = max(apart(value, states[1][key]) for key, value in states[0].items())
        most = max(most, off)
        if found.fed.graph_error:
            wrong[model] = f"is not captured: {found.fed.graph_error}"
        elif not off <= TOLERANCE:
            wrong[model] = f"is {off:.1e} off"
        ratio = _pace(right) / _pace(found)
        table.append({"model": model, "off": off, "times_as_fast": round(ratio, 2)})
    if wrong:
        raise RuntimeError(", ".join(f"{model} {what}" for model, what in wrong.items()))
    return f"{len(MODELS)} models, at most {most:.0e} off", table


def _pace(simulation: Simulation) -> float:
    """Seconds of a round at the least, of those after the first, which captures."""
    return float(min(entry["round_seconds"] for entry in simulation.history if entry["round"] > 1))


def repeats(names: Sequence[str], on: torch.device) -> tuple[str, Any]:
    """Whether every algorithm gives the same bits when it is run again, in single precision; raises
    `RuntimeError` for those that do not.
    """
    differ = []
    for name in names:
        for model in ("mlp(16)", "lenet5"):
            first, second = (_run(name, model, on, "batched") for _ in range(2))
            if not same(first, second):
                differ.append(f"{name} with {model}")
    if differ:
        raise RuntimeError("other bits the second time: " + ", ".join(differ))
    return f"{len(names)} algorithms with mlp(16) and lenet5", ()


def _spec(algorithm: str, model: str, **settings: Any) -> TrialSpec:
    scenario = Scenario.canonical("digits", model, "iid")
    given = {"rounds": 2, "clients": 100, "participation": 1.0, **settings}
    return canonical(algorithm, {}, scenario, Settings(**given), 0)


def within(on: torch.device) -> tuple[str, Any]:
    """Whether a trial takes no more of the GPU than was estimated, and whether one whose clients at once
    are more than memory holds ends with half; raises `RuntimeError` where not.
    """
    if on.type != "cuda":
        return f"not measured: {on} is no GPU", ()
    spec = _spec("scaffold", "mlp(1024)", execution="batched", chunk=100)
    data = partition_data(spec, load_dataset(spec, None))
    taken, simulation = _peak(spec, data, on), simulate(spec, data, on.type)
    of = footprint(spec, data, simulation.fed.model, on.type)
    estimate = of.device + of.state
    if taken > estimate:
        raise RuntimeError(f"{taken / 1e9:.2f} GB taken, {estimate / 1e9:.2f} GB estimated")
    total = torch.cuda.get_device_properties(on).total_memory
    torch.cuda.set_per_process_memory_fraction(0.8 * taken / total)
    try:
        with suppress(torch.OutOfMemoryError):
            _peak(spec, data, on)
            raise RuntimeError("a trial took more than its part of the GPU")
        _peak(spec, data, on, halved={"round": 1, "chunk": 50})
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return (
        f"{taken / 1e9:.2f} GB of tensors, estimated {estimate / 1e9:.2f} GB with the context; where "
        "memory does not hold 100 clients at once, 50 do"
    ), ()


def _peak(
    spec: TrialSpec,
    data: FederatedData,
    on: torch.device,
    halved: dict[str, int] | None = None,
) -> int:
    """Bytes of tensors that a trial takes at the most."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(on)
    simulation = simulate(spec, data, on.type)
    simulation.fed.halved = halved
    while not simulation.finished:
        simulation.advance()
    return torch.cuda.max_memory_allocated(on)


def tables(on: torch.device) -> tuple[str, Any]:
    """Whether clients' tables on the host give the bits of tables on the device."""
    names = ("scaffold", "feddyn", "safl")
    differ = [
        name
        for name in names
        if not same(
            _run(name, "mlp(16)", on, "batched"),
            _run(name, "mlp(16)", on, "batched", on_device=0.0),
        )
    ]
    if differ:
        raise RuntimeError("other bits with tables on the host: " + ", ".join(differ))
    return f"{', '.join(names)} give the same bits", ()


def shared(on: torch.device) -> tuple[str, Any]:
    """A small sweep through Ray whose trials share the GPU; raises `RuntimeError` where one fails."""
    from suite.execution.resources import Resources
    from suite.sweeps.journal.paths import SweepPaths
    from suite.sweeps.request import SweepRequest

    share = 0.25 if on.type == "cuda" else 0.0
    with TemporaryDirectory() as folder:
        request = SweepRequest("smoke", SweepPaths(Path(folder), "gpu"), smoke=True)
        done = request.run(Resources(gpus_per_trial=share)).summary
    ended = done.trials_finished + done.trials_pruned + done.trials_diverged
    if done.trials_failed:
        raise RuntimeError(f"{done.trials_failed} trials failed")
    return (
        f"{ended} search trials and {done.final_runs} final runs in {done.seconds:.0f} s, "
        f"{share:g} of a GPU each"
    ), ()


def paces(on: torch.device) -> tuple[str, Any]:
    """Local steps a second of FedAvg with each model, batched and one client after the other."""
    table = []
    for model in MODELS:
        for execution in ("batched", "sequential"):
            run = _run("fedavg", model, on, execution)
            rate = run.fed.counters["client_steps"] / ROUNDS / _pace(run)
            row = {"model": model, "execution": execution, "steps_per_second": round(rate, 1)}
            table.append(row)
    return f"{len(MODELS)} models in two executions", table
