"""The early end of a running sweep: by a signal, by another process, or by a fault of the machine or cluster."""

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
"""The `ending` of a sweep after Ctrl-C or SIGTERM, and after its deadline."""
WORDS = {"stop": "stopped", "cancel": "cancelled"}
"""The words with which another process asks a sweep to end, and the `ending` that results."""
REMEDY = "Nothing is lost: run the command again with --resume when that is mended."


class HaltedError(Exception):
    """A fault of the machine or cluster, such as a full disk, that ended a sweep or batch. `remedy` says what to do. Exit code 3."""

    def __init__(self, fault: str, remedy: str = REMEDY) -> None:
        super().__init__(fault)
        self.remedy = remedy


class Control:
    """The reason why a sweep ends early. `ending` is "" (it goes on), `interrupted`, `stopped` (running trials finish),
    `cancelled`, `out of time` (after `deadline`, in monotonic seconds), or `halted` by the `fault`.

    Another process asks a sweep to end by a control file in its folder. A sweep that starts removes this file.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "control"
        self.ending = self.fault = ""
        self.deadline = math.inf
        self._next = 0.0

    def ask(self, word: str) -> None:
        """Ask the process that runs the sweep to end: write `stop` or `cancel` to the control file."""
        self.path.write_text(word)

    @property
    def asked(self) -> str:
        """Return the request in the control file (`stop` or `cancel`), or "" if there is no such file."""
        with suppress(OSError):
            return self.path.read_text(errors="replace").strip()
        return ""

    def clear(self) -> None:
        """Delete the control file that an earlier session may have left."""
        self.path.unlink(missing_ok=True)

    def end(self, ending: str) -> None:
        """Set the reason why the sweep ends. Keep the reason `halted`, and keep any earlier reason if the new one is `stopped`."""
        if self.ending != "halted" and not (ending == "stopped" and self.ending):
            self.ending = ending

    def halt(self, fault: str) -> None:
        """End the sweep as halted by a fault. If there are several, the first `fault` is reported."""
        self.fault = self.fault or fault
        self.ending = "halted"

    @property
    def draining(self) -> bool:
        """Return whether the sweep is ending and no more trials begin. Requests and the deadline are checked at most every 0.5 s."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + POLL_SECONDS
            if self.asked in WORDS:
                self.end(WORDS[self.asked])
            elif time.monotonic() >= self.deadline:
                self.end(OUT_OF_TIME)
        return bool(self.ending)

    @property
    def ends_now(self) -> bool:
        """Return whether the sweep must end its running trials at once."""
        return self.draining and self.ending != "stopped"


@contextmanager
def interruptible(control: Control) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM inside this context. The first signal asks the sweep to end, and a second signal ends the
    process at once. Outside the main thread the context changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if control.ending == INTERRUPTED:
            os.write(2, b"interrupted again: ending at once; the journal is kept\n")
            os._exit(130)
        os.write(2, b"interrupted: ending in order; press Ctrl-C again to end at once\n")
        control.end(INTERRUPTED)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
