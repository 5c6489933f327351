"""Where a sweep keeps its files, which folders are its own, and what it removes from them.

A folder that a sweep makes has a marker. One of its name that holds anything and has none is someone else's and is
refused; from its own a sweep removes files by their names, and the folder once nothing is left in it.
"""

import os
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from suite.configurations.nearest import NEAREST, tuned_files
from suite.results.table import FILE as TABLE
from suite.sweeps.journal.events import Begun, SweepState, check_first, sessions
from suite.sweeps.journal.file import begun, in_the_way, lock_of
from suite.yaml_files import writable
from trials.common.errors import UserError
from trials.common.files import plain
from trials.run.checkpoint import CheckpointFolder

MARKER = ".suite-sweep"
ABOUT = "A sweep of suite-fl made this folder. It removes files of its own from it, and no others."
STATUS = "status.json"
"""What a sweep says of itself while it runs, each second, and when it has ended."""
NAME_BYTES = 255
"""The longest name of a folder that common file systems take."""


def check_name(name: str, given: str) -> None:
    """Raise `UserError`, which begins with what was `given`, where a name cannot be that of one folder."""
    fits = name.isprintable() and len(name.encode()) <= NAME_BYTES
    if not fits or name != name.strip() or name in ("", ".", "..") or set(name) & set("/\\"):
        shown = name if name.isprintable() and name == name.strip() != "" else repr(name)
        raise UserError(
            f"{given} {shown}: must be the name of one folder: not . or .., without / and \\, control "
            f"characters and space around it, and at most {NAME_BYTES} bytes"
        )


@dataclass(frozen=True)
class SweepPaths:
    """Where a sweep keeps its files and records, and finds its data.

    Raises `UserError` for a name that is not one of a folder.
    """

    storage: Path
    name: str
    tracking_uri: str | None = None
    data_root: str | None = None
    checkpoints: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "--name")

    @property
    def folder(self) -> Path:
        """The sweep's own folder."""
        return self.storage / self.name

    @property
    def journal(self) -> Path:
        """The file that a resumed sweep is rebuilt from."""
        return self.folder / "journal.jsonl"

    @property
    def begun(self) -> bool:
        """Whether there is such a sweep. Raises `FormatError` for one of another version."""
        check_first(self.journal)
        return begun(self.journal)

    @property
    def models(self) -> Path:
        """The folder of the models that `save: best` keeps."""
        return self.folder / "models"

    def state(self) -> SweepState:
        """Return what its journal says of the sweep, which another process may be writing. Raises `UserError` where it is damaged."""
        return SweepState().read(self.journal) if self.begun else SweepState()

    def last_begun(self) -> Begun | None:
        """Return how its last session began; None when there is no such sweep. Raises as `state` does where
        that is damaged.
        """
        return sessions(self.journal)[-1] if self.begun else None

    def checkpoint_folder(self, sweep_id: str) -> str:
        """Return the path or URI of the folder of the trials' checkpoints, which all nodes must reach. Elsewhere than in
        the sweep's own folder it is named by its id too, so that nobody else's is in the way.
        """
        if self.checkpoints is None:
            return str(self.folder.resolve() / "checkpoints")
        own = f"{self.name}-{sweep_id[:8]}"
        if "://" in self.checkpoints:
            return f"{self.checkpoints}/{quote(own)}"
        return f"{Path(self.checkpoints).resolve()}/{own}"

    def check(self, warm_start: str | None) -> None:
        """Raise `UserError` when a folder is someone else's, the journal is no file, the checkpoints' place
        cannot be used or, of a sweep that has not begun, the files to start from cannot.
        """
        with writable(self.folder):
            if os.path.lexists(self.journal):
                plain(self.journal, "journal")
            strange = in_the_way(self.journal)
            if strange and (self.folder / MARKER).exists():
                raise UserError(
                    f"journal {self.journal} has no valid first line: it is damaged, or another file. "
                    "Move it away, or choose another --name"
                )
            if not self.begun:
                names = (
                    {path.name for path in self.folder.iterdir()} if self.folder.exists() else set()
                )
                left = {
                    self.journal.name,
                    lock_of(self.journal).name,
                }  # by one that ended before it began
                if strange or not (names <= left or MARKER in names):
                    raise UserError(
                        f"{self.folder} holds files and no sweep made it: choose another --name or --storage"
                    )
        CheckpointFolder(self.checkpoint_folder(""))
        if warm_start not in (None, NEAREST) and not self.journal.exists():
            tuned_files(Path(str(warm_start)))

    def mark(self) -> None:
        """Make the sweep's own folder, once it was checked."""
        for folder in (self.storage, self.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / MARKER).write_text(f"{ABOUT}\n")

    def mark_checkpoints(self, sweep_id: str) -> None:
        """Make the folder of checkpoints. Raises `UserError` when it cannot be written."""
        place = self.checkpoint_folder(sweep_id)
        try:
            CheckpointFolder(place).write(MARKER, f"{ABOUT}\n")
        except OSError as error:
            raise UserError(f"checkpoints in {place} cannot be written: {error}") from None

    def clear_checkpoints(self, sweep_id: str, asked: Container[str] = ()) -> None:
        """Remove what these trials wrote, as far as it can be removed, and the folder, unless others have put files into it."""
        folder = CheckpointFolder(self.checkpoint_folder(sweep_id))
        with suppress(OSError):
            folder.clear(asked)
            _give_up(folder)

    def forget(self, sweep_id: str) -> None:
        """Leave no folder of a sweep that did nothing."""
        self.clear_checkpoints(sweep_id)
        for path in (
            self.journal,
            lock_of(self.journal),
            self.folder / STATUS,
            self.folder / TABLE,
        ):
            path.unlink(missing_ok=True)
        _give_up(CheckpointFolder(str(self.folder.resolve())))


def _give_up(folder: CheckpointFolder) -> None:
    """Remove the marker and the folder, if there is nothing else in it."""
    if folder.names() == [MARKER]:
        folder.delete(MARKER)
        folder.drop()
