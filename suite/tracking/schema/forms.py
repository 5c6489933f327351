"""What the texts of tags stand for, and how each is read and written: strictly, since they may be others'.

A reader raises `ValueError` for a text that means nothing.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypedDict

from pydantic import BaseModel, FiniteFloat, StrictBool, StrictInt, StrictStr, TypeAdapter

from trials.algorithm import Range
from trials.common.names import number
from trials.run.outcome import Status
from trials.run.trial_id import TrialId

SPAN = {
    f.name: f.default
    for f in fields(Range)
    if f.name in ("low", "high", "log", "choices", "above", "at_least", "at_most")
}
"""What of a range says where it was searched, and what is not written since it is so by default."""


class StudyRead(BaseModel):
    """What is read of the study of a sweep."""

    sampler: StrictStr
    trials: StrictInt


class Halved(TypedDict):
    """From which round on another number of clients was computed at once."""

    round: int
    chunk: int


Params = dict[str, bool | int | float | str | None]
"""Hyperparameters, each a plain value."""
SearchedRow = tuple[
    StrictStr,
    StrictInt,
    StrictBool,
    Status,
    FiniteFloat | None,
    FiniteFloat | None,
    StrictStr,
    Params,
    StrictBool,
    str,
]
"""A search trial in the tag of its entry (`suite.results.searched.Searched`)."""
Ranges = dict[str, Range]


def dumps(value: Any) -> str:
    """Compact JSON, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def form(of: Any) -> Callable[[str], Any]:
    """A reader of JSON of this type."""

    @cache
    def adapter() -> TypeAdapter[Any]:
        return TypeAdapter(of)

    def read(text: str) -> Any:
        return adapter().validate_json(text)

    return read


def ranges_written(ranges: Mapping[str, Range]) -> str:
    """Ranges as JSON, without default values."""
    given = {
        name: {key: v for key, usual in SPAN.items() if (v := getattr(spec, key)) != usual}
        for name, spec in ranges.items()
    }
    return dumps({name: {"type": ranges[name].type, **own} for name, own in given.items()})


def one_of(known: Collection[str]) -> Callable[[str], str]:
    """A reader of texts of which only some mean something."""

    def read(text: str) -> str:
        if text not in known:
            raise ValueError(text)
        return text

    return read


@cache
def _searched() -> TypeAdapter[list[SearchedRow]]:
    return TypeAdapter(list[SearchedRow])


def searched(text: str) -> list[SearchedRow]:
    """Search trials."""
    return _searched().validate_json(text)


def whole(text: str) -> int:
    """A whole number of 64 bits."""
    return number(int, text)


def finite(text: str) -> float:
    """A number that is finite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def trial_id(text: str) -> str:
    """The name of a sweep's trial."""
    TrialId.parse(text)
    return text


def flag(text: str) -> bool:
    """True or false."""
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def flagged(value: bool) -> str:
    """Its text."""
    return str(value).lower()


def words(text: str) -> tuple[str, ...]:
    """Words between spaces."""
    return tuple(text.split())
