"""Checks of files and folders whose paths a user wrote."""

import stat
from pathlib import Path

from trials.common.errors import UserError


def look(text: str | Path, what: str) -> tuple[Path, str]:
    """Return a path with `~` expanded, and its kind: "file", "folder", "pipe or device", or "" for a missing path. Raise
    `UserError` for a broken link or an unreadable path. `what` names the path's purpose in the message.
    """
    shown = str(text) if str(text).isprintable() else repr(str(text))
    try:
        path = Path(text).expanduser()
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            broken = f"it is a link to {path.readlink()}, which does not exist"
            raise UserError(f"cannot use {what} {shown}: {broken}") from None
        return path, ""
    except (OSError, RuntimeError, ValueError) as error:  # such as `~nobody`, or a NUL character
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {what} {shown}: {reason}") from None
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
    return path, kinds.get(stat.S_IFMT(mode), "pipe or device")


def resolved(text: str | Path, what: str) -> Path:
    """Return the absolute path with symbolic links resolved. Raise `UserError` for a broken link or an unreadable path."""
    return look(text, what)[0].resolve()


def plain(path: Path, what: str) -> Path:
    """Return a file's path with `~` expanded. Raise `UserError` if the path does not lead to a regular file."""
    expanded, kind = look(path, what)
    if kind != "file":
        reason = f"it is a {kind}, not a file" if kind else "it does not exist"
        raise UserError(f"cannot read {what} {path}: {reason}")
    return expanded
