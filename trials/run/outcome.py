"""What a trial is for and is called, how it stands or ended, all that it measured, and why it failed."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from trials.scoring.metrics import LAST, score


class Status(StrEnum):
    """How a trial stands: what its reports say while it runs, and how it ended."""

    RUNNING = "running"
    FINISHED = "finished"
    PRUNED = "pruned"
    """Stopped early: its entry's scheduler saw that it was behind."""
    DIVERGED = "diverged"
    FAILED = "failed"
    HALTED = "halted"
    """A fault around it (a storage that does not work) ended it; it is not to blame."""

    @property
    def ran_to_its_end(self) -> bool:
        """Return whether a trial that ended so ended by itself, be it by divergence."""
        return self in (Status.FINISHED, Status.DIVERGED)


ENDINGS = (Status.FINISHED, Status.PRUNED, Status.DIVERGED, Status.FAILED)
"""How the trial of a sweep ends, in the order in which they are counted for a person."""


class TrialKind(StrEnum):
    """What a trial is for. All but searches repeat a search trial with another seed."""

    SEARCH = "search"
    CONFIRM = "confirm"
    """One of the best few configurations again, with a further seed of the search's."""
    FINAL = "final"
    """The best configuration again, with a fresh seed: what leaderboards are made of."""
    BATCH = "batch"
    """One run of a fixed list, which no search asked for."""

    @property
    def counted(self) -> bool:
        """Return whether such a trial is part of the search, and so of its budget."""
        return self in (TrialKind.SEARCH, TrialKind.CONFIRM)


REPEATS = {TrialKind.CONFIRM: "c", TrialKind.FINAL: "f"}
"""Kinds of runs that repeat a search trial, and their letters in trial ids."""
_LETTERS = {TrialKind.SEARCH: "s", **REPEATS}
_ID = re.compile(
    r"(?P<entry_id>.+?)(?:-(?P<replicate>(?:[vdt]\d+)+))?"
    r"-(?P<letter>[scf])(?P<index>\d{4,})(?:-(?P<number>\d+))?"
)


@dataclass(frozen=True)
class TrialId:
    """The name of a sweep's trial: `1f3a9c0d-s0004` is search trial 4 of a scenario, `1f3a9c0d-f0004-1` its
    second final run, `1f3a9c0d-t2-s0004` search trial 4 of its third tuning.

    `index` is the search trial's, `number` counts the runs of a kind that repeat it.
    """

    entry_id: str
    kind: TrialKind
    index: int
    number: int | None = None
    replicate: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an id; raise `ValueError` for what is none."""
        match = _ID.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not the id of a sweep's trial")
        kind = next(kind for kind, letter in _LETTERS.items() if letter == match["letter"])
        number = None if match["number"] is None else int(match["number"])
        return cls(match["entry_id"], kind, int(match["index"]), number, match["replicate"] or "")

    def __str__(self) -> str:
        """Return the id as it is journaled and recorded."""
        number = "" if self.number is None else f"-{self.number}"
        owner = f"{self.entry_id}-{self.replicate}" if self.replicate else self.entry_id
        return f"{owner}-{_LETTERS[self.kind]}{self.index:04d}{number}"


CHARACTERS = 4000
"""Of an exception's text that are kept: it is journaled, recorded and shown each time that a trial dies."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def reason(error: str) -> str:
    """Return the line of a traceback that names the exception, the first below the last frame; of another text the last
    line. Colours are left out.
    """
    lines = _COLOUR.sub("", error).strip().splitlines() or [""]
    frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
    below = lines[frames[-1] :] if frames else []
    return next((line for line in below if not line.startswith(" ")), lines[-1])


def shortened(error: str) -> str:
    """Return the two ends of a text that is longer than `CHARACTERS`, and how much is cut between them."""
    half, cut = CHARACTERS // 2, len(error) - CHARACTERS
    if cut <= 0:
        return error
    return f"{error[:half]}\n... ({cut} characters are cut here)\n{error[-half:]}"


def lost(metric: str, status: Status, not_finite: Collection[str]) -> bool:
    """Return whether a run counts as the untrained model where runs are compared by a metric: it diverged, or
    has no finite mean of it.
    """
    return status == Status.DIVERGED or metric in not_finite


FACTS = (
    *("fingerprint", "execution", "chunk", "halved", "device", "model_note", "data_note"),
    *("own_models", "test_samples"),
)
"""What a step says of a whole run."""


@dataclass
class TrialResult:
    """How a trial stands or ended, and its whole history; also the part of it that a step reports.

    `history` has one flat dict an evaluation, `intermediates` maps rounds to validation scores where it reported.
    `execution` and `device` say how and on what it was computed, `chunk` how many clients at once (None: all), `halved`
    from which `round` on another `chunk`, `model_note` how a module of others was computed, and why, `data_note` how
    samples were made of a table, and what of them reaches nobody. `own_models`: what is scored are models that clients keep.
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
        """Return the metrics that were not finite at one of the evaluations that scores are means of."""
        trained = [entry for entry in self.history if entry["round"] > 0]
        names = {k for entry in trained[-LAST:] for k, v in entry.items() if not math.isfinite(v)}
        return sorted(names)

    @property
    def fault(self) -> str:
        """Return in a line why it failed or diverged; "" of one that did neither."""
        if self.status not in (Status.FAILED, Status.DIVERGED):
            return ""
        last = self.history[-1] if self.history else {}
        bad = sorted(name for name, value in last.items() if not math.isfinite(value))
        return reason(self.error) or f"not finite: {' '.join(bad)}"

    def last(self, metric: str) -> float | None:
        """Return the last finite value of a metric; None where there is none."""
        values = (entry.get(metric, math.nan) for entry in reversed(self.history))
        return next((value for value in values if math.isfinite(value)), None)

    def lost(self, metric: str) -> bool:
        """Return whether it counts as the untrained model where runs are compared by a metric."""
        return lost(metric, self.status, self.not_finite)

    def score(self, metric: str) -> float:
        """Return the mean of a metric over the last evaluations; of a run that is lost, the untrained model's value."""
        return score(self.history, metric, self.lost(metric))

    def tested(self, task: str) -> float | None:
        """Return the score by which a task ranks it, on test data; None where there is none."""
        value = self.score(f"test_{task}") if self.history else math.nan
        return value if math.isfinite(value) else None

    def add(self, news: "TrialResult") -> None:
        """Take over what a step reported. A history from the untrained model on replaces all before it: the
        trial began again.
        """
        if news.history and news.history[0]["round"] == 0:
            self.history.clear()
            self.intermediates.clear()
        self.history += news.history
        self.intermediates.update(news.intermediates)
        failed = news.status in (Status.FAILED, Status.HALTED)
        for name in ("status", "error", *(() if failed else FACTS)):
            setattr(self, name, getattr(news, name))
