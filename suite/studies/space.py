"""Search spaces: an algorithm's fields, what a study overrides, and published configurations."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from suite.yaml_files import parse_mapping
from trials.algorithm import Algorithm, Range, existing
from trials.common.errors import UserError, unknown
from trials.run.spec import refuse
from trials.settings import Number, Settings

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

NO_CONTENT = ("searched", "other", "under", "at_least", "at_most")
"""What of a range does not tell one entry's content from another's."""

COMPARED = {
    "rounds",
    "clients",
    "val_fraction",
    "dtype",
    "execution",
    "chunk",
    "fine_tune",
    "metric",
    "eval_every",
    "data_seed",
    "partition_seed",
}
"""Settings that cannot be searched: trials would no longer answer the same question."""

INTERVAL = ("low", "high", "log")
"""The keys of a range that is no list of choices."""

Finite = Annotated[float, Number, Field(allow_inf_nan=False)]


class RangeSpec(BaseModel):
    """A range as a study writes it: what is left out keeps the algorithm's own value. On `datasets`, by exact
    or bare name, what is given there goes before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    default: Any = None
    low: Finite | None = None
    high: Finite | None = None
    log: bool | None = None
    choices: tuple[Any, ...] | None = None
    datasets: Annotated[dict[str, "RangeSpec"], Field(exclude_if=lambda of: not of)] = {}

    @model_validator(mode="after")
    def _ordered(self) -> "RangeSpec":
        if nested := [name for name, spec in self.datasets.items() if spec.datasets]:
            raise ValueError(f"the range on {nested[0]} must have no data sets of its own")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low <= high must hold, but got low={self.low:g}, high={self.high:g}")
        return self

    def on(self, dataset: str) -> "RangeSpec":
        """What it says on one data set."""
        names = (dataset, dataset.split("(")[0])
        own = next((self.datasets[name] for name in names if name in self.datasets), self)
        given = own.model_dump(exclude_none=True) | {"datasets": {}}
        return self.model_copy(update=dict.fromkeys(replaced(given)) | given)

    def over(self, base: Range) -> Range:
        """`base` with what this spec gives; raises `UserError` when the result is no range."""
        given = {k: v for k in ("low", "high", "log") if (v := getattr(self, k)) is not None}
        if self.choices is not None:
            choices = tuple(base.check("a choice", value) for value in self.choices)
            return Range("choice", choices=choices, when=base.when, under=base.under)
        if given and base.choices is not None:
            raise UserError(
                f"is one of {', '.join(map(str, base.choices))}: give choices, not low or high"
            )
        return replace(base, searched=True, **given) if given else base


