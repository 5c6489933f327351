"""Short names with arguments: `dirichlet(0.3)`, `mlp(200, 200)`, `labels(2)+system(steps=1..20)`.

A thing that has such a name is a frozen dataclass whose fields are the arguments; its registry maps
the bare name to the class. A keyword-only field that is None may be left out; one that is a bool is
a flag, written as its bare name: `shards(2, strict)`. `parse` reads a name, `spell` writes the
canonical one, and `parse(spell(x)) == x`.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, partial
from math import inf, isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from trials.common.errors import UserError, unknown

Range = tuple[int, int]
"""An inclusive range of integers, written `1..20`."""


N = TypeVar("N", int, float)


def number(kind: type[N], text: str) -> N:
    """A number as programs write it; raises `ValueError` for what only Python also takes: underscores
    between digits, digits of other scripts, and whole numbers that 64 bits do not hold.
    """
    value = kind(text) if text.isascii() and "_" not in text else None
    if value is None or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        raise ValueError(text)
    return value


_NAME = re.compile(
    r"\s*(.+\.py:\w+|[A-Za-z_][\w.]*:\w+|[A-Za-z_][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL
)


_hints = cache(get_type_hints)
"""The types of a class's fields; working them out takes most of the time that a name is read in."""


class LabelSet(frozenset[int]):
    """One label or more, 0, 1, ..., written `{1,2,5}`."""


@dataclass(frozen=True)
class Bounds:
    """What a number may be that is an argument of a name; of a range LOW..HIGH, what both ends may be."""

    low: float = -inf
    high: float = inf
    above: float = -inf
    below: float = inf

    def hold(self, value: float | Range) -> bool:
        """Return whether a finite number, or both ends of a range that does not go down, are inside."""
        ends = value if isinstance(value, tuple) else (value,)
        inside = (isfinite(end) and self.low <= end <= self.high for end in ends)
        return all(inside) and self.above < ends[0] <= ends[-1] < self.below

    def __str__(self) -> str:
        said = {
            "at least": self.low,
            "above": self.above,
            "at most": self.high,
            "below": self.below,
        }
        rules = [f"{words} {bound:g}" for words, bound in said.items() if isfinite(bound)]
        return " and ".join(rules) or "finite"


def bounded(
    default: Any = MISSING,
    low: float = -inf,
    high: float = inf,
    *,
    above: float = -inf,
    below: float = inf,
    kw_only: bool = False,
) -> Any:
    """Return the field of an argument that is a finite number in [low, high] and in (above, below), or a range of such."""
    bounds = Bounds(low, high, above, below)
    return field(default=default, kw_only=kw_only, metadata={"bounds": bounds})


