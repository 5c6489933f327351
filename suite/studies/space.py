"""Search spaces: an algorithm's ranges, the overrides of a study, and the values that papers state."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import numpy as np
from pydantic import Field, ValidationError, model_validator

from suite.studies.validation import Written, rule
from suite.yaml_files import parse_mapping
from trials.algorithm import Algorithm, Range, existing
from trials.common.errors import UserError
from trials.run.spec import Scenario, refuse
from trials.settings import Number, Settings

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

LARGEST_GRID = 100_000
"""The most configurations of a grid, which is made as a whole before its order is drawn."""
NO_CONTENT = ("searched", "other", "under", "rate", "at_least", "at_most")
"""The fields of a range that the id of an entry does not depend on."""
COMPARED = {"rounds", "clients", "val_fraction", "dtype", "execution", "chunk", "fine_tune"}
COMPARED |= {"metric", "eval_every", "data_seed", "partition_seed"}
"""The settings that cannot be searched, since trials that differ in them cannot be compared."""
INTERVAL = ("low", "high", "log")
"""The keys of a range that is an interval and not a list of choices."""

Finite = Annotated[float, Number, Field(allow_inf_nan=False)]


class RangeSpec(Written):
    """A range as a study writes it, to override the usual range of a hyperparameter. Fields left out keep the usual values."""

    default: Any = None
    low: Finite | None = None
    high: Finite | None = None
    log: bool | None = None
    choices: tuple[Any, ...] | None = None

    @model_validator(mode="after")
    def _of_one_form(self) -> "RangeSpec":
        if self.choices is not None and (self.low, self.high, self.log) != (None, None, None):
            raise ValueError("must have choices, or low and high: not both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low <= high must hold, but got low={self.low:g}, high={self.high:g}")
        return self

    def over(self, base: Range) -> Range:
        """Return the range `base` with this specification's choices or bounds. Raise `UserError` if the result is invalid."""
        if self.choices is not None:
            choices = tuple(base.check("a choice", value) for value in self.choices)
            return Range("choice", choices=choices, when=base.when, under=base.under)
        interval = self.model_dump(include={*INTERVAL}, exclude_none=True)
        if interval and base.choices is not None:
            raise UserError(f"is {base}: give choices, not low or high")
        return replace(base, searched=True, **interval) if interval else base


class Stated(Written):
    """The hyperparameters that a paper states or implies for the listed data sets (with or without arguments) and models.
    An empty list means all data sets or all models. `of_rounds` has values as fractions of the study's rounds.
    """

    params: dict[str, Any] = {}
    of_rounds: dict[str, float] = {}
    source: str
    datasets: list[str] = []
    models: list[str] = []

    def matches(self, scenario: Scenario) -> bool:
        """Return whether the paper's values apply to the data set and model of a scenario."""
        names = {scenario.dataset, scenario.dataset.split("(")[0]}
        of_dataset = not self.datasets or bool(names & set(self.datasets))
        return of_dataset and (not self.models or scenario.model in self.models)


class SpaceFile(Written):
    """The content of `search_spaces/<algorithm>.yaml`: published configurations, and defaults that papers imply. A
    scenario takes the first of these defaults that matches it.
    """

    defaults: list[Stated] = []
    published: list[Stated] = []


def space_file(algorithm: str) -> SpaceFile:
    """Return the content of `search_spaces/<algorithm>.yaml`, or an empty `SpaceFile` if that file does not exist."""
    path = files("search_spaces").joinpath(f"{algorithm}.yaml")
    if "/" in algorithm or not path.is_file():
        return SpaceFile()
    return SpaceFile.model_validate(parse_mapping(path.read_text(), path.name))


