"""JSON of others, read strictly: what programs would read differently is refused."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from trials.common.errors import UserError
from trials.common.names import number

T = TypeVar("T")
SHOWN = 200
"""So many characters of what is not as it should be are shown."""
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a pair that stands for one character, written out."""


def parse(text: str | bytes) -> Any:
    """A JSON document. Raises `ValueError` for what is none, is nested too deeply, has a key twice, a number that
    is not finite, a whole one that 64 bits do not hold, or text that is not Unicode.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        found = _DECODER.decode(text)
        if _HALF.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeError:
        raise ValueError("its text is not Unicode") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def check(content: Any, form: TypeAdapter[T], source: str) -> T:
    """A document that was parsed as this form; raises `UserError` with its first fault."""
    try:
        return form.validate_python(content)
    except ValidationError as error:
        raise UserError(f"{source}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """The first fault that was found in a document: its key, its value, and the rule."""
    fault = error.errors(include_url=False)[0]
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "missing":
        return f"{key} is required"
    shown = repr(fault["input"])
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
    return f"{key} = {shown}: {rule(fault)}" if key else rule(fault)


def rule(fault: Mapping[str, Any]) -> str:
    """The rule that pydantic found broken, as the other messages put it."""
    if fault["type"] in ("model_type", "dict_type"):
        return "must be a mapping of keys to values"
    if fault["type"] == "too_short" and fault["ctx"]["min_length"] == 1:
        return "must not be empty"
    return str(fault["msg"]).removeprefix("Value error, ").replace("Input should", "must")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, whose keys differ."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} is there twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:SHOWN]} is no finite number")
    return value


def _whole(text: str) -> int:
    try:
        return number(int, text)
    except ValueError:
        raise ValueError(f"{text[:SHOWN]} is no whole number below 2^63") from None


_DECODER = json.JSONDecoder(
    object_pairs_hook=_once, parse_float=_finite, parse_int=_whole, parse_constant=_finite
)
