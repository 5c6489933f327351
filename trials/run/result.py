"""The result of a trial: how it ended, all that it measured, and its scores."""

import math
from dataclasses import dataclass, field

from trials.run.outcome import Status, lost, reason
from trials.scoring.metrics import LAST, score


@dataclass
class TrialResult:
    """How a trial stands or ended, and its whole history; also the part of it that a step reports.

    `history` has one flat dict an evaluation, `intermediates` maps rounds to validation scores where it
    reported. `execution` is how it was computed, `chunk` how many clients at once (None: all), `halved` from
    which `round` on another `chunk`, since memory did not hold it, `device` on what; `model_note` is how a
    module of others was computed, and why, `data_note` how samples were made of a table, and what of them reaches
    nobody.
    """

    status: Status = Status.FAILED
    history: list[dict[str, int | float]] = field(default_factory=list)
    intermediates: dict[int, float] = field(default_factory=dict)
    fingerprint: str = ""
    error: str = ""
    seconds: float = 0.0
    execution: str = ""
    chunk: int | None = None
    halved: dict[str, int] | None = None
    device: str = ""
    model_note: str = ""
    data_note: str = ""

    @property
    def value(self) -> float | None:
        """The last validation score."""
        return self.intermediates[max(self.intermediates)] if self.intermediates else None

    @property
    def last_round(self) -> int:
        """The round of the last evaluation; 0 where there was none."""
        return int(self.history[-1]["round"]) if self.history else 0

    @property
    def not_finite(self) -> list[str]:
        """The metrics that were not finite at one of the evaluations that scores are means of."""
        trained = [entry for entry in self.history if entry["round"] > 0]
        found = {k for entry in trained[-LAST:] for k, v in entry.items() if not math.isfinite(v)}
        return sorted(found)

    @property
    def fault(self) -> str:
        """Why it failed or diverged, in a line; "" of one that did neither."""
        if self.status not in (Status.FAILED, Status.DIVERGED):
            return ""
        last = self.history[-1] if self.history else {}
        bad = sorted(name for name, value in last.items() if not math.isfinite(value))
        return reason(self.error) or f"not finite: {' '.join(bad)}"

    def last(self, metric: str) -> float | None:
        """The last finite value of a metric; None where there is none."""
        values = (entry.get(metric, math.nan) for entry in reversed(self.history))
        return next((value for value in values if math.isfinite(value)), None)

    def lost(self, metric: str) -> bool:
        """Whether it counts as the untrained model where runs are compared by a metric."""
        return lost(metric, self.status, self.not_finite)

    def score(self, metric: str) -> float:
        """The mean of a metric over the last evaluations; of a run that is lost, the untrained model's value."""
        return score(self.history, metric, self.lost(metric))

    def tested(self, task: str) -> float | None:
        """The score by which a task ranks it, on test data; None where there is none."""
        found = self.score(f"test_{task}") if self.history else math.nan
        return found if math.isfinite(found) else None

    def add(self, news: "TrialResult") -> None:
        """Take over what a step reported. A history from the untrained model on replaces all before it: the
        trial began again.
        """
        if news.history and news.history[0]["round"] == 0:
            self.history.clear()
            self.intermediates.clear()
        self.history += news.history
        self.intermediates.update(news.intermediates)
        self.status, self.error = news.status, news.error
        if news.status not in (Status.FAILED, Status.HALTED):
            for name in (
                "fingerprint",
                "execution",
                "chunk",
                "halved",
                "device",
                "model_note",
                "data_note",
            ):
                setattr(self, name, getattr(news, name))
