"""The exception for a request that cannot be fulfilled, and its message for unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """An error in what the user asked for. Commands print its text without a traceback and exit with status 2."""


USUAL = {"learning_rate": "lr", "eta": "lr", "fraction": "participation", "noniid": "dirichlet"}
"""Common names -> this project's names, where the spelling is too different for a suggestion by similarity."""
LONGEST = 200  # characters of a value that a message shows
CUTOFF = 0.6  # the least similarity of a suggestion: `nope` must not suggest `pers`, at 0.5


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return a `UserError` for an unknown name. Its message suggests the nearest known name, or lists all known names."""
    names, usual = sorted(known), USUAL.get(name.lower())
    near = get_close_matches(name.split("(")[0].split(":")[0], names, n=1, cutoff=CUTOFF)
    near = [usual] if usual in names else near
    listed = f"Known: {', '.join(names)}." if names else "There is none yet."
    hint = f"Did you mean {near[0]!r}?" if near else listed
    return UserError(f"unknown {kind} {name!r:.{LONGEST}}. {hint}")
