"""What a trial is for and is called, how it stands or ended, all that it measured, and why it failed."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from trials.scoring.metrics import LAST, score


class Status(StrEnum):
    """How a trial stands: what its reports say while it runs, and how it ended."""

    RUNNING = "running"
    FINISHED = "finished"
    PRUNED = "pruned"  # its entry's scheduler saw that it was behind
    DIVERGED = "diverged"
    FAILED = "failed"
    HALTED = "halted"  # by a fault around it, such as a storage that does not work


ENDINGS = (Status.FINISHED, Status.PRUNED, Status.DIVERGED, Status.FAILED)
"""How the trial of a sweep ends, in the order in which they are counted for a person."""


class TrialKind(StrEnum):
    """What a trial is for. All but searches repeat a search trial with another seed."""

    SEARCH = "search"
    CONFIRM = "confirm"  # one of the best few configurations, with a further seed of the search's
    FINAL = "final"  # the best one, with a fresh seed: what leaderboards are made of
    BATCH = "batch"  # of a fixed list, which no search asked for


REPEATS = {TrialKind.CONFIRM: "c", TrialKind.FINAL: "f"}
"""Kinds of runs that repeat a search trial, and their letters in trial ids."""
_LETTERS = {TrialKind.SEARCH: "s", **REPEATS}
_INDEX = re.compile(r"-[scf](\d{4,})(?:-\d+)?")


def trial_id(search: str, kind: TrialKind, index: int, number: int | None = None) -> str:
    """Return a trial's name: `1f3a9c0d-s0004` for search trial 4, `1f3a9c0d-f0004-1` for its second final run."""
    return f"{search}-{_LETTERS[kind]}{index:04d}" + ("" if number is None else f"-{number}")


def index_of(trial_id: str) -> int:
    """Return the index of a search trial by its id, or by that of a run that repeats it."""
    return int(_INDEX.findall(trial_id)[-1])


CHARACTERS = 4000
"""Characters kept of an exception's text, which is journaled, recorded and shown each time that a trial dies."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def reason(error: str) -> str:
    """Return the line of a traceback that names the exception, or the last line of another text, without colours."""
    text = _COLOUR.sub("", error).strip()
    _, frame, below = text.rpartition('\n  File "')
    for line in below.splitlines()[1:] if frame else ():
        if not line.startswith(" "):  # as the source below its frame does
            return line
    return text.rpartition("\n")[2]


def shortened(error: str) -> str:
    """Return a text cut to `CHARACTERS`: its two ends, and between them how much is cut. Half surrogate pairs, which JSON
    cannot hold, are replaced.
    """
    error = error.encode(errors="replace").decode()
    half, cut = CHARACTERS // 2, len(error) - CHARACTERS
    if cut <= 0:
        return error
    return f"{error[:half]}\n... ({cut} characters are cut here)\n{error[-half:]}"


def lost(metric: str, status: Status, not_finite: Collection[str]) -> bool:
    """Return whether comparisons by a metric count a run as untrained: it diverged, or the metric has no finite mean."""
    return status == Status.DIVERGED or metric in not_finite


FACTS = (
    *("fingerprint", "execution", "chunk", "halved", "device", "model_note", "data_note"),
    *("own_models", "test_samples"),
)
"""The fields of a step's report that describe the whole run."""


@dataclass
class TrialResult:
    """How a trial stands or ended, and its whole history; also the part of it that a step reports.

    `history` has one flat dict per evaluation. `intermediates` maps reported rounds to validation scores. `chunk` clients
    were computed at once (None: all); `halved` has the `round` from which another `chunk` was. Notes say how a third
    party's module was computed, how a table became samples, and which samples reach nobody. `own_models`: the scored
    models are the clients'.
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
        """Return the last validation score."""
        return self.intermediates[max(self.intermediates)] if self.intermediates else None

    @property
    def last_round(self) -> int:
        """Return the round of the last evaluation; 0 where there was none."""
        return int(self.history[-1]["round"]) if self.history else 0

    @property
    def not_finite(self) -> list[str]:
        """Return the metrics that were not finite in one of the last `LAST` evaluations. Scores are means over these."""
        names: set[str] = set()
        for entry in self.history[-LAST:]:
            if entry["round"] > 0:
                names |= {name for name, value in entry.items() if not math.isfinite(value)}
        return sorted(names)

    def last(self, metric: str) -> float | None:
        """Return the last finite value of a metric; None where there is none."""
        values = [entry.get(metric, math.nan) for entry in reversed(self.history)]
        return next(filter(math.isfinite, values), None)

    def lost(self, metric: str) -> bool:
        """Return whether comparisons by a metric count it as the untrained model."""
        return lost(metric, self.status, self.not_finite)

    def score(self, metric: str) -> float:
        """Return the mean of a metric over the last evaluations; of a run that is lost, the untrained model's value."""
        return score(self.history, metric, self.lost(metric))

    def tested(self, task: str) -> float | None:
        """Return the score by which a task ranks it, on test data; None where there is none."""
        value = self.score(f"test_{task}") if self.history else math.nan
        return value if math.isfinite(value) else None

    def add(self, news: "TrialResult") -> None:
        """Add a step's report. A history that begins at round 0 replaces the old one, since the trial began again."""
        if news.history and news.history[0]["round"] == 0:
            self.history.clear()
            self.intermediates.clear()
        self.history += news.history
        self.intermediates.update(news.intermediates)
        failed = news.status in (Status.FAILED, Status.HALTED)
        for name in ("status", "error", *(() if failed else FACTS)):
            setattr(self, name, getattr(news, name))
