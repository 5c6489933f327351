"""Which execution is the fastest on the device at hand: measured on rounds of FedAvg, not assumed."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from trials import algorithms, heterogeneity
from trials.common.memory import take_part
from trials.common.tensors import torch
from trials.datasets.base import Dataset
from trials.engine.pack import Pack
from trials.engine.training import executions
from trials.federated_data import FederatedData
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, partition_data, simulate

STEPS = 4
"""Local steps of a client in a measured round: enough to tell executions apart."""
WARM_UP, MEASURED = 1, 2
"""Rounds before it is measured, in which libraries choose their kernels, and those that are."""


def workload(of: Any) -> str:
    """Name what one choice is made for, of a trial or an entry: all trials with this data set, model, level and precision."""
    return f"{of.scenario} · {of.settings.dtype}"


def fastest(
    spec: TrialSpec,
    data: FederatedData,
    device: str,
    memory: float | None = None,
    members: int = 1,
) -> tuple[str, dict[str, float]]:
    """The execution of a trial on a device, and what was measured: seconds a round of each, of one trial of
    so many in a pack.

    It is as the settings say where they do, and the only one where there is one; then nothing is
    measured.
    """
    model = fit_model(spec, data.dataset, device)
    known = executions(model, spec.settings, torch.device(device))
    if spec.settings.execution or len(known) == 1:
        return spec.settings.execution or known[0], {}
    seconds = {
        how: _seconds(with_execution(spec, how), data, device, memory, members) for how in known
    }
    return min(seconds, key=seconds.__getitem__), seconds


def measured(
    spec: dict[str, Any], dataset: Dataset, share: float, memory: float | None, members: int
) -> tuple[str, dict[str, float]]:
    """`fastest` in a process of its own, which has a share of a GPU."""
    trial = TrialSpec(**spec)
    if share:
        take_part(share)
    device = "cuda" if share else "cpu"
    return fastest(trial, partition_data(trial, dataset), device, memory, members)


def with_execution(spec: TrialSpec, execution: str) -> TrialSpec:
    """A spec that says how it is computed."""
    settings = spec.settings.model_copy(update={"execution": execution})
    return spec.model_copy(update={"settings": settings})


def _seconds(
    spec: TrialSpec, data: FederatedData, device: str, memory: float | None, members: int
) -> float:
    """Seconds a trial of the shortest of a few short rounds of FedAvg under a trial's settings, of so many
    in a pack.
    """
    less = {"local_steps": STEPS, "eval_every": None, "fine_tune": None}
    short = spec.settings.model_copy(update=less)
    level = heterogeneity.parse(spec.heterogeneity).dealing
    plain = spec.model_copy(
        update={
            "algorithm": "fedavg",
            "params": algorithms.resolve("fedavg").configured({}).params(),
            "heterogeneity": level,
            "settings": short,
        }
    )
    pack, taken = Pack(), []
    runs = [
        simulate(plain, data, device, memory=memory, solver=pack.solver, members=members)
        for _ in range(members)
    ]
    for number in range(1, WARM_UP + MEASURED + 1):
        started = _now(runs[0].fed.device)
        pack.run([partial(_round, run, number) for run in runs])
        taken.append(_now(runs[0].fed.device) - started)
    return min(taken[WARM_UP:]) / members


def _round(run: Simulation, number: int) -> None:
    run.fed.begin(number)
    run.state = run.algorithm.round(run.state, run.fed)


def _now(device: torch.device) -> float:
    """The time when the device has done what it was asked."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
