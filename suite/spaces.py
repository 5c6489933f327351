"""Search spaces: an algorithm's fields, what a study overrides, and published configurations."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import optuna
import yaml
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from pydantic import BaseModel, ConfigDict, model_validator

from trials.algorithm import Algorithm, Range
from trials.errors import UserError, unknown
from trials.settings import Settings


class RangeSpec(BaseModel):
    """A range as a study writes it: what is left out keeps the algorithm's own value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    default: Any = None
    low: float | None = None
    high: float | None = None
    log: bool | None = None
    choices: tuple[Any, ...] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "RangeSpec":
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low <= high must hold, but got low={self.low:g}, high={self.high:g}")
        return self

    def over(self, base: Range) -> Range:
        """`base` with what this spec gives; raises `UserError` when the result is no range."""
        given = {k: v for k in ("low", "high", "log") if (v := getattr(self, k)) is not None}
        if self.choices is not None:
            return Range("choice", choices=self.choices, when=base.when)
        return replace(base, **given)


class Published(BaseModel):
    """A configuration a paper states, for data sets (bare or exact names) and models (exact)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    params: dict[str, Any]
    source: str
    datasets: list[str]
    models: list[str]

    def matches(self, dataset: str, model: str) -> bool:
        """Whether it was published for this data set and model."""
        return model in self.models and bool({dataset, dataset.split("(")[0]} & set(self.datasets))


class SpaceFile(BaseModel):
    """`search_spaces/<algorithm>.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    published: list[Published] = []


def published(algorithm: str) -> list[Published]:
    """The published configurations of an algorithm; none where it has no YAML (a third party's)."""
    path = files("search_spaces").joinpath(f"{algorithm}.yaml")
    if "/" in algorithm or not path.is_file():
        return []
    return SpaceFile.model_validate(yaml.safe_load(path.read_text()) or {}).published


@dataclass(frozen=True)
class Space:
    """What one cell searches: a range and an anchor value for each name.

    Names are the algorithm's hyperparameters and the settings that the study moved into the search.
    """

    ranges: Mapping[str, Range]
    anchor_values: Mapping[str, Any]

    @classmethod
    def build(
        cls,
        name: str,
        algorithm: type[Algorithm],
        settings: Settings,
        search: Mapping[str, RangeSpec],
    ) -> "Space":
        """The algorithm's ranges, overridden by `search`: keys `lr` (any hyperparameter it has),
        `batch_size` (a setting), or `fedprox.mu` (this algorithm's only).

        Raises `UserError` on an unknown name, low > high, or an anchor of the wrong type.
        """
        ranges = dict(algorithm.ranges())
        anchor = dict(algorithm.configured({}).__dict__)
        fixed = settings.model_dump()
        for key, spec in search.items():
            owner, dot, field = key.rpartition(".")
            if dot and owner != name:
                continue
            if field in ranges:
                base = ranges[field]
            elif field in fixed and not dot:
                base = _setting_range(key, fixed[field], spec)
                anchor[field] = fixed[field]
            elif dot:
                raise unknown("hyperparameter", key, [f"{owner}.{r}" for r in ranges])
            else:
                continue
            ranges[field] = spec.over(base)
            anchor[field] = anchor[field] if spec.default is None else spec.default
            ranges[field].check(key, anchor[field])
        return cls(ranges, anchor)

    def active(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the names that exist under each other."""
        return {
            name: values[name]
            for name, spec in self.ranges.items()
            if name in values and all(values.get(k) == v for k, v in (spec.when or {}).items())
        }

    def anchor(self, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The common starting point, or a published configuration on top of it."""
        return self.active({**self.anchor_values, **(overrides or {})})

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Ask a sampler for a configuration; conditional names are asked only where they exist."""
        values: dict[str, Any] = {}
        for name, spec in sorted(self.ranges.items(), key=lambda item: len(item[1].when or {})):
            if all(values.get(k) == v for k, v in (spec.when or {}).items()):
                values[name] = _suggest(trial, name, spec)
        return self.active(values)

    def distributions(self, values: Mapping[str, Any]) -> dict[str, BaseDistribution] | None:
        """Optuna's distributions of the names in `values`; None when a value lies outside its own,
        so that no sampler may be told of it.
        """
        if not all(_inside(self.ranges[name], value) for name, value in values.items()):
            return None
        return {name: _distribution(self.ranges[name]) for name in values}

    def describe(self) -> dict[str, Any]:
        """Plain data that identifies the space (part of a cell's content)."""
        return {
            name: {k: v for k, v in spec.__dict__.items() if v not in (None, False)}
            | {"default": self.anchor_values[name]}
            for name, spec in self.ranges.items()
        }


def _setting_range(key: str, value: Any, spec: RangeSpec) -> Range:
    if spec.choices is not None:
        return Range("choice", choices=spec.choices)
    if spec.low is None or spec.high is None:
        raise UserError(f"{key}: a setting that is searched needs low and high, or choices")
    return Range("int" if isinstance(value, int) else "float", spec.low, spec.high)


def _suggest(trial: optuna.Trial, name: str, spec: Range) -> Any:
    if spec.choices is not None:
        return trial.suggest_categorical(name, spec.choices)
    assert spec.low is not None
    assert spec.high is not None
    if spec.type == "int":
        return trial.suggest_int(name, int(spec.low), int(spec.high), log=spec.log)
    return trial.suggest_float(name, spec.low, spec.high, log=spec.log)


def _inside(spec: Range, value: Any) -> bool:
    if spec.choices is not None:
        return value in spec.choices
    assert spec.low is not None
    assert spec.high is not None
    return spec.low <= value <= spec.high


def _distribution(spec: Range) -> BaseDistribution:
    if spec.choices is not None:
        return CategoricalDistribution(spec.choices)
    assert spec.low is not None
    assert spec.high is not None
    if spec.type == "int":
        return IntDistribution(int(spec.low), int(spec.high), log=spec.log)
    return FloatDistribution(spec.low, spec.high, log=spec.log)
