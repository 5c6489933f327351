"""What a trial reported, as the journal keeps it."""

from dataclasses import dataclass, field

from reports.leaderboard import COUNTED, METRICS
from suite.search import End


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
    def end(self) -> End:
        """What the search may know: validation scores and counters."""
        names = [f"val_{metric}" for metric in METRICS]
        curve = {int(e["round"]): e[name] for e in self.history for name in names if name in e}
        last = self.history[-1] if self.history else {"round": 0}
        spent = {name: last[name] for name in COUNTED if name in last}
        return End(self.status, self.value, self.intermediates, curve, spent, at=int(last["round"]))
