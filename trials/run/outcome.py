"""A trial's kind, id and status, all that it measured, and the reason of its failure."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from trials.scoring.metrics import LAST, score


class Status(StrEnum):
    """The status of a trial, while it runs or at its end."""

    RUNNING = "running"
    FINISHED = "finished"
    PRUNED = "pruned"  # stopped early by a scheduler, since other trials were better
    DIVERGED = "diverged"  # a loss was not finite
    FAILED = "failed"  # an exception ended it
    HALTED = "halted"  # stopped by a fault outside the trial, such as storage that does not work


ENDINGS = (Status.FINISHED, Status.PRUNED, Status.DIVERGED, Status.FAILED)
"""The statuses at the end of a sweep's trial, in the order in which summaries count them."""


class TrialKind(StrEnum):
    """The purpose of a trial. `CONFIRM` and `FINAL` trials repeat a search trial with another seed."""

    SEARCH = "search"
    CONFIRM = "confirm"  # repeats one of the best configurations, to choose the winner
    FINAL = "final"  # repeats the winner with a fresh seed; leaderboards show these trials
    BATCH = "batch"  # runs a configuration of a fixed list, without a search


REPEATS = {TrialKind.CONFIRM: "c", TrialKind.FINAL: "f"}
"""The kinds of trials that repeat a search trial, and their letters in trial ids."""
_LETTERS = {TrialKind.SEARCH: "s", **REPEATS}
_INDEX = re.compile(r"-[scf](\d{4,})(?:-\d+)?")


def trial_id(search: str, kind: TrialKind, index: int, number: int | None = None) -> str:
    """Return a trial's id: `1f3a9c0d-s0004` for trial 4 of search 1f3a9c0d, `1f3a9c0d-f0004-1` for its second final run."""
    return f"{search}-{_LETTERS[kind]}{index:04d}" + ("" if number is None else f"-{number}")


def index_of(trial_id: str) -> int:
    """Return a search trial's index from the id of the trial or of its repetition: 4 from `1f3a9c0d-f0004-1`."""
    return int(_INDEX.findall(trial_id)[-1])


CHARACTERS = 4000
"""The most characters that are kept of an exception's text, which is journaled, recorded and shown."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def reason(error: str) -> str:
    """Return the line of a traceback that names the exception. If `error` is no traceback, return its last line."""
    text = _COLOUR.sub("", error).strip()
    _, frame, below = text.rpartition('\n  File "')
    for line in below.splitlines()[1:] if frame else ():
        if not line.startswith(" "):  # lines of source code are indented
            return line
    return text.rpartition("\n")[2]


def shortened(error: str) -> str:
    """Return an error message without its middle if it is longer than `CHARACTERS`. A line in the middle then says how much
    is cut. Replace unpaired surrogates, which JSON cannot hold.
    """
    error = error.encode(errors="replace").decode()
    half, cut = CHARACTERS // 2, len(error) - CHARACTERS
    if cut <= 0:
        return error
    return f"{error[:half]}\n... ({cut} characters are cut here)\n{error[-half:]}"


def lost(metric: str, status: Status, not_finite: Collection[str]) -> bool:
    """Return whether a run diverged or `not_finite` contains the metric. Such a run gets the untrained model's score."""
    return status == Status.DIVERGED or metric in not_finite


FACTS = (
    *("fingerprint", "execution", "chunk", "halved", "device", "model_note", "data_note"),
    *("own_models", "test_samples"),
)
"""The fields of `TrialResult` that describe the whole run, so that each report replaces them."""


@dataclass
class TrialResult:
    """The status of a trial and all that it measured so far. A report of a trial has this type, too, with the history of one step.

    `history` has one flat dict per evaluation. `intermediates` maps reported rounds to validation scores. `chunk` is the
    number of clients that were computed at once (None: all). If memory ran out, `halved` has the first `round` with a
    smaller number, and that number as `chunk`. Notes say how a third party's module was computed, how a table became
    samples, and which samples no client holds. `own_models` says whether scores over clients are of the clients' own models.
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
    own_models: bool = False
    test_samples: int = 0

    @property
    def value(self) -> float | None:
        """Return the last validation score; None if there is none."""
        return self.intermediates[max(self.intermediates)] if self.intermediates else None

    @property
    def last_round(self) -> int:
        """Return the round of the last evaluation; 0 if there was none."""
        return int(self.history[-1]["round"]) if self.history else 0

    @property
    def not_finite(self) -> list[str]:
        """Return the metrics with a value that is not finite in the last `LAST` evaluations."""
        names: set[str] = set()
        for entry in self.history[-LAST:]:
            if entry["round"] > 0:
                names |= {name for name, value in entry.items() if not math.isfinite(value)}
        return sorted(names)

    def last(self, metric: str) -> float | None:
        """Return the last finite value of a metric; None if it has none."""
        values = [entry.get(metric, math.nan) for entry in reversed(self.history)]
        return next(filter(math.isfinite, values), None)

    def lost(self, metric: str) -> bool:
        """Return whether the run diverged or one of the metric's last 3 values is not finite. If so, the run counts with the untrained model's score."""
        return lost(metric, self.status, self.not_finite)

    def score(self, metric: str) -> float:
        """Return a metric's mean over the last evaluations, or the untrained model's value if the run or the metric diverged."""
        return score(self.history, metric, self.lost(metric))

    def tested(self, task: str) -> float | None:
        """Return the run's test score in a task's metric, such as "accuracy"; None if it was not measured."""
        value = self.score(f"test_{task}") if self.history else math.nan
        return value if math.isfinite(value) else None

    def add(self, news: "TrialResult") -> None:
        """Add the trial's newest report, `news`. A report from round 0 means that the trial began again, and replaces the old history."""
        if news.history and news.history[0]["round"] == 0:
            self.history.clear()
            self.intermediates.clear()
        self.history += news.history
        self.intermediates.update(news.intermediates)
        failed = news.status in (Status.FAILED, Status.HALTED)
        for name in ("status", "error", *(() if failed else FACTS)):
            setattr(self, name, getattr(news, name))
