"""One trial, as data: everything that decides its numbers, checked."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from trials import algorithms, datasets, heterogeneity
from trials.algorithm import Algorithm
from trials.common.errors import UserError
from trials.run.scenario import Scenario
from trials.scoring.metrics import Task
from trials.settings import Settings


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

    @property
    def task(self) -> Task:
        """What it is judged by."""
        return datasets.parse(self.dataset).task.by(self.settings.metric)

    @property
    def scenario(self) -> Scenario:
        """Its data set, model and level."""
        return Scenario.of(self)

    @property
    def code(self) -> list[str]:
        """Its names; some may load third-party code."""
        return [self.algorithm, *self.scenario.code]

    def configured(self) -> Algorithm:
        """The algorithm with its hyperparameters; raises `UserError` when it refuses a setting."""
        cls = algorithms.resolve(self.algorithm)
        refuse(self.algorithm, cls, self.settings, self.heterogeneity)
        return cls.configured(self.params)

    @property
    def dataset_key(self) -> str:
        """The key of the loaded data set."""
        return f"{self.dataset}|{self.settings.data_seed}|{self.settings.clients}"

    @property
    def data_key(self) -> str:
        """The key of the data set partitioned to clients."""
        level = heterogeneity.parse(self.heterogeneity).dealing
        s = self.settings
        return f"{self.dataset_key}|{level}|{s.val_fraction}|{s.partition_seed}"


def canonical(
    algorithm: str,
    params: dict[str, Any],
    scenario: Scenario,
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
        **Scenario.canonical(*scenario).names(),
        settings=settings,
        seed=seed,
    )


def refuse(name: str, cls: type[Algorithm], settings: Settings, level: str = "iid") -> None:
    """Raise `UserError` when an algorithm cannot honour one of the settings, or the level."""
    given = _given(settings, level)
    for setting, reason in cls.unsupported.items():
        if setting in given:
            raise UserError(f"{name} cannot run with {given[setting]}: {reason}")


def _given(settings: Settings, level: str) -> dict[str, str]:
    """What settings and a level have, in the keys of `Algorithm.unsupported`, and in words."""
    uneven = heterogeneity.parse(level).changes_work
    given = {"system": f"{level}, where devices do unequal work"} if uneven else {}
    for key, value in settings.model_dump().items():
        given[f"{key}={value}"] = f"{key}={value}"
        if value != Settings.model_fields[key].default:
            given[key] = f"{key}={value}"
    return given


def away(cls: type[Algorithm], settings: Settings, level: str) -> str:
    """What settings and a level lack of the experiments of the algorithm's paper, in words; "" where they lack nothing."""
    given = _given(settings, level)
    return "; ".join(reason for key, reason in cls.home.items() if key not in given)


def outside(cls: type[Algorithm], settings: Settings) -> str:
    """How settings are not those that the algorithm's paper assumes, in words; "" where they are."""
    given = settings.model_dump()
    return "; ".join(
        f"{key} is {given[key]}, its paper's {value}: {reason}"
        for key, (value, reason) in cls.requires.items()
        if given[key] != value
    )
