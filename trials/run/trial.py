"""From a trial's specification to its data, model and simulation, and the trials that run in a process step by step."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from trials import datasets, heterogeneity, models
from trials.common.device import name_of, named, usable
from trials.common.errors import UserError
from trials.common.machine import machine_memory
from trials.common.plugins import hook
from trials.common.tensors import torch
from trials.datasets.base import Dataset
from trials.engine.budget import plan_bytes
from trials.engine.federation import Federation
from trials.engine.pack import Pack
from trials.engine.training import Solver, execution
from trials.federated_data import FederatedData, partition
from trials.models.base import Model
from trials.run.checkpoint import Checkpoint, StorageError
from trials.run.outcome import Status, TrialResult, shortened
from trials.run.simulation import Simulation
from trials.run.spec import TrialConfig, TrialSpec
from trials.scoring import losses
from trials.scoring.metrics import score

BYTES_A_WEIGHT = 16  # at least: float32 in the model, its start, a gradient and a direction
REPORT_SECONDS = 1.0  # the length of a step, since a Tune report costs more than many rounds
Partitioned = Callable[[TrialSpec], FederatedData]


def load_dataset(spec: TrialSpec, root: str | None) -> Dataset:
    """Return the samples of a spec's data set; `root` is the data root. Raise `UserError` if memory is too small."""
    family, clients = datasets.parse(spec.dataset), spec.settings.clients
    try:
        dataset: Dataset = hook(family, "load", Dataset, spec.settings.data_seed, clients, root)
    except MemoryError:
        raise UserError(f"data set {spec.dataset} does not fit into memory") from None
    return dataset


def partition_data(spec: TrialSpec, dataset: Dataset, keep: bool = False) -> FederatedData:
    """Partition a data set by the spec's heterogeneity level, or as stored in `dataset.partitions`. With `keep`, store the
    partition there. Raise `UserError` if `val_fraction` leaves no validation sample, or if memory is too small.
    """
    level, stored = heterogeneity.parse(spec.heterogeneity), dataset.partitions.get(spec.data_key)
    if stored is None:
        data = partition(dataset, level, spec.settings)
    else:  # arrays from Ray's object store are read-only, and torch warns of such
        data = FederatedData(dataset, *(ids.copy() for ids in stored))
    if (share := spec.settings.val_fraction) and not len(data.val):
        needed = f"one takes {math.ceil(1 / share)} training samples, of one owner if there are any"
        way = "raise it (at most to 0.5), or run without validation by val_fraction=0"
        raise UserError(f"val_fraction={share:g} leaves no validation sample, {needed}: {way}")
    if keep:
        dataset.partitions[spec.data_key] = data.ids
    _refuse_more_than_memory(plan_bytes(data, spec.settings, level), "minibatches of a round take")
    return data


def _refuse_more_than_memory(needed: float, what: str) -> None:
    if needed > machine_memory():
        raise UserError(f"{what} {needed / 1e9:,.0f} GB of memory, more than this machine has")


def fit_model(spec: TrialSpec, dataset: Dataset, device: str = "cpu") -> Model:
    """Return a spec's model for a data set. Raise `UserError` if the model does not suit data, settings, device or memory."""
    s, size = spec.settings, (dataset.shape, dataset.classes)
    loss = losses.resolve(s.loss, dataset.task.metric)
    model = Model(models.parse(spec.model), *size, loss, s.dtype == "bf16", s.buffers)
    if model.network.make is not None and s.weights != "default":
        rule = f"weights is {s.weights}, but {spec.model} starts as its own code makes it"
        raise UserError(f"{rule}: leave it out")
    what = f"model {spec.model} has {model.d:.3g} weights, which take"
    _refuse_more_than_memory(model.d * BYTES_A_WEIGHT, what)
    if device != "cpu" or s.execution == "compiled":  # else all work, and torch is not imported yet
        execution(model, s, named(device))
    return model


def simulate(
    spec: TrialSpec, data: FederatedData, device: str = "cpu", threads: int = 1, **more: Any
) -> Simulation:
    """Return a simulation of a spec at round 0. `more` are further arguments of `Federation`."""
    torch.set_num_threads(threads)  # with one thread no bit depends on the machine's load
    model, target = fit_model(spec, data.dataset, device), usable(device)
    level, s = heterogeneity.parse(spec.heterogeneity), spec.settings
    fed = Federation(data, model, level, s, spec.seed, target, **more)
    return Simulation(spec.configured(), fed)


def run(
    spec: TrialSpec,
    root: str | None = None,
    device: str = "cpu",
    on_evaluation: Callable[[dict[str, float]], None] = lambda entry: None,
    memory: float | None = None,
    halved: dict[str, int] | None = None,
) -> tuple[Simulation, FederatedData]:
    """Run a trial to its end in this process, and return its simulation and data. The clients computed at once may take
    `memory` bytes. To repeat a run that ran out of memory, pass `halved={"round": r, "chunk": c}`: from round r on, only
    c clients are computed at once. Raise `UserError` if the device is missing or memory is too small.
    """
    usable(device)
    try:
        data = partition_data(spec, load_dataset(spec, root))
        simulation = simulate(spec, data, device, memory=memory)
        simulation.fed.halved = halved
        on_evaluation(simulation.history[0])
        for entry in simulation.evaluations():
            on_evaluation(entry)
    except (torch.OutOfMemoryError, MemoryError) as error:
        reason = next(iter(str(error).splitlines()), "memory is full")
        way = "a smaller memory_budget or chunk computes fewer clients at once"
        raise UserError(f"{device} has too little memory for this run; {way} ({reason})") from None
    return simulation, data


