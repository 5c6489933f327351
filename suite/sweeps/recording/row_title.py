"""A leaderboard row at a glance: how MLflow's table of runs names it, and its numbers without false digits."""

import math
from dataclasses import asdict

from reports.leaderboard.leaderboard import Row
from reports.wording.words import label, mean_text, rank_text

SCORES = (
    *("mean", "ci_low", "ci_high", "behind", "behind_low", "behind_high"),
    *("worst_clients", "client_spread"),
)
"""What is in the unit of the score, and known as well as its interval says."""


def title(row: Row, models: int) -> str:
    """`1 · fedprox 0.9509 ± 0.0033 · digits iid`; with the model, where a sweep has several."""
    scenario = [row.dataset, *([row.model] if models > 1 else []), row.heterogeneity]
    return f"{rank_text(row)} · {label(row)} {mean_text(row)} · {' '.join(scenario)}"


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
