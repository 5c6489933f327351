"""Files that a person names."""

import stat
from pathlib import Path

from trials.common.errors import UserError


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
    """Return the path of a file, which a link may lead to; `what` says what is read. Raises `UserError` where there is
    none, or a pipe that reading would wait for.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # a ValueError for NUL, which no file's name can have
        reason = getattr(error, "strerror", None) or error
        missing = isinstance(error, FileNotFoundError)
        raise UserError(
            f"cannot read {what} {path}: {'it does not exist' if missing else reason}"
        ) from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise UserError(f"cannot read {what} {path}: it is {kind}, not a file")
    return path
