"""The sweep's journal: what was asked, what ended, what is recorded; one fsynced line each.

It is the only thing that a resumed sweep is rebuilt from. One process writes it at a time, which a
lock on the file enforces; a line torn by a crash is cut off when it is opened.
"""

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

from trials.errors import UserError

Event = dict[str, Any]


class Journal:
    """An append-only file of JSON lines. `events` are those that were there when it was opened."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UserError(f"another process is running this sweep ({path} is locked)") from None
        self.events, whole = _read(path)
        self._file.truncate(whole)

    def write(self, event: str, **fields: Any) -> None:
        """Append an event; when this returns it has reached the disk."""
        with self._lock:
            line = json.dumps({"event": event, **fields}, separators=(",", ":"))
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Give up the lock."""
        self._file.close()


def peek(path: Path) -> list[Event]:
    """The events of a journal that another process may be writing."""
    return _read(path)[0] if path.exists() else []


def _read(path: Path) -> tuple[list[Event], int]:
    """The events, and how many bytes they take; a torn last line is not among them."""
    whole = path.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()], len(whole)
