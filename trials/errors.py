"""The one exception that means "the person asked for something that cannot be done"."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Bad input. Its text is shown as it is, without a traceback, and the command exits with 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a registry: says the nearest one, or lists them all."""
    names = sorted(known)
    near = get_close_matches(name.split("(")[0].split(":")[0], names, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}."
    return UserError(f"unknown {kind} {name!r}. {hint}")
