"""A hyperparameter's value over the rounds, written as one string: `0.3@1,0.03@100` is 0.3 from round 1
and 0.03 from round 100. A value that never changes is a plain number.
"""

import math
from collections.abc import Mapping
from typing import Any

from trials.common.errors import UserError
from trials.common.names import number

GRAMMAR = "VALUE@ROUND,VALUE@ROUND,... with ascending rounds, the first 1, as in 0.3@1,0.03@100"


def is_schedule(value: Any) -> bool:
    """Whether a value is a schedule, and not a number or a word."""
    try:
        return isinstance(value, str) and "@" in value and bool(pieces(value))
    except UserError:
        return False


def pieces(value: float | str) -> dict[int, float]:
    """The values by the round from which each holds; raises `UserError` when it is no schedule."""
    if not isinstance(value, str):
        return {1: value}
    found: dict[int, float] = {}
    for piece in value.split(","):
        amount, _, start = piece.partition("@")
        try:
            at, held = number(int, start), number(float, amount)
        except ValueError:
            raise UserError(
                f"{piece.strip()!r} is no VALUE@ROUND; a schedule is {GRAMMAR}"
            ) from None
        if not math.isfinite(held):
            raise UserError(f"{piece.strip()!r} is not finite; a schedule is {GRAMMAR}")
        if at <= max(found, default=0) or (not found and at != 1):
            raise UserError(f"round {at} is out of order; a schedule is {GRAMMAR}")
        found[at] = held
    return found


def written(pieces: Mapping[int, float]) -> float | str:
    """The one spelling of a schedule: pieces that change nothing are left out, numbers are as short
    as they can be read back; a plain number where nothing changes at all.
    """
    changes: dict[int, float] = {}
    for start, value in sorted(pieces.items()):
        if not changes or value != changes[max(changes)]:
            changes[start] = value
    if len(changes) == 1:
        return changes[1]
    return ",".join(f"{value!r}@{start}" for start, value in changes.items())


def at(value: float | str, round_index: int) -> float:
    """The value in a round, counted from 1."""
    found = pieces(value)
    return found[max(start for start in found if start <= round_index)]


def last(value: Any) -> Any:
    """The value that a schedule ends with; anything else as it is."""
    return list(pieces(value).values())[-1] if is_schedule(value) else value


def amount(value: Any) -> float | None:
    """The number that a hyperparameter ends with; None where its value is none."""
    end = last(value)
    return float(end) if isinstance(end, int | float) else None


def short(value: Any) -> str:
    """The value for a table: three digits of every number."""
    if is_schedule(value):
        return ",".join(f"{v:.3g}@{start}" for start, v in pieces(value).items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)
