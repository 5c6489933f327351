"""Where a sweep keeps its files, and what it removes of them.

A folder of its name that holds anything, and no sweep's journal, is someone else's and is refused; from its own a sweep
removes files by their names, and the folder once nothing is left in it.
"""

import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from suite.configurations.configuration import NEAREST, tuned_files
from suite.results.table import FILE as TABLE
from suite.sweeps.journal.events import (
    START,
    SweepState,
    begun,
    check_first,
    first_line,
    lock_of,
)
from suite.yaml_files import writing
from trials.common.errors import UserError
from trials.common.files import plain
from trials.run.checkpoint import CheckpointFolder

JOURNAL, STATUS = "journal.jsonl", "status.json"
"""The file that a resumed sweep is rebuilt from, and what a sweep says of itself, each second and when it has ended."""
NAME_BYTES = 255
"""The longest name of a folder that common file systems take."""


def check_name(name: str, given: str) -> None:
    """Raise `UserError`, which begins with what was `given`, where a name cannot be that of one folder."""
    fits = name.isprintable() and len(name.encode()) <= NAME_BYTES
    if not fits or name != name.strip() or name in ("", ".", "..") or set(name) & set("/\\"):
        raise UserError(
            f"{given} {name!r}: must be the name of one folder: not . or .., without / and \\, control "
            f"characters and space around it, and at most {NAME_BYTES} bytes"
        )


class SweepPaths:
    """Where a sweep keeps its files and records, and finds its data: its own `folder` below the storage, there the `journal`
    that it is rebuilt from, and its `table`.

    Raises `UserError` for a name that is not one of a folder.
    """

    def __init__(
        self,
        storage: Path,
        name: str,
        tracking_uri: str | None = None,
        data_root: str | None = None,
        checkpoints: str | None = None,
    ) -> None:
        check_name(name, "--name")
        self.storage, self.name, self.tracking_uri = storage, name, tracking_uri
        self.data_root, self.checkpoints = data_root, checkpoints
        self.folder = storage / name
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
        """Raise `UserError` when the folder is someone else's, the journal is no file, the checkpoints' place
        cannot be used or, of a sweep that has not begun, the files to start from cannot.
        """
        with writing(self.folder):
            if os.path.lexists(self.journal):
                plain(self.journal, "journal")
            names = {p.name for p in self.folder.iterdir()} if self.folder.exists() else set()
            if not self.begun:
                # A session that was cut off before it began has left these alone.
                first = first_line(self.journal)[: len(START)]
                if (
                    names - {JOURNAL, lock_of(self.journal).name, STATUS}
                    or first != START[: len(first)]
                ):
                    raise UserError(
                        f"{self.folder} holds files that are no sweep's, or whose journal is damaged: "
                        "choose another --name or --storage"
                    )
        CheckpointFolder(self.checkpoint_folder(""))
        if warm_start not in (None, NEAREST) and JOURNAL not in names:
            tuned_files(Path(str(warm_start)))

    def clear_checkpoints(self, sweep_id: str, asked: Container[str] = ()) -> None:
        """Remove what these trials wrote, as far as it can be removed, and the folder, unless others have put files into it."""
        CheckpointFolder(self.checkpoint_folder(sweep_id)).clear(asked)

    def forget(self, sweep_id: str) -> None:
        """Leave no folder of a sweep that did nothing."""
        self.clear_checkpoints(sweep_id)
        for name in (JOURNAL, lock_of(self.journal).name, STATUS, TABLE):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()
