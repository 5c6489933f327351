"""A trial made runnable: its data, its model, its simulation; and trials as they run in a process, report by report."""

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

BYTES_A_WEIGHT = 16  # at least: the model, its start, a gradient and a direction
REPORT_SECONDS = 1.0  # after which a step ends: a Tune report costs more than many rounds
Partitioned = Callable[[TrialSpec], FederatedData]


def load_dataset(spec: TrialSpec, root: str | None) -> Dataset:
    """Return the data set of a spec, from files under `root` where it has files."""
    family, clients = datasets.parse(spec.dataset), spec.settings.clients
    try:
        dataset: Dataset = hook(family, "load", Dataset, spec.settings.data_seed, clients, root)
    except MemoryError:
        raise UserError(f"data set {spec.dataset} is more than memory holds") from None
    return dataset


def partition_data(spec: TrialSpec, dataset: Dataset, keep: bool = False) -> FederatedData:
    """Return the data partitioned as the spec says. If the data set keeps ids of this partition, they are used; `keep`
    keeps new ones. Raises `UserError` where no sample is left to validate on.
    """
    level, kept = heterogeneity.parse(spec.heterogeneity), dataset.partitions.get(spec.data_key)
    if kept is None:
        data = partition(dataset, level, spec.settings)
    else:  # what comes from Ray's object store cannot be written, and torch wants it so
        data = FederatedData(dataset, *(ids.copy() for ids in kept))
    if (share := spec.settings.val_fraction) and not len(data.val):
        needed = f"it takes {math.ceil(1 / share)} training samples, of one client if born there"
        way = "raise it (0.5 at most), or let a run go without by val_fraction=0"
        raise UserError(f"val_fraction={share:g} leaves none to validate on, {needed}: {way}")
    if keep:
        dataset.partitions[spec.data_key] = data.ids
    _refuse_more_than_memory(plan_bytes(data, spec.settings, level), "minibatches of a round take")
    return data


def _refuse_more_than_memory(needed: float, what: str) -> None:
    if needed > machine_memory():
        raise UserError(f"{what} {needed / 1e9:,.0f} GB of memory, more than this machine has")


def fit_model(spec: TrialSpec, dataset: Dataset, device: str = "cpu") -> Model:
    """Return the model of a spec for a data set; raise `UserError` where it does not fit data or device."""
    s, size = spec.settings, (dataset.shape, dataset.classes)
    loss = losses.resolve(s.loss, dataset.task.metric)
    model = Model(models.parse(spec.model), *size, loss, s.dtype == "bf16", s.buffers)
    if model.network.make is not None and s.weights != "default":
        rule = f"weights is {s.weights}, but {spec.model} starts as its own code makes it"
        raise UserError(f"{rule}: leave it out")
    what = f"model {spec.model} has {model.d:.3g} weights, which take"
    _refuse_more_than_memory(model.d * BYTES_A_WEIGHT, what)
    if device != "cpu" or s.execution == "compiled":  # else any is, and torch waits
        execution(model, s, named(device))
    return model


def simulate(
    spec: TrialSpec, data: FederatedData, device: str = "cpu", threads: int = 1, **more: Any
) -> Simulation:
    """Return a simulation at round 0. On one thread no bit depends on the load; `more` goes to `Federation`."""
    torch.set_num_threads(threads)
    model, at = fit_model(spec, data.dataset, device), usable(device)
    level, s = heterogeneity.parse(spec.heterogeneity), spec.settings
    fed = Federation(data, model, level, s, spec.seed, at, **more)
    return Simulation(spec.configured(), fed)