def result_of(simulation: Simulation, reported: int = 0) -> TrialResult:
    """Return a simulation's result so far, without the first `reported` entries of its history."""
    status, fed = Status.RUNNING, simulation.fed
    if simulation.finished:
        status = Status.DIVERGED if simulation.diverged else Status.FINISHED
    return TrialResult(
        status,
        simulation.history[reported:],
        fingerprint=fed.data.fingerprint,
        execution=fed.execution,
        chunk=fed.chunk,
        halved=fed.halved,
        device=name_of(fed.device),
        model_note=fed.model.network.note,
        data_note=fed.data.note,
        own_models=simulation.own_models,
        test_samples=len(fed.data.test),
    )


class RunningTrial:
    """A trial in a process, alone or in a pack. It begins at round 0 or at its checkpoint, and reports step by step."""

    def __init__(
        self, config: TrialConfig, partitioned: Partitioned, pack: Pack | None = None
    ) -> None:
        self.config, self._partitioned = config, partitioned
        self._solver: Callable[..., Solver] = Solver if pack is None else pack.solver
        self._simulation: Simulation | None = None
        self._reported = 0
        self._scores: dict[int, float] = {}
        path, seconds = config.checkpoint, config.checkpoint_seconds
        self._checkpoint = Checkpoint(path, seconds) if path else None

    @property
    def simulation(self) -> Simulation:
        """Return the trial's simulation. The first call creates it, at the trial's checkpoint or else at round 0."""
        if self._simulation is None:
            config = self.config
            data, where = self._partitioned(config.trial), (config.device, config.threads)
            limits: dict[str, Any] = {"memory": config.memory_budget, "members": config.members}
            self._simulation = simulate(config.trial, data, *where, **limits, solver=self._solver)
            saved = self._checkpoint.load() if self._checkpoint else None
            if saved is not None and saved["spec"] == config.trial.model_dump_json():
                self.load(saved)
        return self._simulation

    def step(self, due: Callable[[], bool]) -> TrialResult:
        """Run until a report is planned or `due()` is true, and return the report. An exception gives a failed or halted result."""
        try:
            return self.advance(due)
        except StorageError as fault:
            return TrialResult(Status.HALTED, error=shortened(str(fault)))
        except Exception:
            return TrialResult(Status.FAILED, error=shortened(traceback.format_exc()))

    def advance(self, due: Callable[[], bool]) -> TrialResult:
        """Run to the next report, and return the results since the last. Reports come in the rounds of `config.stops`, and at the first
        evaluation at which `due()` is true. If GPU memory runs out, restart at the last checkpoint with half as many clients at once.
        """
        try:
            return self._rounds(due)
        except torch.OutOfMemoryError:
            if self._simulation is None or not self._simulation.fed.half:
                raise
        self._simulation, self._scores, self._reported = None, {}, 0
        if self.config.device == "cuda":
            torch.cuda.empty_cache()  # else torch would keep the memory of the failed attempt
        fed = self.simulation.fed
        fed.halved = {"round": fed.round + 1, "chunk": fed.half}
        return self._rounds(due)

    def save(self) -> dict[str, Any]:
        """Return the state of the trial, with its spec, as nested dicts of tensors, numbers and strings."""
        spec = self.config.trial.model_dump_json()
        return {"spec": spec, "scores": self._scores, "simulation": self.simulation.save()}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore a state that `save` returned for this trial, or for one with other hyperparameters."""
        self.simulation.load(saved["simulation"])
        self._scores, self._reported = saved["scores"], 0

    def _rounds(self, due: Callable[[], bool]) -> TrialResult:
        simulation, config = self.simulation, self.config
        for entry in simulation.evaluations():
            if entry["round"] in config.stops or due():
                break
        value = score(simulation.history, f"val_{simulation.task.metric}")
        if math.isfinite(value):
            self._scores[simulation.fed.round] = value
        result, since = result_of(simulation, self._reported), -1.0
        if self._reported:
            since = simulation.history[self._reported - 1]["round"]
        result.intermediates = {at: value for at, value in self._scores.items() if at > since}
        self._reported = len(simulation.history)
        if result.status == Status.RUNNING and self._checkpoint and self._checkpoint.due:
            self._checkpoint.save(self.save())
        return result


class RunningPack:
    """One or more trials, by id, that begin together in one process. Several trials are computed in common batches."""

    def __init__(self, configs: Mapping[str, TrialConfig], partitioned: Partitioned) -> None:
        pack = self._pack = Pack() if len(configs) > 1 else None
        self.trials = {i: RunningTrial(c, partitioned, pack) for i, c in configs.items()}

    def step(self) -> dict[str, TrialResult]:
        """Run each trial to its next report, and return the reports by trial id. Reports are due after about one second."""
        started, running, reports = time.monotonic(), self.trials, dict[str, TrialResult]()

        # Once more than half of the trials have a report, the others stop at their next evaluation.
        def due() -> bool:
            return time.monotonic() - started > REPORT_SECONDS or 2 * len(reports) > len(running)

        def work(trial_id: str) -> None:
            reports[trial_id] = running[trial_id].step(due)

        if self._pack is None:
            work(*running)
        else:
            self._pack.run([partial(work, trial_id) for trial_id in running])
        self.trials = {i: running[i] for i in running if reports[i].status == Status.RUNNING}
        return {trial_id: reports[trial_id] for trial_id in running}  # in the trials' order
