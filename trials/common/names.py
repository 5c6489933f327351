"""Short names with arguments: `dirichlet(0.3)`, `mlp(200, 200)`, `labels(2)+system(steps=1..20)`.

A name stands for an instance of a frozen dataclass, whose fields are the arguments. A field with a default may be left
out; a bool is a flag, written as its bare name: `shards(2, strict)`. `parse` reads what `spell` writes.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, field, fields
from functools import cache, partial
from math import inf, isfinite
from posixpath import normpath
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from trials.common.errors import UserError, unknown

Range = tuple[int, int]  # inclusive, written `1..20`
N = TypeVar("N", int, float)


def number(kind: type[N], text: str) -> N:
    """Return the number that a text spells; raise `ValueError` for `1_000`, non-ASCII digits or more than 64 bits."""
    value = kind(text) if text.isascii() and "_" not in text else None
    if value is None or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        raise ValueError(text)
    return value


_BARE = r".+\.py:\w+|[A-Za-z_][\w.]*:\w+|[A-Za-z_][\w-]*"
_NAME = re.compile(rf"\s*({_BARE})\s*(?:\((.*)\))?\s*", re.DOTALL)
_RECORDED = re.compile(r"[\w./: -]{1,250}")
_hints = cache(get_type_hints)  # cached, since it takes most of the time of parsing a name


class LabelSet(frozenset[int]):
    """A set of class labels, written `{1,2,5}`."""


def bounded(
    default: Any = MISSING,
    low: float = -inf,
    high: float = inf,
    *,
    above: float = -inf,
    below: float = inf,
    kw_only: bool = False,
) -> Any:
    """Return a dataclass field for a finite number, or for a `Range`, within [low, high] and (above, below)."""
    rules = {"at least": low, "above": above, "at most": high, "below": below}
    return field(default=default, kw_only=kw_only, metadata={"bounds": rules})


def _rule(value: Any, bounds: Mapping[str, float]) -> str:
    """Return the rule, such as "above 0", that a number or a range (LOW, HIGH) breaks; return "" if it breaks none."""
    ends = value if isinstance(value, tuple) else (value,)
    low, above, high, below = bounds.values()
    inside = (isfinite(end) and low <= end <= high and above < end < below for end in ends)
    if all(inside) and ends[0] <= ends[-1]:
        return ""
    rules = [f"{words} {bound:g}" for words, bound in bounds.items() if isfinite(bound)]
    return " and ".join(["LOW..HIGH, LOW <= HIGH"] * (len(ends) - 1) + (rules or ["finite"]))


def split_top(text: str, separator: str) -> list[str]:
    """Split a text at separators outside parentheses and braces: `a(1,{2,3}),b` -> [`a(1,{2,3})`, `b`]."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "({") - (char in ")}")
        if char == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return list(map(str.strip, parts))


def split(text: str) -> tuple[str, str | None]:
    """Split a name from its arguments: `mlp(200)` -> (`mlp`, `200`), `iid` -> (`iid`, None)."""
    match = _NAME.fullmatch(text)
    return (text, None) if match is None else (match[1], match[2])


def parse(kind: str, text: str, registry: Mapping[str, type]) -> Any:
    """Return the object that a name with arguments stands for. Raise `UserError` for an unknown name or a wrong argument."""
    name, arguments = split(text)
    if name not in registry:
        raise unknown(kind, text, registry)
    return make(kind, text, registry[name], arguments)


