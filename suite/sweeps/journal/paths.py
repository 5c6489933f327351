"""The files and folders of a sweep. A folder that holds other files, and no journal of a sweep, is refused."""

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
"""The names of the journal, and of the file with the sweep's status, which is written each second and at the end."""


def check_name(name: str, option: str) -> None:
    """Raise `UserError` unless `name` can be the name of a single folder. The message begins with `option`, such as `--name`."""
    fits = name.isprintable() and len(name.encode()) <= 255  # the limit of common file systems
    if not fits or name != name.strip() or name in ("", ".", "..") or set(name) & set("/\\"):
        bounds = "without / and \\, control characters and space around it, and at most 255 bytes"
        raise UserError(f"{option} {name!r}: must be the name of one folder: not . or .., {bounds}")


@dataclass
class SweepPaths:
    """The paths of the sweep `name` in the folder `storage`. Raises `UserError` for a name that no folder can have.

    Without `tracking_uri` MLflow's store is in `storage`. Without `checkpoints`, a path or URI, checkpoints are in the
    sweep's folder. Data sets are read from `data_root`.
    """

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
        """Return whether the sweep's journal holds a complete first event. Raise `FormatError` if another version wrote the journal."""
        check_first(self.journal)
        return begun(self.journal)

    def state(self) -> SweepState:
        """Return the sweep's state from its journal, or an empty state if no journal exists. Raise `UserError` for a damaged journal."""
        return SweepState().read(self.journal) if self.begun else SweepState()

    def checkpoint_folder(self, sweep_id: str) -> str:
        """Return the path or URI of the folder for the trials' checkpoints. All nodes of a cluster must reach it."""
        if self.checkpoints is None:
            return str(self.folder.resolve() / "checkpoints")
        folder = f"{self.name}-{sweep_id[:8]}"  # sweeps of the same name have their own
        if "://" in self.checkpoints:
            return f"{self.checkpoints}/{quote(folder)}"
        return f"{Path(self.checkpoints).resolve()}/{folder}"

    def check(self, resume: bool) -> None:
        """Raise `UserError` if the sweep's folder or checkpoint location cannot be used. An existing sweep needs `resume`."""
        if self.begun and not resume:
            ways = "continue it with --resume, or choose another --name"
            raise UserError(f"sweep {self.name!r} exists in {self.storage}: {ways}")
        with writing(self.folder):
            first = first_line(self.journal)[: len(START)]
            # A process that was killed before its first event has left a lock file.
            other = self.folder.exists() and any(self.folder.iterdir())
            other = other and not (self.folder / LOCK).exists()
        if (other and first != START) or not START.startswith(first):
            fault = f"{self.folder} holds files of something else, or a damaged journal"
            raise UserError(f"{fault}: choose another --name or --storage")
        CheckpointFolder(self.checkpoint_folder(""))

    def forget(self, sweep_id: str) -> None:
        """Delete the files of a sweep that has run no trial. Delete the sweep's folder too if it holds nothing else."""
        CheckpointFolder(self.checkpoint_folder(sweep_id)).clear(())
        for name in (JOURNAL, LOCK, STATUS, TABLE):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()
