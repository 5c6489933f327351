"""The file of a store: where it may lie, and what may be in it."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from trials.common.errors import UserError
from trials.common.files import plain

HEADER = b"SQLite format 3\0"
"""What every database begins with."""
_NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "gpfs", "fuse.sshfs"}


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one process after the other in: MLflow makes its tables without asking whether another one does.
    Where a folder cannot be locked (some network file systems) nobody waits.
    """
    place = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def sqlite_uri(storage: Path) -> str:
    """Return the default store: `mlflow.db` under the storage root. Raises `UserError` where SQLite cannot keep it."""
    place = storage.resolve()
    if set(str(place)) & set("?#%"):
        raise UserError(f"storage {place}: ?, # and % have a meaning in a store's address")
    kind = _file_system(place)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise UserError(
            f"{storage} is on a network file system ({kind}), where SQLite loses data. "
            "Choose a local --storage, or start a server and pass --tracking-uri."
        )
    return f"sqlite:///{place / 'mlflow.db'}"


def _file_system(path: Path) -> str:
    """Return the type of the file system a path is on, as the kernel names it; "" where it cannot tell."""
    deepest, kind = Path(), ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, place, its_kind, *_ = line.split()
            mount = Path(place.replace("\\040", " "))
            if path.is_relative_to(mount) and len(str(mount)) >= len(str(deepest)):
                deepest, kind = mount, its_kind
    return kind


def tables(path: Path) -> list[str]:
    """Return the tables of a database; none of an empty file. Raises `UserError` for what is no database, and where
    SQLite would wait, for a pipe, or minutes for a folder.
    """
    try:
        with plain(path, "store").open("rb") as file:
            begins = file.read(len(HEADER))
        if begins not in (b"", HEADER):  # of a single byte SQLite makes a database
            raise UserError(f"cannot read store {path}: file is not a database")
        with contextlib.closing(sqlite3.connect(path)) as database:
            names = database.execute("select name from sqlite_master where type = 'table'")
            return [name for (name,) in names]
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"cannot read store {path}: {error}") from None


def refuse_others(uri: str) -> None:
    """Raise `UserError` where MLflow would make its tables in a file of something else."""
    path = Path(uri.removeprefix("sqlite:///"))
    if not uri.startswith("sqlite:///") or not os.path.lexists(path):
        return
    names = tables(path)
    if names and "experiments" not in names:
        shown = ", ".join(sorted(names)[:5])
        raise UserError(f"store {path} is a database of something else than MLflow: it has {shown}")