def split_top(text: str, separator: str) -> list[str]:
    """Split at separators outside parentheses and braces: `a(1,{2,3}),b` -> [`a(1,{2,3})`, `b`]."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "({") - (char in ")}")
        if char == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def split(text: str) -> tuple[str, str | None]:
    """A name without its arguments, and these: `mlp(200)` -> (`mlp`, `200`), `iid` -> (`iid`, None)."""
    match = _NAME.fullmatch(text)
    return (text, None) if match is None else (match[1], match[2])


def parse(kind: str, text: str, registry: Mapping[str, type]) -> Any:
    """The object a name stands for.

    Raises `UserError` naming the nearest known name, or the usage when the arguments are wrong.
    """
    name, given = split(text)
    if name not in registry:
        raise unknown(kind, text, registry)
    return make(kind, text, registry[name], given)


def make(kind: str, text: str, cls: type, arguments: str | None) -> Any:
    """The object of a class with the `arguments` of the name `text`; raises `UserError` with the usage."""
    hints = _hints(cls)
    flags = [f.name for f in fields(cls) if hints[f.name] is bool]
    raised: list[str] = []
    positional: list[str] = []
    named: dict[str, str] = {}
    twice = False
    for part in split_top(arguments, ",") if arguments and arguments.strip() else []:
        keyed = re.fullmatch(r"(\w+)\s*=\s*(.*)", part)
        if keyed:
            twice |= keyed[1] in named
            named[keyed[1]] = keyed[2]
        elif part in flags:
            twice |= part in raised
            raised.append(part)
        else:
            positional.append(part)
    slots = [f.name for f in fields(cls) if not f.kw_only]
    wanted = {f.name for f in fields(cls)} - set(flags)
    required = {f.name for f in fields(cls) if f.default is MISSING}
    given = {**dict(zip(slots, positional, strict=False)), **named}
    twice |= len(given) < len(positional) + len(named)
    if twice or not required <= set(given) <= wanted:
        raise UserError(f"{kind} {text!r}: the form is {usage(split(text)[0], cls)}")
    values = {k: _convert(kind, text, k, v, hints[k]) for k, v in given.items()}
    for f in fields(cls):
        bounds, value = f.metadata.get("bounds"), values.get(f.name)
        if bounds is not None and value is not None and not bounds.hold(value):
            rule = f"LOW..HIGH, LOW <= HIGH, {bounds}" if isinstance(value, tuple) else bounds
            raise UserError(f"{kind} {text!r}: {f.name} is {_show(value)}, but must be {rule}")
    return cls(**values, **dict.fromkeys(raised, True))


def spell(name: str, value: Any) -> str:
    """The canonical name of an object: arguments as in `parse`, none when all are defaults."""
    given = [(f, getattr(value, f.name)) for f in fields(value)]
    places = [(f, v) for f, v in given if not f.kw_only]
    parts = [_show(v) for _, v in places] if any(v != f.default for f, v in places) else []
    for f, v in given:
        if isinstance(v, bool):
            parts += [f.name] if v else []
        elif f.kw_only and v is not None:
            parts.append(f"{f.name}={_show(v)}")
    return f"{name}({','.join(parts)})" if parts else name


def usage(name: str, cls: type) -> str:
    """How a name is written: `dirichlet(a)`, `shards(s, [strict])`, `system([steps=LOW..HIGH])`."""
    hints = _hints(cls)
    parts = []
    for f in fields(cls):
        if hints[f.name] is bool:
            parts.append(f"[{f.name}]")
            continue
        value = "LOW..HIGH" if _choices(hints[f.name]) == (Range,) else f.name.upper()
        default = "" if f.default in (MISSING, None) else _show(f.default)
        if f.kw_only:
            part = f"{f.name}={default or value}"
        else:
            part = f"{f.name}={default}" if default else f.name
        parts.append(f"[{part}]" if f.default is None else part)
    return f"{name}({', '.join(parts)})" if parts else name


def _choices(hint: Any) -> tuple[Any, ...]:
    """The types of a union, without None; any other hint is the only one."""
    if isinstance(hint, UnionType):
        return tuple(part for part in get_args(hint) if part is not NoneType)
    return (hint,)


def _convert(kind: str, text: str, key: str, value: str, hint: Any) -> Any:
    rules = {
        int: "a whole number",
        float: "a number",
        Range: "LOW..HIGH",
        LabelSet: "labels such as {1,2,5}",
    }
    wanted = _choices(hint)
    for one in wanted:
        with suppress(ValueError):
            return _READ.get(one, one)(value)
    rule = " or ".join(rules.get(one, str(one)) for one in wanted)
    raise UserError(f"{kind} {text!r}: {key} is {value!r}, but must be {rule}")


def _range(value: str) -> Range:
    low, high = value.split("..")
    return (number(int, low), number(int, high))


def _labels(value: str) -> LabelSet:
    match = re.fullmatch(r"\{([\d\s,]+)\}", value)
    if match is None:
        raise ValueError
    return LabelSet(number(int, label) for label in match[1].split(","))


_READ: dict[Any, Callable[[str], Any]] = {
    int: partial(number, int),
    float: partial(number, float),
    Range: _range,
    LabelSet: _labels,
}


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "..".join(map(str, value))
    if isinstance(value, LabelSet):
        return f"{{{','.join(map(str, sorted(value)))}}}"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
