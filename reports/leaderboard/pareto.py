"""Pareto fronts: which configurations no other one beats in both score and cost.

Points are compared within an entry. The front is made of search trials at full rounds, by validation
score; the runs with fresh seeds of its best-scoring point and of its knee say what they are worth on
test data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from reports.leaderboard.statistics import interval
from trials.engine import schedule
from trials.run.scenario import Scenario


@dataclass(frozen=True)
class Point:
    """One configuration of an entry; `repeated` the test scores of its runs with fresh seeds, `role`
    why it was repeated (`best`, `knee`) or "".
    """

    trial_id: str
    params: Mapping[str, Any]
    val_score: float
    cost: float
    role: str = ""
    repeated: Sequence[float] = field(default_factory=tuple)

    @property
    def texts(self) -> tuple[str, ...]:
        """The point's scenarios of a table, under `Front.columns`."""
        low, high = interval(self.repeated)
        mean = f"{fmean(self.repeated):.4f}" if self.repeated else ""
        half = "" if low is None or high is None else f" ± {(high - low) / 2:.4f}"
        params = " ".join(f"{k}={schedule.short(v)}" for k, v in self.params.items())
        score = f"{self.val_score:.4f}"
        return f"{self.cost:,.0f}", score, self.role, mean + half, params

    def as_dict(self) -> dict[str, Any]:
        """The point in the JSON of `suite leaderboard`."""
        low, high = interval(self.repeated)
        return {
            "trial_id": self.trial_id,
            "params": dict(self.params),
            "val_score": self.val_score,
            "cost": self.cost,
            "role": self.role or None,
            "mean": fmean(self.repeated) if self.repeated else None,
            "ci_low": low,
            "ci_high": high,
            "seeds": len(self.repeated),
        }


@dataclass(frozen=True)
class Front:
    """The front of one entry, cheapest first. `cost` names what is traded against the score."""

    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    sweep: str
    metric: str
    cost: str
    points: tuple[Point, ...]

    @property
    def scenario(self) -> Scenario:
        """The scenario's address."""
        return Scenario.of(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The heads of a table of points, over `Point.texts`."""
        cost = self.cost.replace("_", " ")
        return cost, "val score", "repeated", f"test {self.metric}", "tuned"

    def as_dict(self) -> dict[str, Any]:
        """The front in the JSON of `suite leaderboard`."""
        return {**vars(self), "points": [point.as_dict() for point in self.points]}


def front(scores: Sequence[float], costs: Sequence[float], maximize: bool) -> list[int]:
    """Indices of the points that none beats: no other has as good a score at as low a cost and is
    better in one of them. Cheapest first; of equal points the earliest.
    """
    sign = -1 if maximize else 1
    order = sorted(range(len(scores)), key=lambda i: (costs[i], sign * scores[i], i))
    found: list[int] = []
    for i in order:
        if not found or sign * scores[i] < sign * scores[found[-1]]:
            found.append(i)
    return found


def knee(scores: Sequence[float], costs: Sequence[float]) -> int | None:
    """Index of a front's point that is farthest from the straight line between its ends, both axes
    scaled to [0, 1], on the better side of it; None where no point between the ends is.

    With s and c the scaled gains in score and cost from the cheapest to the best-scoring end, the
    line is s = c and the distance (s - c) / sqrt(2) (the normal boundary intersection's, Das 1999).
    `scores` and `costs` are the front's, cheapest first.
    """
    if len(scores) < 3:
        return None
    gain = [
        (s - scores[0]) / (scores[-1] - scores[0]) - (c - costs[0]) / (costs[-1] - costs[0])
        for s, c in zip(scores, costs, strict=True)
    ]
    best = max(range(len(gain)), key=lambda i: gain[i])
    return best if gain[best] > 0 else None
