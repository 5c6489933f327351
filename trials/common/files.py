"""Files that a person names: only a plain file is opened."""

import stat
import zipfile
from pathlib import Path

from trials.common.errors import UserError
from trials.common.machine import machine_memory

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def resolved(text: str | Path, what: str) -> Path:
    """The absolute path without links; raises `UserError` where a name cannot be one."""
    try:
        path = Path(text).expanduser().resolve()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        shown = str(text) if str(text).isprintable() else repr(str(text))
        raise UserError(f"cannot read {what} {shown}: {reason}") from None
    return path


def plain(path: Path, what: str) -> Path:
    """The path of a plain file, which a link may lead to. Raises `UserError` where there is none, or
    something that reading would wait for, or never end with; `what` says what is read.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise UserError(f"cannot read {what} {path}: it does not exist") from None
    except (OSError, ValueError) as error:  # a ValueError for NUL, which no file's name can have
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {what} {path}: {reason}") from None
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise UserError(f"cannot read {what} {path}: it is {kind}, not a file")
    return path


def refuse_bomb(path: Path) -> None:
    """Raise `ValueError` for a zip archive that holds more than memory does, however small it is packed."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > (there := machine_memory()):
            have = f"{there / 1e9:,.1f} GB"
            raise ValueError(f"unpacked it takes {size / 1e9:,.1f} GB, and this machine has {have}")
