"""What a trial is for, how it stands or ended, and why it failed."""

import re
from collections.abc import Collection, Sequence
from enum import StrEnum


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
    BATCH = "batch"
    """One run of a fixed list, which no search asked for."""

    @property
    def counted(self) -> bool:
        """Whether such a trial is part of the search, and so of its budget."""
        return self in (TrialKind.SEARCH, TrialKind.CONFIRM)


def lost(metric: str, status: Status, not_finite: Collection[str]) -> bool:
    """Whether a run counts as the untrained model where runs are compared by a metric: it diverged, or
    has no finite mean of it.
    """
    return status == Status.DIVERGED or metric in not_finite