def run(
    spec: TrialSpec,
    root: str | None = None,
    device: str = "cpu",
    on_evaluation: Callable[[dict[str, float]], None] = lambda entry: None,
    memory: float | None = None,
    halved: dict[str, int] | None = None,
) -> tuple[Simulation, FederatedData]:
    """Run to the end, without Ray; `halved` is as recorded. Raises `UserError` where the device cannot."""
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
    """Return the result of a simulation as it stands, without the entries of its history that are `reported`."""
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
    """A trial of a config, alone or in a pack, which begins anew or at a checkpoint, and reports step by step."""

    def __init__(
        self, config: TrialConfig, partitioned: Partitioned, pack: Pack | None = None
    ) -> None:
        self.config, self._partitioned = config, partitioned
        self._solver: Callable[..., Solver] = Solver if pack is None else pack.solver
        self._simulation: Simulation | None = None
        self._reported = 0
        self._scores: dict[int, float] = {}
        place, seconds = config.checkpoint, config.checkpoint_seconds
        self._checkpoint = Checkpoint(place, seconds) if place else None

    @property
    def simulation(self) -> Simulation:
        """Return the simulation. The first call begins it, or continues it from the checkpoint."""
        if self._simulation is None:
            config = self.config
            data, how = self._partitioned(config.trial), (config.device, config.threads)
            more: dict[str, Any] = {"memory": config.memory_budget, "members": config.members}
            self._simulation = simulate(config.trial, data, *how, **more, solver=self._solver)
            saved = self._checkpoint.load() if self._checkpoint else None
            if saved is not None and saved["spec"] == config.trial.model_dump_json():
                self.load(saved)
        return self._simulation

    def step(self, due: Callable[[], bool]) -> TrialResult:
        """Run as `advance` does; a failure is returned in the result, not raised."""
        try:
            return self.advance(due)
        except StorageError as fault:
            return TrialResult(Status.HALTED, error=shortened(str(fault)))
        except Exception:
            return TrialResult(Status.FAILED, error=shortened(traceback.format_exc()))

    def advance(self, due: Callable[[], bool]) -> TrialResult:
        """Run to the config's next stop, or until a report is `due`. If memory is too small, go on from the last
        checkpoint with half as many clients at once. Return what was not reported yet.
        """
        try:
            return self._rounds(due)
        except torch.OutOfMemoryError:
            if self._simulation is None or not self._simulation.fed.half:
                raise
        self._simulation, self._scores, self._reported = None, {}, 0
        if self.config.device == "cuda":
            torch.cuda.empty_cache()  # else the torn allocation would still be held
        fed = self.simulation.fed
        fed.halved = {"round": fed.round + 1, "chunk": fed.half}
        return self._rounds(due)

    def save(self) -> dict[str, Any]:
        """Return the state that a restart needs; the spec says whose it is."""
        spec = self.config.trial.model_dump_json()
        return {"spec": spec, "scores": self._scores, "simulation": self.simulation.save()}

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` gave, perhaps of a trial with other hyperparameters."""
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
        result.intermediates = {at: kept for at, kept in self._scores.items() if at > since}
        self._reported = len(simulation.history)
        if result.status == Status.RUNNING and self._checkpoint and self._checkpoint.due:
            self._checkpoint.save(self.save())
        return result


class RunningPack:
    """Trials that begin together in one process, by id: one alone, or several that compute together."""

    def __init__(self, configs: Mapping[str, TrialConfig], partitioned: Partitioned) -> None:
        pack = self._pack = Pack() if len(configs) > 1 else None
        self.trials = {i: RunningTrial(c, partitioned, pack) for i, c in configs.items()}

    def step(self) -> dict[str, TrialResult]:
        """Run until half of the trials that go on have a report, or a second is over; return what is new of each."""
        started, going, news = time.monotonic(), self.trials, dict[str, TrialResult]()

        # Once half of the trials have a report, none runs on past its next evaluation.
        def due() -> bool:
            return time.monotonic() - started > REPORT_SECONDS or 2 * len(news) > len(going)

        def work(trial_id: str) -> None:
            news[trial_id] = going[trial_id].step(due)

        if self._pack is None:
            work(*going)
        else:
            self._pack.run([partial(work, trial_id) for trial_id in going])
        self.trials = {i: going[i] for i in going if news[i].status == Status.RUNNING}
        return {trial_id: news[trial_id] for trial_id in going}  # in order, whoever was first
