"""The sweep's journal: what was asked, what ended, what is recorded; one fsynced line each.

It is the only thing that a resumed sweep is rebuilt from. One process writes it at a time, which a
lock on the file enforces; a line torn by a crash is cut off when it is opened.
"""

import errno
import fcntl
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suite.execution.stop_signal import HaltedError
from suite.formats import check_format
from trials.common.errors import UserError

Line = dict[str, Any]
BLOCK = 1 << 16
START = b'{"event":"begin",'
"""The first bytes of a sweep's journal, and of no file of anyone else."""
END = b'{"event":"end",'
"""The first bytes of the line that ends a journal."""


class Journal:
    """An append-only file of JSON lines. `size` is how many bytes whole lines had when it was opened."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock, self._path = threading.Lock(), path
        made = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(made, "a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UserError(
                f"another process is running this sweep ({path} is locked): let it end, or choose another --name"
            ) from None
        self.size = size(path)
        self._file.truncate(self.size)
        self._fault = ""

    def write(self, event: str, **fields: Any) -> None:
        """Append an event; when this returns it has reached the disk.

        Raises `HaltedError` when the disk does not take it, and ever after: what is torn stays last.
        """
        text = line(event, fields) + b"\n"
        with self._lock:
            if not self._fault:
                try:
                    if os.write(self._file.fileno(), text) < len(text):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(self._file.fileno())
                except OSError as error:
                    self._fault = f"journal {self._path} cannot be written: {error.strerror}"
            if self._fault:
                raise HaltedError(self._fault)

    def close(self) -> None:
        """Give up the lock."""
        self._file.close()


def line(event: str, fields: Line) -> bytes:
    """An event as a journal holds it, without the line's end."""
    return json.dumps({"event": event, **fields}, separators=(",", ":")).encode()


def peek(path: Path) -> list[Line]:
    """The lines of a journal that another process may be writing."""
    return [parsed(path, *one) for one in raw_lines(path)] if path.exists() else []


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each line, without a torn last one."""
    with path.open("rb") as file:
        yield from ((number, raw) for number, raw in enumerate(file, 1) if raw.endswith(b"\n"))


def shortened(raw: bytes) -> bytes:
    """A line with the last evaluation alone of its history; another one as it is. A quote inside a text has a
    backslash before it, so none of these marks is in one.
    """
    if not raw.startswith(END):
        return raw
    begin, end = raw.find(b',"history":[{'), raw.find(b'}],"intermediates":')
    last = raw.rfind(b"},{", begin, end) + 2
    return raw if begin < 0 or last < begin else raw[: begin + 12] + raw[last:]


def size(path: Path) -> int:
    """How many bytes the whole lines of a journal take: what follows the last line's end was torn."""
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        while at > 0:
            begin = max(0, at - BLOCK)
            file.seek(begin)
            found = file.read(at - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            at = begin
    return 0


def begins(path: Path) -> list[Line]:
    """The lines by which a sweep's sessions begin; what else a long journal holds is not taken apart."""
    return [parsed(path, *one) for one in raw_lines(path) if one[1].startswith(START)]


def begun(path: Path) -> bool:
    """Whether a sweep's first event is in this journal."""
    first = _first(path)
    return first.startswith(START) and first.endswith(b"\n")


def in_the_way(path: Path) -> bool:
    """Whether a file is there that no sweep began to write."""
    first = _first(path)
    return not first.startswith(START) and not START.startswith(first)


def _first(path: Path) -> bytes:
    """The first line; nothing where there is no file."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.readline()


def is_locked(path: Path) -> bool:
    """Whether a process is writing this journal, as far as this machine can see."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def check_first(path: Path) -> None:
    """Raise `FormatError` where another version of the suite began this journal."""
    _check(path, _object(_first(path)))


def _check(path: Path, line: Line | None) -> None:
    if line is not None and line.get("event") == "begin":
        check_format(f"sweep {path.parent.name}", line.get("format"), "choose another --name")


def _object(raw: bytes) -> Line | None:
    """The JSON object of a line; None where it holds none."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def parsed(path: Path, number: int, raw: bytes) -> Line:
    """A line; raises `UserError` where it is none that a journal holds, `FormatError` where a session of
    another format begins with it.
    """
    line = _object(raw)
    if line is None:
        raise broken(str(path), number, "it is no JSON object")
    _check(path, line)
    return line


def broken(journal: str, number: int, fault: str) -> UserError:
    """The error for a line that a sweep did not write there."""
    return UserError(
        f"journal {journal}, line {number}: {fault}. It is damaged, or a later version of suite wrote it"
    )
