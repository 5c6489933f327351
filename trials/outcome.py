"""What a trial reported, as the journal keeps it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reports.leaderboard.comparable import direction
from reports.leaderboard.leaderboard import COUNTED, METRICS
from suite.search.sweep_search import End
from trials.datasets import CLASSIFICATION, REGRESSION
from trials.simulation import LAST


@dataclass
class Outcome:
    """How a trial ended: finished, pruned, diverged or failed, and its whole history.

    `execution` is how it was computed, `chunk` how many clients at once (None: all). `intermediates`
    maps round to validation score. Only `end` of it reaches the search.
    """

    status: str = "failed"
    history: list[dict[str, float]] = field(default_factory=list)
    intermediates: dict[int, float] = field(default_factory=dict)
    fingerprint: str = ""
    error: str = ""
    seconds: float = 0.0
    execution: str = ""
    chunk: int | None = None

    @property
    def value(self) -> float | None:
        """The last validation score."""
        return self.intermediates[max(self.intermediates)] if self.intermediates else None

    @property
    def not_finite(self) -> list[str]:
        """The metrics that were not finite at one of the evaluations that scores are means of."""
        trained = [entry for entry in self.history if entry["round"] > 0]
        found = {k for entry in trained[-LAST:] for k, v in entry.items() if not math.isfinite(v)}
        return sorted(found)

    def lost(self, metric: str) -> bool:
        """Whether it counts as the untrained model where runs are compared by a metric: it diverged, or
        has no finite mean of it.
        """
        return self.status == "diverged" or metric in self.not_finite

    @property
    def end(self) -> End:
        """What the search may know: validation scores and counters."""
        names = [f"val_{metric}" for metric in METRICS]
        curve = {int(e["round"]): e[name] for e in self.history for name in names if name in e}
        last = self.history[-1] if self.history else {"round": 0}
        spent = {name: last[name] for name in COUNTED if name in last}
        return End(self.status, self.value, self.intermediates, curve, spent, at=int(last["round"]))


def untrained(history: Sequence[Mapping[str, float]], metric: str) -> float:
    """What a lost run counts with: the untrained model's value; where that is not finite either, the
    worst finite one of a task.
    """
    first = next((e[metric] for e in history if e["round"] == 0 and metric in e), math.nan)
    worst = CLASSIFICATION.worst if direction(metric) == "maximize" else REGRESSION.worst
    return first if math.isfinite(first) else worst
