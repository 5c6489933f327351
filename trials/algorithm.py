"""The base class of algorithms: hyperparameters are dataclass fields, and each part of a round is a method.

    class FedProx(FedAvg):
        mu: float = real(0.01, low=1e-4, high=1, log=True)
        def direction(self, w, g, start, **rows):
            return g + self.mu * (w - start)

is a complete algorithm. Each algorithm is a frozen dataclass whose fields are its hyperparameters, which studies search
and record. Its state is a dict of tensors and `ClientRows` that holds everything that survives a round. The method
`round` is ordinary code on the services of `trials.engine.federation.Federation`: select clients, broadcast, train,
take a gradient, upload. Each service counts its work and bytes, in the same way for every algorithm.
"""

import dataclasses
import math
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from trials.common.errors import UserError, unknown
from trials.common.tensors import Tensor

if TYPE_CHECKING:
    from trials.engine.federation import Federation
    from trials.models.base import Model
    from trials.settings import Settings

State = dict[str, Any]  # tensors and `ClientRows` by name


class Devices(NamedTuple):
    """Models (k, d) of k devices. They are scored together by the mean of the devices' scores with `weights` (k,), which sum to 1."""

    models: Tensor
    weights: Tensor


Scored = dict[str, Tensor | Devices]


@dataclass(frozen=True)
class Range:
    """The valid values of a hyperparameter, and the interval [low, high] or the `choices` that are searched.

    An algorithm declares a range as in `mu: float = real(0.01, low=1e-4, high=1, log=True)`. The interval limits the search
    only. A valid value is greater than `above`, at least `at_least` and at most `at_most`. The hyperparameter exists only if
    other hyperparameters have the values in `when`. With `searched=False` a search keeps the default, unless the study gives
    a range or limits the cost named by `under`. A `rate` is a step size, whose best value differs between data sets.
    `other` returns the canonical form of a value outside `choices`, or raises `UserError`.
    """

    type: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] | None = None
    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    when: Mapping[str, Any] | None = None
    searched: bool = True
    under: str | None = None
    rate: bool = False
    other: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.choices is not None:
            if not self.choices:
                raise UserError("choices must not be empty")
            if [*map(self.choices.index, self.choices)] != [*range(len(self.choices))]:
                raise UserError(f"choices {self.choices} must differ (True and 1 are equal)")
            return
        if self.low is None or self.high is None:
            raise UserError("a range needs low and high, or choices")
        for end in ("low", "high"):
            self.check(end, getattr(self, end))
        if self.low > self.high:
            raise UserError(f"low <= high must hold, but got low={self.low:g}, high={self.high:g}")
        if self.log and self.low <= 0:
            raise UserError(f"low > 0 must hold on a log scale, but got low={self.low:g}")

    def __str__(self) -> str:
        if self.choices is not None:
            return f"one of {', '.join(map(str, self.choices))}"
        return f"{self.low:g} to {self.high:g}"

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Return the lower and the upper bound of valid values (None: no bound)."""
        return self.at_least if self.above is None else self.above, self.at_most

    @property
    def ends(self) -> tuple[float, float]:
        """Return the interval (low, high). Raise `AssertionError` if the range has `choices` instead."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @property
    def several(self) -> bool:
        """Return whether the range holds more than one value."""
        return len(self.choices) > 1 if self.choices is not None else self.low != self.high

    def holds(self, value: Any) -> bool:
        """Return whether the value is one of the choices, or a number in [low, high]."""
        if self.choices is not None:
            return value in self.choices
        low, high = self.ends
        return isinstance(value, int | float) and low <= value <= high

    def fixed(self, value: Any) -> "Range":
        """Return a copy of the range that holds only this value."""
        ends = {"low": value, "high": value} if self.choices is None else {"choices": (value,)}
        return dataclasses.replace(self, **ends)

    def share(self, value: float) -> float:
        """Return a number's position in the interval: 0 at `low`, 1 at `high`. The position is logarithmic if `log` is set, else linear."""
        low, high = self.ends
        if self.log and value <= 0:  # set by a user: it lies below every logarithmic range
            return -math.inf
        scale = math.log if self.log else float
        return (scale(value) - scale(low)) / (scale(high) - scale(low))

    def at(self, share: float) -> Any:
        """Return the value at the position `share` (0 <= share < 1) in the interval. Each of the `choices` has an equal part of [0, 1)."""
        if self.choices is not None:
            return self.choices[int(share * len(self.choices))]
        low, high = self.ends
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        value = min(max(value, low), high)  # rounding may leave the interval
        return round(value) if self.type == "int" else value

    def check(self, name: str, value: Any) -> Any:
        """Return a hyperparameter's value, converted to its type. Raise `UserError` for a wrong type, an unknown choice, or a
        number that the algorithm cannot use. Numbers outside [low, high] are allowed, since only searches keep to this interval.
        """
        if self.choices is not None:
            if value in self.choices:
                return value
            if self.other is not None:
                return self.other(value)
            raise UserError(f"{name} is {value!r}, but must be {self}")
        integer = self.type == "int"
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # MLflow and JSON would change a larger number.
        limit = 2**63 - 1 if integer else sys.float_info.max
        if not number or not abs(value) <= limit or (integer and value != int(value)):
            kind = "whole number" if integer else "finite number" if number else "number"
            raise UserError(f"{name} is {value!r}, but must be a {kind}")
        rules = (
            (self.above, operator.gt, "above"),
            (self.at_least, operator.ge, "at least"),
            (self.at_most, operator.le, "at most"),
        )
        for bound, holds, relation in rules:
            if bound is not None and not holds(value, bound):
                raise UserError(f"{name} is {value!r}, but must be {relation} {bound:g}")
        return int(value) if integer else float(value)


