"""One trial, as data: everything that decides its numbers, checked and made runnable."""

from collections.abc import Callable
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict

from trials import algorithms, datasets, heterogeneity, losses, models, schedule
from trials.algorithm import Algorithm
from trials.datasets import Dataset
from trials.engine import Simulation
from trials.errors import UserError
from trials.federated_data import FederatedData, deal
from trials.federation import Federation
from trials.models import Model
from trials.settings import Settings
from trials.solver import execution


class TrialSpec(BaseModel):
    """The whole input of a run: equal specs give equal bits on equal machines and versions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: str
    params: dict[str, Any]
    dataset: str
    model: str
    heterogeneity: str
    settings: Settings
    seed: int

    def configured(self) -> Algorithm:
        """The algorithm with its hyperparameters; raises `UserError` when it refuses a setting."""
        cls = algorithms.resolve(self.algorithm)
        refuse(self.algorithm, cls, self.settings, self.heterogeneity)
        return cls.configured(self.params)

    def until(self, round_index: int) -> "TrialSpec":
        """What decides the rounds up to this one: specs that agree in it have the same run so far."""
        params = {name: schedule.until(value, round_index) for name, value in self.params.items()}
        return self.model_copy(update={"params": params})

    @property
    def dataset_key(self) -> str:
        """What identifies the loaded data set."""
        return f"{self.dataset}|{self.settings.data_seed}|{self.settings.clients}"

    @property
    def data_key(self) -> str:
        """What identifies the data set dealt to clients."""
        level = heterogeneity.parse(self.heterogeneity).dealing
        s = self.settings
        return f"{self.dataset_key}|{level}|{s.val_fraction}|{s.partition_seed}"


def canonical(
    algorithm: str,
    params: dict[str, Any],
    dataset: str,
    model: str,
    heterogeneity_name: str,
    settings: Settings,
    seed: int,
) -> TrialSpec:
    """A spec whose names have their canonical spelling and whose params are all there.

    Raises `UserError` for the first thing that is wrong.
    """
    configured = algorithms.resolve(algorithm).configured(params)
    return TrialSpec(
        algorithm=algorithms.canonical(algorithm),
        params=configured.params(),
        dataset=datasets.canonical(dataset),
        model=models.canonical(model),
        heterogeneity=heterogeneity.parse(heterogeneity_name).name,
        settings=settings,
        seed=seed,
    )


def refuse(name: str, cls: type[Algorithm], settings: Settings, level: str = "iid") -> None:
    """Raise `UserError` when an algorithm cannot honour one of the settings, or the level."""
    uneven = heterogeneity.parse(level).changes_work
    given = {"system": f"{level}, where devices do unequal work"} if uneven else {}
    for key, value in settings.model_dump().items():
        given[f"{key}={value}"] = f"{key}={value}"
        if value != Settings.model_fields[key].default:
            given[key] = f"{key}={value}"
    for setting, reason in cls.refuses.items():
        if setting in given:
            raise UserError(f"{name} cannot run with {given[setting]}: {reason}")


def outside(cls: type[Algorithm], settings: Settings) -> str:
    """How settings are not those that the algorithm's paper assumes, in words; "" where they are."""
    given = settings.model_dump()
    return "; ".join(
        f"{key} is {given[key]}, its paper's {value}: {reason}"
        for key, (value, reason) in cls.assumes.items()
        if given[key] != value
    )


def load_dataset(spec: TrialSpec, root: str | None) -> Dataset:
    """The data set of a spec, from files under `root` where it has files."""
    return datasets.parse(spec.dataset).load(spec.settings.data_seed, spec.settings.clients, root)


def deal_data(spec: TrialSpec, dataset: Dataset) -> FederatedData:
    """The data set dealt to clients as the spec says."""
    return deal(dataset, heterogeneity.parse(spec.heterogeneity), spec.settings)


def fit_model(spec: TrialSpec, dataset: Dataset) -> Model:
    """The model of a spec, for the data set's shape; raises `UserError` when it does not fit."""
    loss = losses.resolve(spec.settings.loss, dataset.task.metric)
    mixed = spec.settings.dtype == "bf16"
    model = Model(models.parse(spec.model), dataset.shape, dataset.classes, loss, mixed)
    execution(model, spec.settings, torch.device("cpu"))
    return model


def _device(name: str) -> torch.device:
    """The device; raises `UserError` where it is none, or not there."""
    try:
        found = torch.device(name)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {name!r} cannot be used: {reason}") from None
    return found


def simulate(
    spec: TrialSpec,
    data: FederatedData,
    device: str = "cpu",
    threads: int = 1,
    memory: float | None = None,
) -> Simulation:
    """A simulation at round 0. One thread by default, so that the bits do not depend on the load;
    `memory` (bytes) is `trials.federation.memory_budget` by default.
    """
    torch.set_num_threads(threads)
    fed = Federation(
        data,
        fit_model(spec, data.dataset),
        heterogeneity.parse(spec.heterogeneity),
        spec.settings,
        spec.seed,
        _device(device),
        memory,
    )
    return Simulation(spec.configured(), fed)


def run(
    spec: TrialSpec,
    root: str | None = None,
    device: str = "cpu",
    on_evaluation: Callable[[dict[str, float]], None] = lambda entry: None,
    memory: float | None = None,
) -> tuple[Simulation, FederatedData]:
    """Load, deal and run to the end, without Ray."""
    data = deal_data(spec, load_dataset(spec, root))
    simulation = simulate(spec, data, device, memory=memory)
    on_evaluation(simulation.history[0])
    while not simulation.finished:
        on_evaluation(simulation.advance())
    return simulation, data
