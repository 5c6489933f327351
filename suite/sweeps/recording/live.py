"""Running trials in the tracking store, with their curves so far."""

import threading
import time
from collections.abc import Callable
from typing import Any

from suite.search.trial import TrialRequest
from suite.sweeps.recording.runs import SweepRecording
from trials.run.outcome import Status
from trials.run.result import TrialResult

SECONDS = 1.0
"""At most one write in so long, of the trial that has waited longest. A trial that is shorter is recorded
once it is over, and never seen running.
"""


class LiveRuns:
    """What running trials reported and the store does not have yet. `put` hands a write to the thread that
    records.
    """

    def __init__(self, recording: SweepRecording, put: Callable[[Any], None]) -> None:
        self.recording, self.put = recording, put
        self._news: dict[str, tuple[TrialRequest, TrialResult]] = {}
        self._lock = threading.Lock()
        self._next, self._waiting = time.monotonic() + SECONDS, False

    def reported(self, request: TrialRequest, outcome: TrialResult) -> None:
        """A trial has said more."""
        if outcome.status != Status.RUNNING:
            return
        with self._lock:
            self._news.setdefault(request.trial_id, (request, outcome))
            due = not self._waiting and time.monotonic() >= self._next
            self._waiting = self._waiting or due
        if due:
            self.put(self._write)

    def over(self, request: TrialRequest) -> None:
        """A trial runs no more; what is left of it is recorded with its end."""
        with self._lock:
            self._news.pop(request.trial_id, None)

    def _write(self) -> None:
        with self._lock:
            self._waiting, self._next = False, time.monotonic() + SECONDS
            if not self._news:
                return
            trial_id = next(iter(self._news))
            request, outcome = self._news.pop(trial_id)
        self.recording.show(request, list(outcome.history))
