"""How a sweep stands, read from its journal by another process than the one that runs it."""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reports.snapshot import Snapshot
from suite.execution.stop_signal import WORDS, Control
from suite.sweeps.journal.events import SweepState, broken, check_first, sessions
from suite.sweeps.journal.file import begun, in_the_way, is_locked
from suite.sweeps.journal.paths import MARKER, check_name
from suite.sweeps.running import FILE, read
from suite.sweeps.snapshot import snapshot
from trials.common.errors import UserError, unknown
from trials.common.files import plain
from trials.run.outcome import ENDINGS

JOURNAL = "journal.jsonl"


@dataclass
class Followed:
    """A sweep's folder, as far as its journal was read: only what was added since the last look is read.

    Not for several threads at once.
    """

    folder: Path
    state: SweepState = field(default_factory=lambda: SweepState(brief=True))
    _file: int = 0

    @property
    def journal(self) -> Path:
        """Its journal."""
        return self.folder / JOURNAL

    @property
    def replaced(self) -> bool:
        """Whether the journal is another file than what was read, as that of a sweep begun anew."""
        try:
            return self._file not in (0, self.journal.stat().st_ino)
        except OSError:
            return False

    @property
    def version(self) -> tuple[object, ...]:
        """What changes whenever anything does that is to be seen. No line is read for it."""
        stamps = _stamp(self.journal), _stamp(self.folder / FILE)
        return *stamps, is_locked(self.journal), self._word()

    def refresh(self) -> Snapshot:
        """Read what is new, as `SweepState.read` does, and return how far the sweep is."""
        self._file = plain(self.journal, "journal").stat().st_ino
        self.state.read(self.journal)
        if self.state.begun is None:
            raise broken(self.journal, 1, "the sweep has not begun")
        locked, reported = is_locked(self.journal), read(self.folder)
        return snapshot(self.folder.name, self.state, reported, locked, self._word())

    def _word(self) -> str:
        word = Control(self.folder).asked
        return word if word in WORDS else ""


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def sweeps(storage: Path) -> list[str]:
    """Return the names of the sweeps under a storage root, those with a damaged journal included."""
    return sorted(
        path.parent.name
        for path in storage.glob(f"*/{JOURNAL}")
        if begun(path) or (path.with_name(MARKER).exists() and in_the_way(path))
    )


def of_study(storage: Path, name: str) -> list[str]:
    """Return the sweeps under a storage root of a study that has not given one its own name."""
    names, own = sweeps(storage), []
    if name in names:
        return []
    for each in names:
        with suppress(UserError):  # a journal that is damaged is said where it is read
            if any(session.study_name == name for session in sessions(storage / each / JOURNAL)):
                own.append(each)
    return own


def status(storage: Path, name: str) -> dict[str, Any]:
    """Return a sweep's snapshot as the JSON document of `suite status`: `running` says whether a process runs it,
    and `running_trials` how many trials run; `idle_seconds` is the time since anything happened, and `best` has
    the best validation score of each entry.

    Raises `UserError` when there is no such sweep, or its journal is damaged or of another version.
    """
    folder = _folder(storage, name)
    followed = Followed(folder)
    seen, state = followed.refresh(), followed.state
    assert state.begun is not None
    counts = seen.counts
    return {
        "name": name,
        "study": seen.study,
        "running": seen.active,
        "entries": len(seen.entries),
        "expected": seen.planned,
        "requested": seen.requested,
        "running_trials": counts["running"],
        "ended": seen.ended,
        "superseded": seen.superseded,
        "recorded": seen.recorded,
        **{status.value: counts[status] for status in ENDINGS},
        "died": seen.attempts_died,
        "trial_seconds": seen.spent,
        "sessions": seen.sessions,
        "idle_seconds": round(time.time() - (folder / JOURNAL).stat().st_mtime, 1),
        "asked_to": seen.asked_to or None,
        "per_minute": seen.per_minute,
        "seconds_left": seen.seconds_left,
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
            for entry in seen.entries
        ],
        "now": [
            {
                "trial_id": trial_id,
                "entry_id": entry.entry_id,
                "name": entry.name,
                "kind": state.requested[trial_id].kind,
                "params": state.requested[trial_id].params,
                "round": curve[-1][0] if curve else 0,
                "rounds": state.begun.study["settings"]["rounds"],
                "score": curve[-1][1] if curve else None,
                "metric": entry.metric,
            }
            for entry in seen.entries
            for trial_id, curve in entry.running.items()
        ],
    }


def ask(storage: Path, name: str, word: str) -> bool:
    """Ask a running sweep to `stop` or `cancel`; return False when no process of this machine runs it, which
    a process of another machine may, by the same storage.
    """
    folder = _folder(storage, name)
    try:
        Control(folder).ask(word)
    except OSError as error:
        raise UserError(f"storage {folder} cannot be written: {error.strerror}") from None
    return is_locked(folder / JOURNAL)


def _folder(storage: Path, name: str) -> Path:
    check_name(name, "sweep")
    if name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    check_first(storage / name / JOURNAL)
    return storage / name
