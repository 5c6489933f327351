"""How a sweep writes to its tracking store: in a thread of its own, and for how long it tries."""

import time
from collections.abc import Callable

from suite.execution.stop_signal import INTERRUPTED, Control, HaltedError
from suite.sweeps.progress import Progress
from suite.tracking import is_local
from suite.tracking.faults import StoreError, reason
from suite.tracking.recorder import Recorder

RECORD_SECONDS = 600.0
"""How long a finished sweep waits for a tracking server that takes nothing."""
FAULT_SECONDS = 5.0
"""How long one that was halted by a fault does."""
PERSON_SECONDS = 5.0
"""How long one that is interrupted goes on recording, however well that goes."""
LOCAL_TRIES = 5
"""How often in a row a store on this machine may refuse a record before the sweep is halted."""


class Records:
    """The writes of one sweep to the store at `uri`; a fault there halts it by its `control`."""

    def __init__(self, uri: str, control: Control, progress: Progress) -> None:
        self.uri, self.control, self.progress = uri, control, progress
        self._refused, self._until = 0, 0.0
        self._recorder = Recorder(self._write, self._waiting)
        self.put, self.refuse = self._recorder.put, self._recorder.refuse

    @property
    def refusals(self) -> list[str]:
        """What the store refused, a line for each reason."""
        return self._recorder.refusals

    def close(self) -> bool:
        """Wait until all is written, or it is no use to wait, or nobody wants to; whether it is."""
        halted = self.control.ending == "halted"
        self._until = time.monotonic() + PERSON_SECONDS
        return self._recorder.close(FAULT_SECONDS if halted else RECORD_SECONDS, self._enough)

    def _enough(self) -> bool:
        """Whether who interrupted the sweep has waited for the last records as long as a person does."""
        now = time.monotonic()
        if self.control.ending != INTERRUPTED:
            self._until = now + PERSON_SECONDS
        return now > self._until

    def _write(self, item: Callable[[], object]) -> None:
        """Write something to the tracking store, in the thread that does so."""
        item()
        self.progress.unrecorded, self.progress.waiting = self._recorder.left, ""
        self._refused = 0

    def _waiting(self, error: Exception) -> bool:
        """A record could not be written: whether to give up. A server may come back; a store on this
        machine that refuses again and again has to be seen to.
        """
        why = f"{type(error).__name__}: {reason(error)}"
        self.progress.waiting = f"{why}: trying again"
        self._refused += 1
        away = isinstance(error, StoreError) and not is_local(self.uri)
        if isinstance(error, HaltedError):
            self.control.halt(str(error))
        elif self._refused >= LOCAL_TRIES and not away:
            self.control.halt(f"tracking store {self.uri} cannot be written: {why}")
        return self.control.ending == "halted"
