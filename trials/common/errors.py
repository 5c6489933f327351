"""The one exception that means "the person asked for something that cannot be done"."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Bad input. Its text is shown as it is, without a traceback, and the command exits with 2."""


USUAL = {
    **dict.fromkeys(("learning_rate", "eta", "step_size"), "lr"),
    **dict.fromkeys(("fraction", "client_fraction"), "participation"),
    **dict.fromkeys(("noniid", "non_iid", "non-iid"), "dirichlet"),
    "lr_schedule": "lr_decay",
    "l2": "weight_decay",
    "partition": "heterogeneity",
}
"""What others call things that are known here by a name that is not alike."""
CUTOFF = 0.6
"""How alike names must be for one to be meant: `nope` is not `pers`."""
LONGEST = 200
"""Characters of a value that a message shows."""


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that is not in a registry: it says the nearest one, or lists them all."""
    names, usual = sorted(known), USUAL.get(name.lower())
    near = get_close_matches(name.split("(")[0].split(":")[0], names, n=1, cutoff=CUTOFF)
    near = [usual] if usual in names else near
    listed = f"Known: {', '.join(names)}." if names else "There is none yet."
    hint = f"Did you mean {near[0]!r}?" if near else listed
    return UserError(f"unknown {kind} {shown(name)}. {hint}")
