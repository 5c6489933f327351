"""A sweep followed from outside, by its journal: only what was added since the last look is read."""

from dataclasses import dataclass, field
from pathlib import Path

from reports.snapshot import Snapshot
from suite.execution.stop_signal import WORDS, Control
from suite.sweeps.journal.events import SweepState, broken
from suite.sweeps.journal.file import is_locked
from suite.sweeps.running import FILE, read
from suite.sweeps.snapshot import snapshot
from trials.common.files import plain


@dataclass
class Followed:
    """A sweep's folder, as far as its journal was read. Not for several threads at once."""

    folder: Path
    state: SweepState = field(default_factory=lambda: SweepState(brief=True))
    _file: int = 0

    @property
    def journal(self) -> Path:
        """Its journal."""
        return self.folder / "journal.jsonl"

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
