"""How a running sweep is asked to end: by a signal, by another process, or by a fault around it."""

import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

POLL_SECONDS = 0.5
INTERRUPTED, OUT_OF_TIME = "interrupted", "out of time"
"""The endings of a sweep that Ctrl-C (or SIGTERM) ended, and of one whose deadline is past."""
WORDS = {"stop": "stopped", "cancel": "cancelled"}
"""What another process may ask for, and the ending that follows."""
REMEDY = "Nothing is lost: run the command again with --resume when that is mended."


class HaltedError(Exception):
    """A sweep or batch ended because of something around it; `remedy` says what is kept. Exit code 3."""

    def __init__(self, fault: str, remedy: str = REMEDY) -> None:
        super().__init__(fault)
        self.remedy = remedy


class Control:
    """Why a sweep should end early: `ending` is "" (it should not), interrupted, stopped (running
    trials finish), cancelled, out of time (`deadline`, of the monotonic clock, is past), or halted, and
    then `fault` says why.

    Other processes ask by a file in the sweep's folder, which a sweep that starts removes.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "control"
        self.ending = self.fault = ""
        self.deadline = math.inf
        self._next = 0.0

    def ask(self, word: str) -> None:
        """Leave a word for the process that runs the sweep."""
        self.path.write_text(word)

    @property
    def asked(self) -> str:
        """The word that another process left, or ""."""
        with suppress(OSError):
            return self.path.read_text(errors="replace").strip()
        return ""

    def clear(self) -> None:
        """Forget what was asked of an earlier session."""
        self.path.unlink(missing_ok=True)

    def end(self, ending: str) -> None:
        """End early. A fault replaces other reasons and is never replaced; `stopped` replaces none."""
        if self.ending != "halted" and not (ending == "stopped" and self.ending):
            self.ending = ending

    def halt(self, fault: str) -> None:
        """End because of a fault; the first one counts."""
        self.fault = self.fault or fault
        self.ending = "halted"

    @property
    def draining(self) -> bool:
        """Whether no trial may be started any more."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + POLL_SECONDS
            if self.asked in WORDS:
                self.end(WORDS[self.asked])
            elif time.monotonic() >= self.deadline:
                self.end(OUT_OF_TIME)
        return bool(self.ending)

    @property
    def ends_now(self) -> bool:
        """Whether running trials are to be ended too."""
        return self.draining and self.ending != "stopped"


@contextmanager
def interruptible(control: Control) -> Iterator[None]:
    """End the sweep in order at the first Ctrl-C (or SIGTERM), at once at the second. Python takes signals in its main
    thread only; in another thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if control.ending == INTERRUPTED:
            os.write(2, b"interrupted again: ending at once; what is in the journal is kept\n")
            os._exit(130)
        control.end(INTERRUPTED)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
