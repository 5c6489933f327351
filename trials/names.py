"""Short names with arguments: `dirichlet(0.3)`, `mlp(200, 200)`, `labels(2)+system(steps=1..20)`.

A thing that has such a name is a frozen dataclass whose fields are the arguments; its registry maps
the bare name to the class. A keyword-only field that is None may be left out; one that is a bool is
a flag, written as its bare name: `shards(2, strict)`. `parse` reads a name, `spell` writes the
canonical one, and `parse(spell(x)) == x`.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

from trials.errors import UserError, unknown

Range = tuple[int, int]
"""An inclusive range of integers, written `1..20`."""


def split_top(text: str, separator: str) -> list[str]:
    """Split at separators outside parentheses: `a(1,2),b` -> [`a(1,2)`, `b`]."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def parse(kind: str, text: str, registry: Mapping[str, type]) -> Any:
    """The object a name stands for.

    Raises `UserError` naming the nearest known name, or the usage when the arguments are wrong.
    """
    match = re.fullmatch(r"\s*([A-Za-z_][\w-]*)\s*(?:\((.*)\))?\s*", text)
    if match is None or match[1] not in registry:
        raise unknown(kind, text, registry)
    cls = registry[match[1]]
    hints = get_type_hints(cls)
    flags = [f.name for f in fields(cls) if hints[f.name] is bool]
    raised: list[str] = []
    positional: list[str] = []
    named: dict[str, str] = {}
    twice = False
    for part in split_top(match[2], ",") if match[2] and match[2].strip() else []:
        key, equals, value = part.partition("=")
        if equals:
            twice |= key.strip() in named
            named[key.strip()] = value.strip()
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
        raise UserError(f"{kind} {text!r}: the form is {usage(match[1], cls)}")
    values = {k: _convert(kind, text, k, v, hints[k]) for k, v in given.items()}
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
    hints = get_type_hints(cls)
    parts = []
    for f in fields(cls):
        if hints[f.name] is bool:
            parts.append(f"[{f.name}]")
            continue
        value = "LOW..HIGH" if _plain(hints[f.name]) == Range else f.name.upper()
        default = "" if f.default in (MISSING, None) else _show(f.default)
        if f.kw_only:
            part = f"{f.name}={default or value}"
        else:
            part = f"{f.name}={default}" if default else f.name
        parts.append(f"[{part}]" if f.default is None else part)
    return f"{name}({', '.join(parts)})" if parts else name


def _plain(hint: Any) -> Any:
    """T of `T | None`, any other hint as it is."""
    parts = [part for part in get_args(hint) if part is not type(None)]
    return parts[0] if type(None) in get_args(hint) else hint


def _convert(kind: str, text: str, key: str, value: str, hint: Any) -> Any:
    hint = _plain(hint)
    try:
        if hint == Range:
            low, high = value.split("..")
            return (int(low), int(high))
        return hint(value)
    except ValueError:
        rule = {int: "a whole number", float: "a number", Range: "LOW..HIGH"}.get(hint, str(hint))
        raise UserError(f"{kind} {text!r}: {key} is {value!r}, but must be {rule}") from None


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return "..".join(map(str, value))
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