@dataclass(frozen=True)
class Space:
    """The ranges and default values of an entry's hyperparameters, and of the settings that the study searches."""

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
        """Return the algorithm's space, with ranges replaced by those of `search`. A key is a setting (`batch_size`), or a
        hyperparameter of all algorithms (`mu`) or of one (`fedprox.mu`, which overrides `mu`). `costs` are those that the study
        limits, such as `uploaded_bytes`. Some hyperparameters may be searched only under such a limit. Raise `UserError` if
        that limit is missing, or for an invalid range or default.
        """
        defaults = dict(algorithm.configured({}).__dict__)
        ranges = {
            field: replace(spec, searched=spec.searched or spec.under in costs)
            for field, spec in algorithm.ranges().items()
        }
        for key in sorted(search, key=lambda key: "." in key):  # `fedprox.mu` after `mu`
            owner, _, field = key.rpartition(".")
            written = search[key]
            try:
                if field in ranges and owner in ("", name):
                    if written.default is not None:
                        defaults[field] = ranges[field].check("default", written.default)
                    ranges[field] = written.over(ranges[field])
                elif not owner and field in Settings.model_fields:
                    ranges[field] = _setting(name, algorithm, field, settings, written)
                    current = getattr(settings, field)
                    defaults[field] = current if written.default is None else written.default
                else:
                    continue
                spec = ranges[field]
                if spec.searched and spec.under and spec.several and spec.under not in costs:
                    why = "the score alone would drive it to the end of its range"
                    raise UserError(f"is searched only under a constraint on {spec.under}: {why}")
            except UserError as error:
                raise UserError(f"{key}: {error}") from None
        for field, spec in ranges.items():
            if not spec.searched:  # it keeps its default
                ranges[field] = spec.fixed(defaults[field])
        return cls(ranges, defaults)

    @property
    def searched(self) -> dict[str, Range]:
        """The ranges with more than one value, by hyperparameter."""
        return {name: spec for name, spec in self.ranges.items() if spec.several}

    @property
    def ordered(self) -> list[str]:
        """The names of all hyperparameters. A conditional one comes after the hyperparameters in its condition."""

        def depth(name: str) -> int:
            return max((1 + depth(other) for other in self.ranges[name].when or {}), default=0)

        return sorted(self.ranges, key=depth)

    def default(self, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the default values, changed by `overrides`, without conditional hyperparameters whose condition fails."""
        return existing({**self.default_values, **(overrides or {})}, self.ranges)

    def suggest(self, trial: "optuna.Trial") -> dict[str, Any]:
        """Return a configuration that Optuna's sampler suggests, without conditional hyperparameters whose condition fails."""
        values: dict[str, Any] = {}
        suggests = trial.suggest_categorical, trial.suggest_int, trial.suggest_float
        for name in self.ordered:
            if name in existing({**values, name: None}, self.ranges):
                kinds = (partial(suggest, name) for suggest in suggests)
                values[name] = _for_optuna(self.ranges[name], *kinds)
        return existing(values, self.ranges)

    def distributions(self, values: Mapping[str, Any]) -> "dict[str, BaseDistribution] | None":
        """Return Optuna's distribution for each name in `values`, or None if a value is outside its range, which Optuna refuses."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        kinds = CategoricalDistribution, IntDistribution, FloatDistribution
        if not all(self.ranges[name].holds(value) for name, value in values.items()):
            return None
        return {name: _for_optuna(self.ranges[name], *kinds) for name in values}

    def points(self, name: str, count: int) -> list[Any]:
        """Return a hyperparameter's values in a grid: all choices, or `count` values that are spaced evenly on the range's
        scale. Whole numbers are rounded, and duplicates are dropped.
        """
        spec = self.ranges[name]
        if spec.choices is not None:
            return list(spec.choices)
        spaced = np.geomspace if spec.log else np.linspace
        values = map(float, spaced(*spec.ends, count if spec.several else 1))
        return list(dict.fromkeys(map(round, values) if spec.type == "int" else values))

    def grid(self, count: int) -> list[dict[str, Any]]:
        """Return all configurations of a grid with `count` values per interval. Raise `UserError` if they exceed `LARGEST_GRID`."""
        grid: list[dict[str, Any]] = [{}]
        for name in self.ordered:  # a plain product repeats points
            values = self.points(name, min(count, LARGEST_GRID + 1))
            if len(grid) * len(values) > LARGEST_GRID:
                most = f"{LARGEST_GRID:,} configurations, the limit of a grid"
                raise UserError(f"may make more than {most}: give fewer points, or sampler: random")
            longer = []
            for point in grid:
                exists = name in existing({**point, name: None}, self.ranges)
                longer += [{**point, name: value} for value in values] if exists else [point]
            grid = longer
        return [existing(point, self.ranges) for point in grid]

    def describe(self) -> dict[str, Any]:
        """Return the space as a dict, from which the ids of entries are computed."""
        described = {}
        for name, spec in self.ranges.items():
            described[name] = {"default": self.default_values[name]}
            for key, value in vars(spec).items():
                if value not in (None, False) and key not in NO_CONTENT:
                    described[name][key] = value
        return described


def _for_optuna(spec: Range, choice: Any, whole: Any, real: Any) -> Any:
    """Call `choice` with the range's choices, or `whole` (integers) or `real` with its bounds, and return the result."""
    if spec.choices is not None:
        return choice(spec.choices)
    low, high = spec.ends
    if spec.type == "int":
        return whole(int(low), int(high), log=spec.log)
    return real(low, high, log=spec.log)


def _setting(
    name: str, algorithm: type[Algorithm], field: str, settings: Settings, written: RangeSpec
) -> Range:
    """Return the range of a setting that a study searches. Raise `UserError` for values that the algorithm cannot use."""
    if field in COMPARED:
        raise UserError("has to be the same for all trials, or they could not be compared")
    current = settings.model_dump()
    default = current[field] if written.default is None else written.default
    for value in (default, *(written.choices or (written.low, written.high))):
        if isinstance(value, float) and value.is_integer():  # ends of a range are floats
            value = int(value)
        try:
            changed = Settings(**{**current, field: value})
        except ValidationError as error:
            raise UserError(f"{field} = {value!r}: {rule(error.errors()[0])}") from None
        if value != current[field]:  # the current one is checked with the study's settings
            refuse(name, algorithm, changed)
    if written.choices is not None:
        return Range("choice", choices=written.choices)
    hint = get_type_hints(Settings)[field]  # `float`, or `float | None` of an optional setting
    kind = "float" if float in (hint, *get_args(hint)) else "int"
    return Range(kind, written.low, written.high, bool(written.log))
