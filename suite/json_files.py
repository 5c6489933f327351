"""JSON of files, read strictly, and what is wrong with it in a line."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from trials.common.errors import UserError

T = TypeVar("T")
SHOWN = 200
"""So many characters of what is not as it should be are shown."""


def parse(text: str | bytes) -> Any:
    """Return a JSON document; raises `ValueError` for what is none, is nested too deeply, or has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
