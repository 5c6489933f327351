"""How a trial ended, or stands, and all that it reported."""

import math
import re
from collections.abc import Collection, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from trials.scoring.metrics import LAST


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
        """Whether a trial that ended so ended by itself, be it by divergence."""
        return self in (Status.FINISHED, Status.DIVERGED)


COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""What colours a terminal's text."""


CHARACTERS = 4000
"""Of an exception's text that are kept: it is journaled, recorded and shown each time that a trial dies."""


def reason(error: str) -> str:
    """The line of a traceback that names the exception: the first one below the last frame, since its message
    may go on for many. Of a text without frames the last line. Colours are left out.
    """
    lines = COLOUR.sub("", error).strip().splitlines() or [""]
    below = lines[_message(lines) :]
    return below[0] if below else lines[-1]


def _message(lines: Sequence[str]) -> int:
    """Where the message of a traceback begins, below the last frame; the end where there is no frame."""
    frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
    below = range(frames[-1], len(lines)) if frames else ()
    return next((place for place in below if not lines[place].startswith(" ")), len(lines))


def shortened(error: str) -> str:
    """A traceback of at most `CHARACTERS` or so: of its frames the first and the last, of its message, which a
    program makes as long as it likes, the beginning. What is cut is said.
    """
    if len(error) <= CHARACTERS:
        return error
    lines = error.splitlines(keepends=True)
    place, half = _message(lines), CHARACTERS // 2
    frames, message = "".join(lines[:place]), "".join(lines[place:])
    if not message:  # no traceback at all
        frames, message = "", frames
    if (cut := len(frames) - half) > 0:
        quarter = half // 2
        frames = f"{frames[:quarter]}\n... ({cut} characters are cut here)\n{frames[-quarter:]}"
    most = CHARACTERS - min(len(frames), half)
    if (cut := len(message) - most) > 0:
        message = f"{message[:most]}... ({cut} more characters are cut)"
    return frames + message


ENDINGS = (Status.FINISHED, Status.PRUNED, Status.DIVERGED, Status.FAILED)
"""How the trial of a sweep ends, in the order in which they are counted for a person."""


class TrialKind(StrEnum):
    """What a trial is for. All but searches repeat a search trial with another seed."""

    SEARCH = "search"
    CONFIRM = "confirm"
    """One of the best few configurations again, with a further seed of the search's."""
    FINAL = "final"
    """The best configuration again, with a fresh seed: what leaderboards are made of."""
    PARETO = "pareto"
    """The knee of the front likewise, where there are two objectives."""
    BATCH = "batch"
    """One run of a fixed list, which no search asked for."""

    @property
    def counted(self) -> bool:
        """Whether such a trial is part of the search, and so of its budget."""
        return self in (TrialKind.SEARCH, TrialKind.CONFIRM)


@dataclass(frozen=True)
class Report:
    """What a trial says at the end of a step, as Tune passes it on.

    `val_score` is its score so far, `history` its new entries. After a restart the first report has the
    whole history, and `earlier`: (round, score) of what was reported before; `afresh`, they take the place
    of all that the same attempt said before.
    """

    status: Status
    round: int = 0
    val_score: float = math.nan
    history: list[dict[str, float]] = field(default_factory=list)
    earlier: list[tuple[int, float]] = field(default_factory=list)
    fingerprint: str = ""
    execution: str = ""
    chunk: int | None = None
    halved: dict[str, int] | None = None
    device: str = ""
    afresh: bool = False
    error: str = ""
    graph_error: str = ""

    def result(self) -> dict[str, Any]:
        """The result of a Tune trainable's step."""
        return {**vars(self), "done": self.status != Status.RUNNING}

    @classmethod
    def take(cls, result: MutableMapping[str, Any]) -> Self:
        """Read a result, and take its history out of it, which Tune would keep as well."""
        known = {f.name: result[f.name] for f in fields(cls) if f.name in result}
        result.pop("history", None)
        return cls(**{**known, "status": Status(result.get("status", Status.FAILED))})


def lost(metric: str, status: Status, not_finite: Collection[str]) -> bool:
    """Whether a run counts as the untrained model where runs are compared by a metric: it diverged, or
    has no finite mean of it.
    """
    return status == Status.DIVERGED or metric in not_finite


@dataclass
class Outcome:
    """How a trial ended, and its whole history.

    `execution` is how it was computed, `chunk` how many clients at once (None: all), `halved` from which
    `round` on another `chunk`, since memory did not hold it, `device` on what, `graph_error` why its steps were not captured
    there. `intermediates` maps round to validation score.
    """

    status: Status = Status.FAILED
    history: list[dict[str, float]] = field(default_factory=list)
    intermediates: dict[int, float] = field(default_factory=dict)
    fingerprint: str = ""
    error: str = ""
    seconds: float = 0.0
    execution: str = ""
    chunk: int | None = None
    halved: dict[str, int] | None = None
    device: str = ""
    graph_error: str = ""

    @property
    def value(self) -> float | None:
        """The last validation score."""
        return self.intermediates[max(self.intermediates)] if self.intermediates else None

    def last(self, metric: str) -> float | None:
        """The last finite value of a metric; None where there is none."""
        values = (entry.get(metric, math.nan) for entry in reversed(self.history))
        return next((value for value in values if math.isfinite(value)), None)

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

    def lost(self, metric: str) -> bool:
        """Whether it counts as the untrained model where runs are compared by a metric."""
        return lost(metric, self.status, self.not_finite)

    def add(self, report: Report) -> None:
        """Take over what a trial reported."""
        if report.afresh:
            self.history.clear()
            self.intermediates.clear()
        self.history += report.history
        self.intermediates.update(report.earlier)
        self.status, self.error = report.status, report.error
        if report.status not in (Status.FAILED, Status.HALTED):
            self.fingerprint = report.fingerprint
            self.execution, self.chunk = report.execution, report.chunk
            self.halved, self.device = report.halved, report.device
            self.graph_error = report.graph_error
            if math.isfinite(report.val_score):
                self.intermediates[report.round] = report.val_score
