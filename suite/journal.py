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
        self.events = _read(path)
        self._file.truncate(sum(len(_line(event)) for event in self.events))

    def write(self, event: str, **fields: Any) -> None:
        """Append an event; when this returns it has reached the disk."""
        with self._lock:
            self._file.write(_line({"event": event, **fields}))
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Give up the lock."""
        self._file.close()


def peek(path: Path) -> list[Event]:
    """The events of a journal that another process may be writing."""
    return _read(path) if path.exists() else []


def _line(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _read(path: Path) -> list[Event]:
    events = []
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        events.append(json.loads(line))
    return events
