"""A trial made runnable: its data, its model, its simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

from trials import datasets, heterogeneity, models
from trials.common.device import name_of, named, usable
from trials.common.errors import UserError
from trials.common.machine import machine_memory
from trials.common.plugins import hook
from trials.common.tensors import torch
from trials.datasets.base import Dataset
from trials.engine.budget import plan_bytes
from trials.engine.federation import Federation
from trials.engine.training import Solver, execution
from trials.federated_data import FederatedData, partition
from trials.models.base import Model
from trials.run.outcome import Status, TrialResult
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.scoring import losses

BYTES_A_WEIGHT = 16
"""What a trial takes of memory at least: the model, its start, a gradient and a direction."""


def load_dataset(spec: TrialSpec, root: str | None) -> Dataset:
    """Return the data set of a spec, from files under `root` where it has files."""
    family, clients = datasets.parse(spec.dataset), spec.settings.clients
    try:
        dataset: Dataset = hook(family, "load", Dataset, spec.settings.data_seed, clients, root)
    except MemoryError:
        size = f" of {clients} clients" if clients else ""
        raise UserError(f"data set {spec.dataset}{size} is more than memory holds") from None
    return dataset


def partition_data(spec: TrialSpec, dataset: Dataset, keep: bool = False) -> FederatedData:
    """Return the data set partitioned to clients as the spec says: as it is kept with the data set, or else computed,
    and from then on kept if `keep`. Raises `UserError` where it cannot be, or no sample is left to validate on.
    """
    level, kept = heterogeneity.parse(spec.heterogeneity), dataset.partitions.get(spec.data_key)
    if kept is None:
        data = partition(dataset, level, spec.settings)
    else:  # what comes from Ray's object store cannot be written, and torch wants it so
        data = FederatedData(dataset, *(ids.copy() for ids in kept))
    if (share := spec.settings.val_fraction) and not len(data.val):
        who = "there are not" if dataset.client is None else f"none of {data.clients} clients has"
        raise UserError(
            f"val_fraction={share:g}: nothing is left to validate on, since {who} {math.ceil(1 / share)} training "
            "samples: raise it (0.5 at most), or let a run go without by val_fraction=0"
        )
    if keep:
        dataset.partitions[spec.data_key] = data.ids
    _refuse_more_than_memory(plan_bytes(data, spec.settings, level), "minibatches of a round take")
    return data


def _refuse_more_than_memory(needed: float, what: str) -> None:
    if needed > (there := machine_memory()):
        raise UserError(
            f"{what} {needed / 1e9:,.0f} GB of memory at least, and this machine has {there / 1e9:,.0f} GB"
        )


def fit_model(spec: TrialSpec, dataset: Dataset, device: str = "cpu") -> Model:
    """Return the model of a spec, for the data set's shape; raise `UserError` when it does not fit, or has no
    such execution on the device, which need not be there.
    """
    s = spec.settings
    loss = losses.resolve(s.loss, dataset.task.metric)
    architecture, size = models.parse(spec.model), (dataset.shape, dataset.classes)
    model = Model(architecture, *size, loss, s.dtype == "bf16", s.buffers)
    what = f"model {spec.model} has {model.d:.3g} weights, which take"
    _refuse_more_than_memory(model.d * BYTES_A_WEIGHT, what)
    if device != "cpu" or s.execution == "compiled":  # else any is, and torch waits
        execution(model, s, named(device))
    return model


def simulate(
    spec: TrialSpec,
    data: FederatedData,
    device: str = "cpu",
    threads: int = 1,
    memory: float | None = None,
    solver: Callable[..., Solver] = Solver,
    members: int = 1,
) -> Simulation:
    """Return a simulation at round 0. One thread by default, so that the bits do not depend on the load; `memory` (bytes),
    `solver` and `members` as `Federation` takes them.
    """
    torch.set_num_threads(threads)
    model, at = fit_model(spec, data.dataset, device), usable(device)
    level, s = heterogeneity.parse(spec.heterogeneity), spec.settings
    fed = Federation(data, model, level, s, spec.seed, at, memory, members, solver)
    return Simulation(spec.configured(), fed)


def run(
    spec: TrialSpec,
    root: str | None = None,
    device: str = "cpu",
    on_evaluation: Callable[[dict[str, float]], None] = lambda entry: None,
    memory: float | None = None,
    halved: dict[str, int] | None = None,
    tell: Callable[[str], object] = lambda note: None,
) -> tuple[Simulation, FederatedData]:
    """Load, partition and run to the end, without Ray; `halved` is what was recorded of a run that is repeated, and
    `tell` is told what of the data has to be known. Raises `UserError` for a device that cannot be used, or whose
    memory does not do.
    """
    usable(device)
    data = partition_data(spec, load_dataset(spec, root))
    if data.note:
        tell(data.note)
    try:
        simulation = simulate(spec, data, device, memory=memory)
        simulation.fed.halved = halved
        on_evaluation(simulation.history[0])
        for entry in simulation.evaluations():
            on_evaluation(entry)
    except (torch.OutOfMemoryError, MemoryError) as error:
        reason = (str(error).splitlines() or ["memory is full"])[0]
        raise UserError(
            f"{device} has too little memory for this run of {spec.algorithm} on {spec.scenario}; a smaller "
            f"memory_budget or chunk computes fewer clients at once ({reason})"
        ) from None
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
