"""A sweep followed from outside, by its journal: only what was added since the last look is read."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from reports.snapshot import Snapshot
from suite.execution.stop_signal import WORDS, Control
from suite.sweeps.journal.events import SweepState
from suite.sweeps.journal.file import broken, is_locked, shortened
from suite.sweeps.running import FILE, read
from suite.sweeps.snapshot import snapshot
from trials.common.files import plain


@dataclass
class Followed:
    """A sweep's folder, as far as its journal was read. Not for several threads at once."""

    folder: Path
    state: SweepState = field(default_factory=SweepState)
    _file: int = 0
    _offset: int = 0
    _lines: int = 0

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
        """Read what is new. A last line that is not whole yet is left for the next time. Raises `UserError`
        for one that a sweep did not write there, and again at each later look.
        """
        with plain(self.journal, "journal").open("rb") as file:
            self._file = os.fstat(file.fileno()).st_ino
            file.seek(self._offset)
            for raw in file:
                if raw.endswith(b"\n"):
                    self._take(raw)
        if self.state.begun is None:
            raise broken(str(self.journal), 1, "the sweep has not begun")
        locked, reported = is_locked(self.journal), read(self.folder)
        return snapshot(self.folder.name, self.state, reported, locked, self._word())

    def _word(self) -> str:
        word = Control(self.folder).asked
        return word if word in WORDS else ""

    def _take(self, raw: bytes) -> None:
        self.state.take(self.journal, self._lines + 1, shortened(raw))
        self._offset += len(raw)
        self._lines += 1


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
