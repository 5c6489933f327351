"""The one exception that means "the person asked for something that cannot be done"."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Bad input. Its text is shown as it is, without a traceback, and the command exits with 2."""


USUAL = {"learning_rate": "lr", "eta": "lr", "fraction": "participation", "noniid": "dirichlet"}
"""Usual names that have a different name here, too different to be found by spelling."""
LONGEST = 200  # characters of a value that a message shows
CUTOFF = 0.6  # how alike names must be for one to be meant: `nope` is not `pers`


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that is not in a registry: it says the nearest one, or lists them all."""
    names, usual = sorted(known), USUAL.get(name.lower())
    near = get_close_matches(name.split("(")[0].split(":")[0], names, n=1, cutoff=CUTOFF)
    near = [usual] if usual in names else near
    listed = f"Known: {', '.join(names)}." if names else "There is none yet."
    hint = f"Did you mean {near[0]!r}?" if near else listed
    return UserError(f"unknown {kind} {name!r:.{LONGEST}}. {hint}")
