"""Recording in a thread of its own."""

import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from suite.tracking import StoreError


class Recorder:
    """Writes ended trials to MLflow in a thread of its own, so that no trial waits for the store.

    What is to be written waits in a queue, and the journal has it. A write that fails is tried again until it succeeds, unless
    `failed(error)` says to give up; `write` must therefore be repeatable. One that the store refuses ends alone: it would be
    refused again.
    """

    def __init__(
        self, write: Callable[[Any], object], failed: Callable[[Exception], object]
    ) -> None:
        self._write, self._failed = write, failed
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put, self._stop = self._queue.put, threading.Event()
        self._given_up, self._since, self._refused = False, 0.0, Counter[str]()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def refuse(self, error: StoreError) -> None:
        """Note that a record ended alone."""
        self._refused[str(error)] += 1

    @property
    def refusals(self) -> list[str]:
        """What the store refused, a line for each reason."""
        return [f"{count} times: {text}" for text, count in self._refused.items()]

    def close(self, patience: float = math.inf, enough: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all is written, nothing was for `patience` seconds, or it was `enough`; return whether all is written."""
        self._queue.put(None)
        self._since = time.monotonic()
        while (
            self._thread.is_alive() and not enough() and time.monotonic() - self._since <= patience
        ):
            self._thread.join(0.1)  # then look again
        self._stop.set()
        return not (self._given_up or self._thread.is_alive())

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            pause = 0.5
            while not self._stop.is_set():
                try:
                    self._write(item)
                    self._since = time.monotonic()
                    break
                except Exception as error:
                    if isinstance(error, StoreError) and not error.passes:
                        self.refuse(error)
                        break
                    if self._failed(error):
                        self._given_up = True
                        return
                    self._stop.wait(pause)
                    pause = min(pause * 2, 10)