def make(kind: str, text: str, cls: type, arguments: str | None) -> Any:
    """Return an instance of `cls` from its `arguments` as text. Raise `UserError`, which quotes `text`, for a wrong argument."""
    hints, by_name = _hints(cls), {f.name: f for f in fields(cls)}
    positional = [f.name for f in by_name.values() if not f.kw_only]
    wrong = UserError(f"{kind} {text!r}: the form is {usage(split(text)[0], cls)}")
    values: dict[str, Any] = {}
    for part in split_top(arguments, ",") if arguments and arguments.strip() else []:
        name, equals, value = map(str.strip, part.partition("="))
        flag = hints.get(name) is bool
        if not (equals or flag):
            name, value = positional.pop(0) if positional else "", part
        if name not in by_name or name in values or flag != (value == ""):
            raise wrong
        values[name] = flag or _convert(kind, text, name, value, hints[name])
        bounds = by_name[name].metadata.get("bounds")
        if bounds and (rule := _rule(values[name], bounds)):
            raise UserError(f"{kind} {text!r}: {name} is {_show(values[name])}, but must be {rule}")
    if any(f.default is MISSING and f.name not in values for f in by_name.values()):
        raise wrong
    return cls(**values)


def spell(name: str, value: Any) -> str:
    """Return the canonical spelling of an object, `name(arguments)`. Leave out flags that are False and keyword arguments
    that are None. Leave out the positional arguments if all of them have their default values.
    """
    values = [(f, getattr(value, f.name)) for f in fields(value)]
    positional = [(f, v) for f, v in values if not f.kw_only]
    parts = [_show(v) for _, v in positional] if any(v != f.default for f, v in positional) else []
    for f, v in values:
        if isinstance(v, bool):
            parts += [f.name] if v else []
        elif f.kw_only and v is not None:
            parts.append(f"{f.name}={_show(v)}")
    return f"{name}({','.join(parts)})" if parts else name


def usage(name: str, cls: type) -> str:
    """Return how a name is written with its arguments: `dirichlet(a)`, `shards(s, [strict])`, `system([steps=LOW..HIGH])`."""
    hints, parts = _hints(cls), []
    for f in fields(cls):
        value = "" if f.default in (MISSING, None) else _show(f.default)
        if f.kw_only and not value:
            value = "LOW..HIGH" if Range in _choices(hints[f.name]) else f.name.upper()
        part = f"{f.name}={value}" if value and hints[f.name] is not bool else f.name
        optional = hints[f.name] is bool or f.default is None
        parts.append(f"[{part}]" if optional else part)
    return f"{name}({', '.join(parts)})" if parts else name


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the types in a union except None. For a hint that is not a union, return the hint alone."""
    types = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(kind for kind in types if kind is not NoneType)


def _convert(kind: str, text: str, key: str, value: str, hint: Any) -> Any:
    readers = {target: _READ.get(target, (str(target), target)) for target in _choices(hint)}
    for _, read in readers.values():
        with suppress(ValueError):
            return read(value)
    rule = " or ".join(words for words, _ in readers.values())
    raise UserError(f"{kind} {text!r}: {key} is {value!r}, but must be {rule}")


def _range(value: str) -> Range:
    low, high = value.split("..")
    return (number(int, low), number(int, high))


def _labels(value: str) -> LabelSet:
    match = re.fullmatch(r"\{([\d\s,]+)\}", value)
    if match is None:
        raise ValueError
    return LabelSet(number(int, label) for label in match[1].split(","))


_READ: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("a whole number", partial(number, int)),
    float: ("a number", partial(number, float)),
    Range: ("LOW..HIGH", _range),
    LabelSet: ("labels such as {1,2,5}", _labels),
}


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "..".join(map(str, value))
    if isinstance(value, LabelSet):
        return f"{{{','.join(map(str, sorted(value)))}}}"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def check_recorded(where: str, name: str, value: Any, kind: Any = object) -> None:
    """Raise `UserError` if MLflow refuses `name`, if `value` is not of type `kind`, or if JSON would change it."""
    accepted = isinstance(name, str) and _RECORDED.fullmatch(name) and normpath(name) == name
    if not accepted or name[0] in "/.":
        rule = "letters, digits, spaces and _ - . : / alone, and neither / nor . first"
        raise UserError(f"{where} {name!r} cannot be recorded: a name has {rule}")
    with suppress(TypeError, ValueError):
        copy = json.loads(json.dumps(value, ensure_ascii=False).encode())
        if isinstance(value, kind) and (copy == value or value != value):
            return
    raise UserError(f"{where} {name} has {value!r}, which has a wrong type or is changed by JSON")