def existing(values: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, Any]:
    """Return the values of the hyperparameters that apply. For example, FOLB's `psi` applies only if `variant` is `heterogeneity`."""

    def exists(name: str) -> bool:
        when = ranges[name].when or {} if name in ranges else {}
        return name in values and all(values.get(k) == v and exists(k) for k, v in when.items())

    return {name: values[name] for name in ranges if exists(name)}


def real(default: float, low: float, high: float, log: bool = False, **more: Any) -> Any:
    """Return the dataclass field of a real hyperparameter, which is searched in [low, high]. `more` has other arguments of `Range`."""
    return _field(default, Range("float", low, high, log, **more))


def whole(default: int, low: int, high: int, log: bool = False, **more: Any) -> Any:
    """Return the dataclass field of an integer hyperparameter, which is searched in [low, high]. `more` has other arguments of `Range`."""
    return _field(default, Range("int", low, high, log, **more))


def choice(default: Any, choices: tuple[Any, ...], **more: Any) -> Any:
    """Return the dataclass field of a hyperparameter that is one of `choices`. `more` has other arguments of `Range`."""
    return _field(default, Range("choice", choices=choices, **more))


def _field(default: Any, spec: Range) -> Any:
    return dataclasses.field(default=default, metadata={"range": spec})


@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm: a frozen dataclass of hyperparameters with an initial state, a round, and models to score.

    `suite new algorithm NAME` writes an example. `paper` names the source. During a round `lr` is that round's learning
    rate, after the study's decay. Listings show the module's docstring as the summary of the algorithm, and
    docs/algorithms.md prints the class docstring from the line `Equations:` on.
    """

    paper: ClassVar[str] = ""
    reference: ClassVar[bool] = False
    """Whether leaderboards show it without a rank, as a reference: it uses all data or devices, or never communicates."""
    ranked_under: ClassVar[str] = ""
    """The value of the setting `metric` under which a reference is ranked after all; "" for none."""
    unsupported: ClassVar[Mapping[str, str]] = {}
    """The settings that the algorithm refuses, with the reasons. A key is `setting=value`, `setting` (any value but the
    default), or `system` (a heterogeneity level under which devices do unequal work, as with `+system(...)`)."""
    any_optimizer: ClassVar[bool] = False
    """Whether a study may choose Adam, AdamW or `keep_moments` for local steps. True only if each client trains once a
    round and the server uses its final weights, not its rate or number of steps. Subclasses do not inherit the value."""
    requires: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """The settings that its paper takes for granted, with the value and the reason. Under another value a leaderboard
    shows the reason in place of a rank."""
    home: ClassVar[Mapping[str, str]] = {}
    """The conditions of its paper's experiments, with keys as in `unsupported`, and what each one is. A leaderboard marks
    a row without them."""

    lr: float = real(0.1, low=1e-3, high=1.0, log=True, above=0, rate=True)

    def init(self, fed: "Federation") -> State:
        """Return the state before round 1."""
        raise NotImplementedError

    def round(self, state: State, fed: "Federation") -> State:
        """Run one round, and return the state after the round."""
        raise NotImplementedError

    def scored(self, state: State, fed: "Federation") -> Scored:
        """Return the models to evaluate, by name: weight vectors (d,), or `Devices` with several vectors. The first model ranks the run."""
        raise NotImplementedError

    def personal(self, state: State, fed: "Federation") -> Tensor | None:
        """Return the clients' own models (n, d), or None if there are none. By default, look for them in what `scored` returns."""
        devices = [m.models for m in self.scored(state, fed).values() if isinstance(m, Devices)]
        return next((models for models in devices if len(models) == fed.n), None)

    def measured(self, state: State, fed: "Federation") -> dict[str, float]:
        """Return further metrics to record at each evaluation, by name."""
        return {}

    def check(self, clients: int, model: "Model", settings: "Settings") -> None:
        """Raise `UserError` if the algorithm cannot run with this number of clients, this model or these settings."""

    @classmethod
    def ranges(cls) -> dict[str, Range]:
        """Return the ranges of all hyperparameters, by name."""
        return {f.name: f.metadata["range"] for f in dataclasses.fields(cls)}

    @classmethod
    def configured(cls, params: Mapping[str, Any]) -> "Algorithm":
        """Return the algorithm with these hyperparameters, and with defaults for the others. Raise `UserError` for an
        unknown name, an invalid value, or a hyperparameter that does not apply (its `when` does not hold).
        """
        algorithm = cls(**{name: cls.checked(name, value) for name, value in params.items()})
        for name in params.keys() - algorithm.params().keys():
            needs = ", ".join(f"{k}={v}" for k, v in (cls.ranges()[name].when or {}).items())
            raise UserError(f"{name} exists only when {needs}")
        return algorithm

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """Return a hyperparameter's value, converted to its type. Raise `UserError` for an unknown name or an invalid value."""
        ranges = cls.ranges()
        if name not in ranges:
            raise unknown("hyperparameter", name, ranges)
        return ranges[name].check(name, value)

    def params(self) -> dict[str, Any]:
        """Return the values of the hyperparameters that apply, by name. A hyperparameter applies if its condition `when` holds."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return existing(values, self.ranges())
