"""Where a sweep keeps its files, and which it removes: known names in its own folder, then the folder if it is empty. A
folder with files but no sweep's journal is someone else's and is refused.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from suite.results.table import FILE as TABLE
from suite.sweeps.journal.events import LOCK, START, SweepState, begun, check_first, first_line
from suite.yaml_files import writing
from trials.common.errors import UserError
from trials.run.checkpoint import CheckpointFolder

JOURNAL, STATUS = "journal.jsonl", "status.json"
"""The file that a resumed sweep is rebuilt from, and the file of its status, written each second and at the end."""


def check_name(name: str, given: str) -> None:
    """Raise `UserError` where a name is not one of a single folder. The message begins with what was `given`."""
    fits = name.isprintable() and len(name.encode()) <= 255  # as common file systems have it
    if not fits or name != name.strip() or name in ("", ".", "..") or set(name) & set("/\\"):
        bounds = "without / and \\, control characters and space around it, and at most 255 bytes"
        raise UserError(f"{given} {name!r}: must be the name of one folder: not . or .., {bounds}")


@dataclass
class SweepPaths:
    """Where a sweep keeps its files and records, and finds its data. Raises `UserError` for a name that is not one of a folder."""

    storage: Path
    name: str
    tracking_uri: str | None = None
    data_root: str | None = None
    checkpoints: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "--name")
        self.folder = self.storage / self.name
        self.journal, self.table = self.folder / JOURNAL, self.folder / TABLE

    @property
    def begun(self) -> bool:
        """Return whether there is such a sweep. Raises `FormatError` for one of another version."""
        check_first(self.journal)
        return begun(self.journal)

    def state(self) -> SweepState:
        """Return what its journal says of the sweep, which another process may be writing. Raises `UserError` where it is damaged."""
        return SweepState().read(self.journal) if self.begun else SweepState()

    def checkpoint_folder(self, sweep_id: str) -> str:
        """Return the path or URI of the folder of the trials' checkpoints, which all nodes must reach."""
        if self.checkpoints is None:
            return str(self.folder.resolve() / "checkpoints")
        own = f"{self.name}-{sweep_id[:8]}"  # nobody else's is in the way
        if "://" in self.checkpoints:
            return f"{self.checkpoints}/{quote(own)}"
        return f"{Path(self.checkpoints).resolve()}/{own}"

    def check(self, resume: bool) -> None:
        """Raise `UserError` where a sweep exists that is not to `resume`, or others' files, or no place for checkpoints."""
        if self.begun and not resume:
            ways = "continue it with --resume, or choose another --name"
            raise UserError(f"sweep {self.name!r} exists in {self.storage}: {ways}")
        with writing(self.folder):
            first = first_line(self.journal)[: len(START)]
            # A session that was cut off before it began has left a lock.
            other = self.folder.exists() and any(self.folder.iterdir())
            other = other and not (self.folder / LOCK).exists()
        if (other and first != START) or not START.startswith(first):
            theirs = f"{self.folder} holds files that are no sweep's, or whose journal is damaged"
            raise UserError(f"{theirs}: choose another --name or --storage")
        CheckpointFolder(self.checkpoint_folder(""))

    def forget(self, sweep_id: str) -> None:
        """Remove the folder of a sweep that did nothing."""
        CheckpointFolder(self.checkpoint_folder(sweep_id)).clear(())
        for name in (JOURNAL, LOCK, STATUS, TABLE):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()
