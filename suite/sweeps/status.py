"""How a sweep stands, read from its journal by another process than the one that runs it."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from suite.execution.stop_signal import Control
from suite.sweeps.follow import Followed
from suite.sweeps.journal.events import check_first, sessions
from suite.sweeps.journal.file import begun, in_the_way, is_locked
from suite.sweeps.journal.paths import MARKER, check_name
from trials.common.errors import UserError, unknown
from trials.run.outcome import ENDINGS


def sweeps(storage: Path) -> list[str]:
    """Names of the sweeps under a storage root, those with a damaged journal included."""
    return sorted(
        path.parent.name
        for path in storage.glob("*/journal.jsonl")
        if begun(path) or (path.with_name(MARKER).exists() and in_the_way(path))
    )


def of_study(storage: Path, name: str) -> list[str]:
    """The sweeps under a storage root of a study that has not given one its own name."""
    names = sweeps(storage)
    if name in names:
        return []
    own = []
    for each in names:
        with suppress(UserError):  # a journal that is damaged is said where it is read
            if any(one.study_name == name for one in sessions(storage / each / "journal.jsonl")):
                own.append(each)
    return own


def status(storage: Path, name: str) -> dict[str, Any]:
    """A sweep's snapshot as the JSON document of `suite status`: `running` says whether a process runs it, and
    `running_trials` how many trials run; `idle_seconds` is the time since anything happened, and `best` has the
    best validation score of each entry.

    Raises `UserError` when there is no such sweep, or its journal is damaged or of another version.
    """
    folder = _folder(storage, name)
    one = Followed(folder).refresh()
    counts = one.counts
    return {
        "name": name,
        "study": one.study,
        "running": one.active,
        "entries": len(one.entries),
        "expected": one.planned,
        "requested": one.requested,
        "running_trials": counts["running"],
        "ended": one.ended,
        "superseded": one.superseded,
        "recorded": one.recorded,
        **{status.value: counts[status] for status in ENDINGS},
        "died": one.attempts_died,
        "trial_seconds": one.spent,
        "sessions": one.sessions,
        "idle_seconds": round(time.time() - (folder / "journal.jsonl").stat().st_mtime, 1),
        "asked_to": one.asked_to or None,
        "per_minute": one.per_minute,
        "seconds_left": one.seconds_left,
        "best": [
            {
                "entry_id": entry.entry_id,
                "algorithm": entry.algorithm,
                **entry.scenario.names(),
                "metric": entry.metric,
                "name": entry.name,
                "best": entry.best,
                "trials": len(entry.known),
            }
            for entry in one.entries
        ],
    }


def ask(storage: Path, name: str, word: str) -> bool:
    """Ask a running sweep to `stop` or `cancel`; False when no process of this machine runs it, which
    a process of another machine may, by the same storage.
    """
    folder = _folder(storage, name)
    try:
        Control(folder).ask(word)
    except OSError as error:
        raise UserError(f"storage {folder} cannot be written: {error.strerror}") from None
    return is_locked(folder / "journal.jsonl")


def _folder(storage: Path, name: str) -> Path:
    check_name(name, "sweep")
    if name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    check_first(storage / name / "journal.jsonl")
    return storage / name
