"""One trial, as data: its scenario, everything that decides its numbers, and how a process is to run it."""

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
"""Functions that return the canonical spelling of a part of a scenario; they raise `UserError` for unknown names."""


class Scenario(NamedTuple):
    """Data set, model and heterogeneity level, in this order."""

    dataset: str
    model: str
    heterogeneity: str

    @classmethod
    def of(cls, named: Any) -> Self:
        """Return the scenario that something names: files and records have its three parts as attributes."""
        return cls(named.dataset, named.model, named.heterogeneity)

    @classmethod
    def canonical(cls, dataset: str, model: str, heterogeneity: str) -> Self:
        """Return it with the canonical spelling of each part; raise `UserError` for the first unknown one."""
        names = dataset, model, heterogeneity
        return cls(*(spell(name) for spell, name in zip(SPELLING.values(), names, strict=True)))

    @property
    def code(self) -> list[str]:
        """Return the names that may load third-party code."""
        return [self.dataset, *self.model_code, *split_top(self.heterogeneity, "+")]

    @property
    def model_code(self) -> list[str]:
        """Return the model's name where it loads third-party code. torchvision is a dependency and does not count."""
        others = plugins.named(self.model) and not self.model.startswith(TORCHVISION)
        return [self.model] if others else []

    def names(self) -> dict[str, Any]:
        """Return the parts by name, as files and records hold them."""
        return self._asdict()

    def __str__(self) -> str:
        return " · ".join(self)


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
        """Return the task, with the metric that it is judged by."""
        return datasets.parse(self.dataset).task.by(self.settings.metric)

    @property
    def scenario(self) -> Scenario:
        """Return its data set, model and level."""
        return Scenario.of(self)

    @property
    def code(self) -> list[str]:
        """Return its names; some may load third-party code."""
        return [self.algorithm, *self.scenario.code]

    def configured(self) -> Algorithm:
        """Return the algorithm with its hyperparameters; raise `UserError` when it refuses a setting."""
        cls = algorithms.resolve(self.algorithm)
        refuse(self.algorithm, cls, self.settings, self.heterogeneity)
        return cls.configured(self.params)

    @property
    def dataset_key(self) -> str:
        """Return the key of the loaded data set."""
        return f"{self.dataset}|{self.settings.data_seed}|{self.settings.clients}"

    @property
    def data_key(self) -> str:
        """Return the key of the data set partitioned to clients."""
        level = heterogeneity.parse(self.heterogeneity).dealing
        s = self.settings
        return f"{self.dataset_key}|{level}|{s.val_fraction}|{s.partition_seed}"


def canonical(
    algorithm: str, params: dict[str, Any], scenario: Scenario, settings: Settings, seed: int
) -> TrialSpec:
    """Return a spec in canonical spelling, with all params; raise `UserError` for the first thing that is wrong."""
    configured = algorithms.resolve(algorithm).configured(params)
    names = {"algorithm": algorithms.canonical(algorithm), **Scenario.canonical(*scenario).names()}
    return TrialSpec(**names, params=configured.params(), settings=settings, seed=seed)


def refuse(name: str, cls: type[Algorithm], settings: Settings, level: str = "iid") -> None:
    """Raise `UserError` when an algorithm cannot honour one of the settings, or the level."""
    asked = _asked(settings, level)
    for setting, reason in cls.unsupported.items():
        if setting in asked:
            raise UserError(f"{name} cannot run with {asked[setting]}: {reason}")
    for setting in ("optimizer", "keep_moments"):
        if setting in asked and not vars(cls).get("any_optimizer"):
            reason = "its own class does not say any_optimizer, so its steps are SGD's"
            raise UserError(f"{name} cannot run with {asked[setting]}: {reason}")


def _asked(settings: Settings, level: str) -> dict[str, str]:
    """Return in words what is unusual in settings and level, by the keys of `Algorithm.unsupported`."""
    uneven = heterogeneity.parse(level).changes_work
    asked = {"system": f"{level}, where devices do unequal work"} if uneven else {}
    for key, value in settings.model_dump().items():
        keys = [key] if value != Settings.model_fields[key].default else []
        asked |= dict.fromkeys([*keys, f"{key}={value}"], f"{key}={value}")
    return asked


def away(cls: type[Algorithm], settings: Settings, level: str) -> str:
    """Return in words what settings and a level lack of the experiments of the algorithm's paper; "" for nothing."""
    asked = _asked(settings, level)
    return "; ".join(reason for key, reason in cls.home.items() if key not in asked)


def outside(cls: type[Algorithm], settings: Settings) -> str:
    """Return in words which settings are not those that the algorithm's paper assumes; "" where all are."""
    reasons = []
    for key, (value, reason) in cls.requires.items():
        if (asked := getattr(settings, key)) != value:
            reasons.append(f"{key} is {asked}, its paper's {value}: {reason}")
    return "; ".join(reasons)


PACK = "pack"  # the one key of Tune's `config`


@with_config(ser_json_inf_nan="constants")
@dataclass(frozen=True)
class TrialConfig:
    """One trial to run, and how: what Ray Tune hands to the process of a trial.

    `stops` are rounds at which a scheduler decides. `memory_budget` (bytes) is for clients that are computed at once,
    `members` how many trials its process has at most, `need` what Ray sets aside for it.
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
    """Return Tune's `config` of trials by id: one string, since Tune copies, flattens and prints what is in it."""
    return {PACK: _PACK.dump_json(dict(configs), exclude_defaults=True).decode()}


def unpacked(config: Mapping[str, Any]) -> dict[str, TrialConfig]:
    """Read Tune's `config`."""
    return _PACK.validate_json(config[PACK])
