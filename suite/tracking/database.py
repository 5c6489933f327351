"""The file of a store: where it may lie, what may be in it, and what MLflow says of it."""

import contextlib
import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from mlflow.version import VERSION

from trials.common.errors import UserError
from trials.common.files import plain

HEADER = b"SQLite format 3\0"
"""What every database begins with."""
_NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "gpfs", "fuse.sshfs"}


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process after the other: MLflow makes its tables without asking whether another one does.
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
    """The default store: `mlflow.db` under the storage root, on a local disk."""
    if set(str(storage.resolve())) & set("?#%"):
        raise UserError(
            f"storage {storage.resolve()}: ?, # and % have a meaning in a store's address"
        )
    kind = _file_system(storage.resolve())
    if kind in _NETWORK_FILE_SYSTEMS:
        raise UserError(
            f"{storage} is on a network file system ({kind}), where SQLite loses data. "
            "Choose a local --storage, or start a server and pass --tracking-uri."
        )
    return f"sqlite:///{storage.resolve() / 'mlflow.db'}"


def tables(path: Path) -> list[str]:
    """The tables of a database; none of an empty file. Raises `UserError` for what is no database, and where
    SQLite would wait, for a pipe, or minutes for a folder.
    """
    try:
        with plain(path, "store").open("rb") as file:
            begins = file.read(len(HEADER))
        if begins not in (b"", HEADER):  # of a single byte SQLite makes a database
            raise UserError(f"cannot read store {path}: file is not a database")
        with contextlib.closing(sqlite3.connect(path)) as database:
            found = database.execute("select name from sqlite_master where type = 'table'")
            return [name for (name,) in found]
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"cannot read store {path}: {error}") from None


def refuse_others(uri: str) -> None:
    """Raise `UserError` where MLflow would make its tables in a file of something else."""
    path = Path(uri.removeprefix("sqlite:///"))
    if not uri.startswith("sqlite:///") or not os.path.lexists(path):
        return
    found = tables(path)
    if found and "experiments" not in found:
        shown = ", ".join(sorted(found)[:5])
        raise UserError(f"store {path} is a database of something else than MLflow: it has {shown}")


def refusal(error: Exception) -> str:
    """What MLflow says of a database that does not open; of one of another schema, which it is and what
    to do, where MLflow takes a later one for an earlier.
    """
    found = re.search(r"\(found version (\w+), but expected (\w+)\)", str(error))
    if found is None:
        return reason(error)
    return (
        f"its schema is {found[1]}, and MLflow {VERSION} reads {found[2]}: a later MLflow wrote "
        "it, which it needs, or an earlier one, after which `mlflow db upgrade` brings it up"
    )


def _file_system(path: Path) -> str:
    """The type of the file system a path is on, as the kernel names it; "" where it cannot tell."""
    with contextlib.suppress(OSError):
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        places = [(m[1].replace("\\040", " "), m[2]) for m in mounts]
        inside = [
            (len(at), i, kind) for i, (at, kind) in enumerate(places) if path.is_relative_to(at)
        ]
        return max(inside, default=(0, 0, ""))[2]
    return ""


def reason(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip() or repr(error)).splitlines()[0][:300]
