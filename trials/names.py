"""Short names with arguments: `dirichlet(0.3)`, `mlp(200, 200)`, `labels(2)+system(steps=1..20)`.

A thing that has such a name is a frozen dataclass whose fields are the arguments; its registry maps
the bare name to the class. `parse` reads a name, `spell` writes the canonical one, and
`parse(spell(x)) == x`.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

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
    positional: list[str] = []
    named: dict[str, str] = {}
    twice = False
    for part in split_top(match[2], ",") if match[2] and match[2].strip() else []:
        key, equals, value = part.partition("=")
        if equals:
            twice |= key.strip() in named
            named[key.strip()] = value.strip()
        else:
            positional.append(part)
    slots = [f.name for f in fields(cls) if not f.kw_only]
    wanted = {f.name for f in fields(cls)}
    required = {f.name for f in fields(cls) if f.default is MISSING}
    given = {**dict(zip(slots, positional, strict=False)), **named}
    twice |= len(given) < len(positional) + len(named)
    if twice or not required <= set(given) <= wanted:
        raise UserError(f"{kind} {text!r}: the form is {usage(match[1], cls)}")
    hints = get_type_hints(cls)
    return cls(**{k: _convert(kind, text, k, v, hints[k]) for k, v in given.items()})


def spell(name: str, value: Any) -> str:
    """The canonical name of an object: arguments as in `parse`, none when all are defaults."""
    shown = [f for f in fields(value) if f.kw_only or getattr(value, f.name) != f.default]
    if any(not f.kw_only for f in shown):
        shown = list(fields(value))
    parts = [
        f"{f.name}={_show(getattr(value, f.name))}" if f.kw_only else _show(getattr(value, f.name))
        for f in shown
    ]
    return f"{name}({','.join(parts)})" if parts else name


def usage(name: str, cls: type) -> str:
    """How a name is written: `dirichlet(a)`, `system(steps=LOW..HIGH)`."""
    hints = get_type_hints(cls)
    parts = []
    for f in fields(cls):
        value = "LOW..HIGH" if hints[f.name] == Range else f.name
        default = "" if f.default is MISSING else f"={_show(f.default)}"
        parts.append(f"{f.name}={value}" if f.kw_only else f"{value}{default}")
    return f"{name}({', '.join(parts)})" if parts else name


def _convert(kind: str, text: str, key: str, value: str, hint: type) -> Any:
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
