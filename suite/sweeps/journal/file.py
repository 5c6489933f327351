"""The sweep's journal: what was asked, what ended, what is recorded; one fsynced line each.

It is the only thing that a resumed sweep is rebuilt from. One process writes it at a time, which a lock on a
file beside it enforces; a line torn by a crash is cut off when it is opened.
"""

import errno
import fcntl
import mmap
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel

from suite.execution.stop_signal import HaltedError
from trials.common.errors import UserError

START = b'{"event":"begin",'
"""The first bytes of a sweep's journal, and of no file of anyone else."""


class Journal:
    """An append-only file of JSON lines, which is locked until it is closed."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._writing, self._path, self._fault = threading.Lock(), path, ""
        self._lock = _open(lock_of(path))
        if not _take(self._lock):
            self._lock.close()
            raise UserError(
                f"another process is running this sweep ({path} is locked): let it end, or choose another --name"
            )
        self._file = _open(path)
        if size := os.fstat(self._file.fileno()).st_size:
            with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                size = content.rfind(b"\n") + 1  # what follows the last line's end was torn
        self._file.truncate(size)

    def write(self, *events: BaseModel) -> None:
        """Append events; when this returns they have reached the disk.

        Raises `HaltedError` when the disk does not take them, and ever after: what is torn stays last.
        """
        text = "".join(f"{event.model_dump_json()}\n" for event in events).encode()
        with self._writing:
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
        self._lock.close()


def lock_of(journal: Path) -> Path:
    """Return the path of a journal's lock."""
    return journal.with_name("journal.lock")


def is_locked(journal: Path) -> bool:
    """Return whether a process is writing a journal, as far as this machine can see."""
    with suppress(FileNotFoundError), lock_of(journal).open("rb") as lock:
        return not _flock(lock, fcntl.LOCK_SH)
    return False


def first_line(journal: Path) -> bytes:
    """Return the first line; nothing where there is no file."""
    if not journal.is_file():
        return b""
    with journal.open("rb") as file:
        return file.readline()


def begun(journal: Path) -> bool:
    """Return whether a sweep's first event is in this journal."""
    first = first_line(journal)
    return first.startswith(START) and first.endswith(b"\n")


def torn(journal: Path) -> bool:
    """Return whether no sweep has begun in this journal, and nothing else is there."""
    first = first_line(journal)
    return START.startswith(first) or (first.startswith(START) and not first.endswith(b"\n"))


def _open(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    return os.fdopen(descriptor, "a+b", buffering=0)


def _take(lock: BinaryIO) -> bool:
    """Take the writer's lock; return whether no other writer has it."""
    while not _flock(lock, fcntl.LOCK_EX):
        # Who watches holds a shared lock for a moment, as `is_locked` does. Beside those a further shared one is
        # granted, beside a writer's it is not: so watchers are waited for, and a writer is told from them.
        if not _flock(lock, fcntl.LOCK_SH):
            return False
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(0.001)
    return True


def _flock(lock: BinaryIO, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
