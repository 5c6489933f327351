"""Files and folders that a person names."""

import stat
from pathlib import Path

from trials.common.errors import UserError


def look(text: str | Path, what: str) -> tuple[Path, str]:
    """Return the path that a person named, and what is there: a "file", a "folder", a "pipe or device", or "" for nothing.
    Raise `UserError` where that cannot be told.
    """
    written = str(text) if str(text).isprintable() else repr(str(text))
    try:
        path = Path(text).expanduser()
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            lost = f"it is a link to {path.readlink()}, which does not exist"
            raise UserError(f"cannot use {what} {written}: {lost}") from None
        return path, ""
    except (OSError, RuntimeError, ValueError) as error:  # no such user; NUL
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {what} {written}: {reason}") from None
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
    return path, kinds.get(stat.S_IFMT(mode), "pipe or device")


def resolved(text: str | Path, what: str) -> Path:
    """Return the absolute path without links; raise `UserError` as `look` does."""
    return look(text, what)[0].resolve()


def plain(path: Path, what: str) -> Path:
    """Return the path of a file; raise `UserError` where there is none, or a pipe that reading would wait for."""
    there, kind = look(path, what)
    if kind != "file":
        reason = f"it is a {kind}, not a file" if kind else "it does not exist"
        raise UserError(f"cannot read {what} {path}: {reason}")
    return there
