"""The specification of a trial: its scenario, all that determines its numbers, and how a process shall run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, with_config

from trials import algorithms, datasets, heterogeneity, models
from trials.algorithm import Algorithm
from trials.common import plugins
from trials.common.errors import UserError
from trials.common.names import split_top
from trials.models.own import TORCHVISION
from trials.scoring.metrics import Task
from trials.settings import Settings

SPELLING = {
    "dataset": datasets.canonical,
    "model": models.canonical,
    "heterogeneity": lambda level: heterogeneity.parse(level).name,
}
"""For each part of a scenario the function that returns its canonical spelling, or raises `UserError` for an unknown name."""


class Scenario(NamedTuple):
    """The learning problem of a trial: the names of a data set, a model and a heterogeneity level."""

    dataset: str
    model: str
    heterogeneity: str

    @classmethod
    def of(cls, named: Any) -> Self:
        """Return the scenario of an object with attributes `dataset`, `model` and `heterogeneity`, such as a `TrialSpec`."""
        return cls(named.dataset, named.model, named.heterogeneity)

    @classmethod
    def canonical(cls, dataset: str, model: str, heterogeneity: str) -> Self:
        """Return the scenario with the canonical spelling of each part; raise `UserError` for the first unknown name."""
        names = dataset, model, heterogeneity
        return cls(*(spell(name) for spell, name in zip(SPELLING.values(), names, strict=True)))

    @property
    def code(self) -> list[str]:
        """Return the names that may stand for third-party code: data set, parts of the level, and any third-party model."""
        return [self.dataset, *self.model_code, *split_top(self.heterogeneity, "+")]

    @property
    def model_code(self) -> list[str]:
        """Return a list with the model's name if the model is third-party code other than torchvision's, else []."""
        third_party = plugins.named(self.model) and not self.model.startswith(TORCHVISION)
        return [self.model] if third_party else []

    def names(self) -> dict[str, Any]:
        """Return the scenario as a dict with the keys `dataset`, `model` and `heterogeneity`."""
        return self._asdict()

    def __str__(self) -> str:
        return " · ".join(self)


class TrialSpec(BaseModel):
    """The whole input of a run. Equal specs give equal bits on equal machines with equal library versions."""

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
        """Return the data set's task, with the metric by which the run is ranked."""
        return datasets.parse(self.dataset).task.by(self.settings.metric)

    @property
    def scenario(self) -> Scenario:
        """Return the data set, model and heterogeneity level."""
        return Scenario.of(self)

    @property
    def code(self) -> list[str]:
        """Return the names that may stand for third-party code: algorithm, data set, parts of the level, and any third-party model."""
        return [self.algorithm, *self.scenario.code]

    def configured(self) -> Algorithm:
        """Return the algorithm with its hyperparameters. Raise `UserError` if it does not support the settings or level."""
        cls = algorithms.resolve(self.algorithm)
        refuse(self.algorithm, cls, self.settings, self.heterogeneity)
        return cls.configured(self.params)

    @property
    def dataset_key(self) -> str:
        """Return a key that two specifications share only if they have the same samples and the same test samples."""
        return f"{self.dataset}|{self.settings.data_seed}|{self.settings.clients}"

    @property
    def data_key(self) -> str:
        """Return a key that two specifications share only if each client has the same samples in both."""
        level = heterogeneity.parse(self.heterogeneity).dealing
        s = self.settings
        return f"{self.dataset_key}|{level}|{s.val_fraction}|{s.partition_seed}"


def canonical(
    algorithm: str, params: dict[str, Any], scenario: Scenario, settings: Settings, seed: int
) -> TrialSpec:
    """Return a trial specification with canonical names and all hyperparameters. Raise `UserError` for a wrong name or value."""
    configured = algorithms.resolve(algorithm).configured(params)
    names = {"algorithm": algorithms.canonical(algorithm), **Scenario.canonical(*scenario).names()}
    return TrialSpec(**names, params=configured.params(), settings=settings, seed=seed)


def refuse(name: str, cls: type[Algorithm], settings: Settings, level: str = "iid") -> None:
    """Raise `UserError` if an algorithm does not support the settings or the heterogeneity level."""
    conditions = _conditions(settings, level)
    for setting, reason in cls.unsupported.items():
        if setting in conditions:
            raise UserError(f"{name} cannot run with {conditions[setting]}: {reason}")
    for setting in ("optimizer", "keep_moments"):
        if setting in conditions and not vars(cls).get("any_optimizer"):
            reason = "its own class does not say any_optimizer, so its steps are SGD's"
            raise UserError(f"{name} cannot run with {conditions[setting]}: {reason}")


def _conditions(settings: Settings, level: str) -> dict[str, str]:
    """Return the conditions (keys of `Algorithm.unsupported`) that settings and level meet, each with a text for messages."""
    uneven = heterogeneity.parse(level).changes_work
    conditions = {"system": f"{level}, where devices do unequal work"} if uneven else {}
    for key, value in settings.model_dump().items():
        keys = [key] if value != Settings.model_fields[key].default else []
        conditions |= dict.fromkeys([*keys, f"{key}={value}"], f"{key}={value}")
    return conditions


def away(cls: type[Algorithm], settings: Settings, level: str) -> str:
    """Return a text on the paper's conditions (`Algorithm.home`) that settings and level do not meet; "" if there are none."""
    conditions = _conditions(settings, level)
    return "; ".join(reason for key, reason in cls.home.items() if key not in conditions)


def outside(cls: type[Algorithm], settings: Settings) -> str:
    """Return a message that lists the settings outside the paper's assumptions (`Algorithm.requires`), or "" if there are none."""
    reasons = []
    for key, (assumed, reason) in cls.requires.items():
        if (value := getattr(settings, key)) != assumed:
            reasons.append(f"{key} is {value}, its paper's {assumed}: {reason}")
    return "; ".join(reasons)


PACK = "pack"  # the one key of Tune's `config`


@with_config(ser_json_inf_nan="constants")
@dataclass(frozen=True)
class TrialConfig:
    """A trial to run, and how to run it, as Ray Tune sends it to a worker process.

    `stops` are the rounds after which a scheduler may end the trial. `memory_budget` is the limit in bytes for clients that
    are computed at once, `members` the most trials of one process, and `need` the resources that Ray reserves.
    """

    trial: TrialSpec
    stops: tuple[int, ...] = ()
    device: str = "cpu"
    threads: int = 1
    memory_budget: float | None = None
    members: int = 1
    need: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1})
    checkpoint: str | None = None
    checkpoint_seconds: float = 60.0


_PACK = TypeAdapter(dict[str, TrialConfig])


def packed(configs: Mapping[str, TrialConfig]) -> dict[str, str]:
    """Return a `config` for Ray Tune that holds trials (`configs`, by id) as one JSON string."""
    # Tune copies and prints every value of a config.
    return {PACK: _PACK.dump_json(dict(configs), exclude_defaults=True).decode()}


def unpacked(config: Mapping[str, Any]) -> dict[str, TrialConfig]:
    """Read the trials, by id, from the `config` of Ray Tune that `packed` has written."""
    return _PACK.validate_json(config[PACK])
