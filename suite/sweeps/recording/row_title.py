"""A leaderboard row at a glance: how MLflow's table of runs names it, and its numbers without false digits."""

import math
from collections.abc import Collection
from dataclasses import asdict

from reports.leaderboard.board import Row
from reports.wording.words import label, mean_text, rank_text

SCORES = (
    *("mean", "ci_low", "ci_high", "behind", "behind_low", "behind_high"),
    *("worst_clients", "client_spread"),
)
"""What is in the unit of the score, and known as well as its interval says."""


def title(row: Row, apart: Collection[int]) -> str:
    """`iid · 1 · fedprox 0.9509 ± 0.0033 · digits logreg`: first the parts of the scenario in which those of its sweep
    differ (`apart`), which a narrow column shows, last what all have alike.
    """
    parts = [
        [part for i, part in enumerate(row.scenario) if (i in apart) == first]
        for first in (True, False)
    ]
    own, alike = (" ".join(names) for names in parts)
    score = f"{rank_text(row)} · {label(row)} {mean_text(row)}"
    return " · ".join(filter(None, (own, score, alike)))


def numbers(row: Row) -> dict[str, float]:
    """The row's numbers, scores rounded to two digits of half their interval."""
    low, high = row.ci_low, row.ci_high
    half = None if low is None or high is None else (high - low) / 2
    found = {key: v for key, v in asdict(row).items() if isinstance(v, int | float)}
    return {key: rounded(v, half) if key in SCORES else v for key, v in found.items()}


def rounded(value: float, half: float | None) -> float:
    """A value to the second digit of its uncertainty; to six digits where that is 0 or not known."""
    if not half or not math.isfinite(half):
        return float(f"{value:.6g}")
    return round(value, 1 - math.floor(math.log10(half)))