def replaced(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a range of which one written over it leaves nothing: choices take the place of an interval,
    and an interval that of choices.
    """
    if given.get("choices") is not None:
        return INTERVAL
    return ("choices",) if any(given.get(key) is not None for key in INTERVAL) else ()


def both_forms(spec: Any) -> bool:
    """Whether a range as written has choices and an interval at once, on all data sets or on one."""
    if not isinstance(spec, Mapping):
        return False
    on = spec.get("datasets")
    among = on.values() if isinstance(on, Mapping) else ()
    both = replaced(spec) == INTERVAL and any(spec.get(key) is not None for key in INTERVAL)
    return both or any(map(both_forms, among))


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


class Implied(BaseModel):
    """What a paper's settings imply for the default configuration of a scenario: `params` as they are, and `of_rounds` as
    shares of the study's rounds; on the data sets and models that are named, or on all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    params: dict[str, Any] = {}
    of_rounds: dict[str, float] = {}
    source: str
    datasets: list[str] = []
    models: list[str] = []

    def matches(self, dataset: str, model: str) -> bool:
        """Whether it is implied for this data set and model."""
        named = not self.datasets or bool({dataset, dataset.split("(")[0]} & set(self.datasets))
        return named and (not self.models or model in self.models)

    def values(self, rounds: int) -> dict[str, Any]:
        """The hyperparameters under so many rounds."""
        return self.params | {name: part * rounds for name, part in self.of_rounds.items()}


class SpaceFile(BaseModel):
    """`search_spaces/<algorithm>.yaml`; the first of its `defaults` that matches a scenario holds there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    defaults: list[Implied] = []
    published: list[Published] = []

    def implied(self, dataset: str, model: str) -> Implied | None:
        """What is implied for the default configuration of a scenario; None where nothing is."""
        return next((one for one in self.defaults if one.matches(dataset, model)), None)


def space_file(algorithm: str) -> SpaceFile:
    """What is published of an algorithm; nothing where it has no YAML (a third party's)."""
    path = files("search_spaces").joinpath(f"{algorithm}.yaml")
    if "/" in algorithm or not path.is_file():
        return SpaceFile()
    return SpaceFile.model_validate(parse_mapping(path.read_text(), path.name))


@dataclass(frozen=True)
class Space:
    """What one entry searches: a range and a default configuration value for each name.

    Names are the algorithm's hyperparameters and the settings that the study moved into the search.
    """

    ranges: Mapping[str, Range]
    default_values: Mapping[str, Any]

    @classmethod
    def build(
        cls,
        name: str,
        algorithm: type[Algorithm],
        settings: Settings,
        search: Mapping[str, RangeSpec],
        costs: Collection[str] = (),
    ) -> "Space":
        """The algorithm's ranges, overridden by `search`: keys `lr` (any hyperparameter it has),
        `batch_size` (a setting), or `fedprox.mu` (this algorithm's only, which goes before). `costs` are
        those that the study bounds: what may be searched only `under` one of them is.

        Raises `UserError` on an unknown name, low > high, a default of the wrong type or outside of the range that is
        searched, or a range for what may be searched only under a cost that the study leaves free.
        """
        default = dict(algorithm.configured({}).__dict__)
        ranges = {
            name: replace(spec, searched=spec.searched or spec.under in costs)
            for name, spec in algorithm.ranges().items()
        }
        of_all_first = sorted(search.items(), key=lambda item: "." in item[0])
        for key, spec in of_all_first:
            owner, dot, field = key.rpartition(".")
            if dot and owner != name:
                continue
            try:
                if field in ranges:
                    ranges[field], default[field] = _hyperparameter(
                        ranges[field], default[field], spec
                    )
                elif not dot and field in Settings.model_fields:
                    ranges[field], default[field] = _setting(field, settings, spec)
                elif dot:
                    raise unknown("hyperparameter", field, ranges)
                if field in Settings.model_fields:
                    for value in spec.choices or (spec.low, spec.high):
                        changed = Settings(**{**settings.model_dump(), field: value})
                        refuse(name, algorithm, changed)
                if field in ranges:
                    _needs_bound(ranges[field], costs)
                    _holds_default(ranges[field], spec)
            except UserError as error:
                raise UserError(f"{key}: {error}") from None
        fixed = {k: _fixed(v, default[k]) for k, v in ranges.items() if not v.searched}
        return cls({**ranges, **fixed}, default)

    @property
    def searched(self) -> dict[str, Range]:
        """The ranges of more than one value."""
        return {name: spec for name, spec in self.ranges.items() if spec.several}

    def active(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the names that exist under each other."""
        return existing(values, self.ranges)

    @property
    def ordered(self) -> list[str]:
        """The names, each after those that it exists under."""

        def depth(name: str) -> int:
            return max((1 + depth(other) for other in self.ranges[name].when or {}), default=0)

        return sorted(self.ranges, key=depth)

    def default(self, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The common starting point, or a published configuration on top of it."""
        return self.active({**self.default_values, **(overrides or {})})

    def holds(self, name: str, value: Any) -> bool:
        """Whether a name is searched, and a value of it within its range."""
        return name in self.searched and _inside(self.searched[name], value)

    def corners(self) -> Iterator[dict[str, Any]]:
        """The default configuration, and it with every other choice of one name."""
        yield self.default()
        for name, spec in self.ranges.items():
            for value in spec.choices or ():
                yield self.default({name: value})

    def suggest(self, trial: "optuna.Trial") -> dict[str, Any]:
        """Ask a sampler for a configuration; conditional names are asked only where they exist."""
        values: dict[str, Any] = {}
        for name in self.ordered:
            spec = self.ranges[name]
            if all(values.get(k) == v for k, v in (spec.when or {}).items()):
                values[name] = _suggest(trial, name, spec)
        return self.active(values)

    def distributions(self, values: Mapping[str, Any]) -> "dict[str, BaseDistribution] | None":
        """Optuna's distributions of the names in `values`; None when a value lies outside its own,
        so that no sampler may be told of it.
        """
        if not all(_inside(self.ranges[name], value) for name, value in values.items()):
            return None
        return {name: _distribution(self.ranges[name]) for name in values}

    def points(self, name: str, count: int) -> list[Any]:
        """A grid's values of one name: all choices, or `count` values from low to high, evenly spaced
        on its scale; whole numbers are rounded and occur once.
        """
        spec = self.ranges[name]
        if spec.choices is not None:
            return list(spec.choices)
        assert spec.low is not None
        assert spec.high is not None
        values = [spec.low]
        if spec.low != spec.high and count > 1:
            spaced = np.geomspace if spec.log else np.linspace
            values = [spec.low, *map(float, spaced(spec.low, spec.high, count)[1:-1]), spec.high]
        return list(dict.fromkeys(round(v) for v in values)) if spec.type == "int" else values

    def most_points(self, count: int) -> int:
        """How many configurations a grid of `count` values an interval has at most."""
        sizes = []
        for name in self.ordered:
            spec = self.ranges[name]
            if spec.choices is not None:
                sizes.append(len(spec.choices))
            else:
                assert spec.low is not None
                assert spec.high is not None
                whole = spec.type == "int" or spec.low == spec.high
                sizes.append(min(count, int(spec.high - spec.low) + 1) if whole else count)
        return math.prod(sizes)

    def describe(self) -> dict[str, Any]:
        """Plain data that identifies the space (part of an entry's content)."""
        return {
            name: {
                k: v
                for k, v in spec.__dict__.items()
                if v not in (None, False) and k not in NO_CONTENT
            }
            | {"default": self.default_values[name]}
            for name, spec in self.ranges.items()
        }


def _fixed(spec: Range, value: Any) -> Range:
    """The range that holds only this value."""
    if spec.choices is not None:
        return replace(spec, choices=(value,))
    return replace(spec, low=value, high=value)


def _needs_bound(spec: Range, costs: Collection[str]) -> None:
    """Raise `UserError` when a range is searched whose cost the study leaves free."""
    if spec.under and spec.searched and spec.several and spec.under not in costs:
        raise UserError(
            f"is searched only under a constraint on {spec.under}: "
            "the score alone would drive it to the end of its range"
        )


def _holds_default(found: Range, given: RangeSpec) -> None:
    """Raise `UserError` when a study gives a default that its search would never try again."""
    if given.default is None or not found.searched or _inside(found, given.default):
        return
    choices = ", ".join(map(str, found.choices or ()))
    values = f"one of {choices}" if choices else f"{found.low:g} to {found.high:g}"
    raise UserError(f"default {given.default} must lie in the range that is searched, {values}")


def _hyperparameter(base: Range, default: Any, spec: RangeSpec) -> tuple[Range, Any]:
    """An algorithm's own range with what a study changes of it, and its default configuration value."""
    return spec.over(base), default if spec.default is None else base.check("default", spec.default)


def _setting(field: str, settings: Settings, spec: RangeSpec) -> tuple[Range, Any]:
    """The range of a shared setting that a study moves into the search, and its default configuration value."""
    if field in COMPARED:
        raise UserError("has to be the same for all trials, or they could not be compared")
    fixed = settings.model_dump()
    if spec.choices is not None:
        found = Range("choice", choices=spec.choices)
    elif spec.low is None or spec.high is None:
        raise UserError("a setting that is searched needs low and high, or choices")
    else:
        real = _real(Settings.model_fields[field].annotation)
        found = Range("float" if real else "int", spec.low, spec.high, bool(spec.log))
    default = fixed[field] if spec.default is None else spec.default
    for value in (default, *(spec.choices or (spec.low, spec.high))):
        try:
            Settings(**{**fixed, field: value})
        except ValidationError as error:
            rule = error.errors()[0]["msg"].replace("Input should", "must")
            raise UserError(f"{value!r} is no {field}: {rule}") from None
    return found, default


def _real(annotation: Any) -> bool:
    """Whether a setting is a real number, or one that may be left out."""
    return annotation is float or any(map(_real, get_args(annotation)))


def _suggest(trial: "optuna.Trial", name: str, spec: Range) -> Any:
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
    return isinstance(value, int | float) and spec.low <= value <= spec.high


def _distribution(spec: Range) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if spec.choices is not None:
        return CategoricalDistribution(spec.choices)
    assert spec.low is not None
    assert spec.high is not None
    if spec.type == "int":
        return IntDistribution(int(spec.low), int(spec.high), log=spec.log)
    return FloatDistribution(spec.low, spec.high, log=spec.log)
