"""The base of algorithms: hyperparameters as fields, and the hooks of a round.

    class FedProx(FedAvg):
        mu: float = real(0.01, low=1e-4, high=1, log=True)
        def direction(self, w, g, start, **rows):
            return g + self.mu * (w - start)

is all that FedProx is. An algorithm is a frozen dataclass; its fields are its hyperparameters, the keys of its search
space and the params that are recorded. Its state is a dict of tensors and `ClientRows`, and is everything that survives
a round. A round is ordinary code, written with the services of `trials.engine.federation.Federation`: select clients,
broadcast, train, take a gradient, upload. These count work and bytes, and never ask which algorithm they serve.
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
    """Models of several devices, `models` (k, d), scored by the weighted mean of their scores."""

    models: Tensor
    weights: Tensor


Scored = dict[str, Tensor | Devices]


@dataclass(frozen=True)
class Range:
    """The values that a hyperparameter may have: an interval or `choices` to search, and `when` it exists at all.

    Fields are made by `real`, `whole` and `choice`, as in `mu: float = real(0.01, low=1e-4, high=1, log=True)`.
    `when` maps another hyperparameter to the value under which this one exists. One that is not `searched` stays at its
    default unless a study gives it a range, or bounds the cost it is searched `under`. A `rate` is a step size, whose best
    value does not carry over between data sets. `other` turns a value that is no choice into its canonical form, or raises
    `UserError`. Values at or below `above`, below `at_least` or beyond
    `at_most` have no meaning, whoever asks for them.
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
                raise UserError(f"choices {self.choices} must differ, also as True and 1 do not")
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
        """Return the ends beyond which values have no meaning; None for no end."""
        return self.at_least if self.above is None else self.above, self.at_most

    @property
    def ends(self) -> tuple[float, float]:
        """Return low and high of an interval."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @property
    def several(self) -> bool:
        """Return whether there is more than one value."""
        return len(self.choices) > 1 if self.choices is not None else self.low != self.high

    def holds(self, value: Any) -> bool:
        """Return whether a value is one of the choices, or lies in the interval."""
        if self.choices is not None:
            return value in self.choices
        low, high = self.ends
        return isinstance(value, int | float) and low <= value <= high

    def fixed(self, value: Any) -> "Range":
        """Return the range of this value alone."""
        ends = {"low": value, "high": value} if self.choices is None else {"choices": (value,)}
        return dataclasses.replace(self, **ends)

    def share(self, value: float) -> float:
        """Return where a number lies in the interval, on its scale: 0 at low, 1 at high."""
        low, high = self.ends
        if self.log and value <= 0:  # asked for by hand: below every range
            return -math.inf
        scale = math.log if self.log else float
        return (scale(value) - scale(low)) / (scale(high) - scale(low))

    def at(self, share: float) -> Any:
        """Return the value at a share in [0, 1) of the interval, on its scale, or of the choices, which have equal parts."""
        if self.choices is not None:
            return self.choices[int(share * len(self.choices))]
        low, high = self.ends
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        value = min(max(value, low), high)  # rounding may leave the interval
        return round(value) if self.type == "int" else value

    def check(self, name: str, value: Any) -> Any:
        """Return the value as its type; raise `UserError` when it is of another type, no choice or without a meaning. The
        interval bounds the search, not what a person may ask for.
        """
        if self.choices is not None:
            if value in self.choices:
                return value
            if self.other is not None:
                return self.other(value)
            raise UserError(f"{name} is {value!r}, but must be {self}")
        whole = self.type == "int"
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # Beyond it MLflow and JSON give another number back.
        limit = 2**63 - 1 if whole else sys.float_info.max
        if not number or not abs(value) <= limit or (whole and value != int(value)):
            kind = "whole number" if whole else "finite number" if number else "number"
            raise UserError(f"{name} is {value!r}, but must be a {kind}")
        rules = (
            (self.above, operator.gt, "above"),
            (self.at_least, operator.ge, "at least"),
            (self.at_most, operator.le, "at most"),
        )
        for bound, keeps, words in rules:
            if bound is not None and not keeps(value, bound):
                raise UserError(f"{name} is {value!r}, but must be {words} {bound:g}")
        return int(value) if whole else float(value)


def existing(values: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, Any]:
    """Return the values of the hyperparameters that exist: those without `when`, or whose `when` holds for existing ones."""

    def exists(name: str) -> bool:
        when = ranges[name].when or {} if name in ranges else {}
        return name in values and all(values.get(k) == v and exists(k) for k, v in when.items())

    return {name: values[name] for name in ranges if exists(name)}


def real(default: float, low: float, high: float, log: bool = False, **more: Any) -> Any:
    """Return the field of a real hyperparameter searched in [low, high]; `more` are other fields of `Range`."""
    return _field(default, Range("float", low, high, log, **more))


def whole(default: int, low: int, high: int, log: bool = False, **more: Any) -> Any:
    """Return the field of a whole-numbered hyperparameter searched in [low, high]."""
    return _field(default, Range("int", low, high, log, **more))


def choice(default: Any, choices: tuple[Any, ...], **more: Any) -> Any:
    """Return the field of a hyperparameter that is one of `choices`."""
    return _field(default, Range("choice", choices=choices, **more))


def _field(default: Any, spec: Range) -> Any:
    return dataclasses.field(default=default, metadata={"range": spec})


@dataclass(frozen=True)
class Algorithm:
    """The base of all algorithms: a frozen dataclass with a state, a round, and the learning rate, which every algorithm
    searches over the same range. `suite new algorithm NAME` writes an example.

    `paper` names the source. In a round `lr` is that round's rate, with the study's decay. The module's docstring is the
    summary; lines of the class's that begin with `Equations:`, `Keeps:`, ... are the table in docs/algorithms.md.
    """

    paper: ClassVar[str] = ""
    reference: ClassVar[bool] = False
    """Shown beside the others but not ranked: it has what they have not (all data, all devices)."""
    ranked_under: ClassVar[str] = ""
    """The setting `metric` under which a reference is ranked nevertheless."""
    unsupported: ClassVar[Mapping[str, str]] = {}
    """Common settings it cannot honour -> why: `setting=value`, `setting` (any but the default), or `system` (a level with
    `+system(...)` or `+delay(...)`)."""
    any_optimizer: ClassVar[bool] = False
    """Whether local steps may be other than SGD's. It says that the algorithm trains each client once a round and uses
    only the end point, not the rate or the number of steps. A parent's value does not count."""
    requires: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """Common settings that its paper takes for granted -> the value, and why it matters. Under another value it is shown
    with this reason, not ranked."""
    home: ClassVar[Mapping[str, str]] = {}
    """What its paper's own experiments have, in the keys of `unsupported` -> why it matters: without it a row has a mark."""

    lr: float = real(0.1, low=1e-3, high=1.0, log=True, above=0, rate=True)

    def init(self, fed: "Federation") -> State:
        """Return the state before round 1."""
        raise NotImplementedError

    def round(self, state: State, fed: "Federation") -> State:
        """Run one round; return the state after it."""
        raise NotImplementedError

    def scored(self, state: State, fed: "Federation") -> Scored:
        """Return what is evaluated, by name: models (d,) or `Devices`; the first one is ranked."""
        raise NotImplementedError

    def personal(self, state: State, fed: "Federation") -> Tensor | None:
        """Return the clients' own models (n, d), or None. The default takes them from `scored`."""
        devices = [m.models for m in self.scored(state, fed).values() if isinstance(m, Devices)]
        return next((models for models in devices if len(models) == fed.n), None)

    def measured(self, state: State, fed: "Federation") -> dict[str, float]:
        """Return other numbers that are recorded at each evaluation, by name."""
        return {}

    def check(self, clients: int, model: "Model", settings: "Settings") -> None:
        """Raise `UserError` when it cannot run with this number of clients, or with this model."""

    @classmethod
    def ranges(cls) -> dict[str, Range]:
        """Return the search range of each hyperparameter."""
        return {f.name: f.metadata["range"] for f in dataclasses.fields(cls)}

    @classmethod
    def configured(cls, params: Mapping[str, Any]) -> "Algorithm":
        """Return the algorithm with these hyperparameters, defaults for the rest. Raises `UserError` for an unknown name, a
        value of the wrong type, or a hyperparameter that does not exist under the others.
        """
        algorithm = cls(**{name: cls.checked(name, value) for name, value in params.items()})
        for name in params.keys() - algorithm.params().keys():
            needs = ", ".join(f"{k}={v}" for k, v in (cls.ranges()[name].when or {}).items())
            raise UserError(f"{name} exists only when {needs}")
        return algorithm

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """Return a hyperparameter's value as its type; raise `UserError` for an unknown name or a value that it cannot have."""
        ranges = cls.ranges()
        if name not in ranges:
            raise unknown("hyperparameter", name, ranges)
        return ranges[name].check(name, value)

    def params(self) -> dict[str, Any]:
        """Return the hyperparameters that exist under each other's values."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return existing(values, self.ranges())
