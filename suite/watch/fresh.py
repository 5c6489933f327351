"""Watching costs little: what is shown is made anew when somebody looks, at most every few seconds."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

SECONDS = 2.0
REST = 50
"""How many times as long as making something took the processor it is left alone: watching takes a fiftieth of one."""
T = TypeVar("T")


class Fresh(Generic[T]):
    """What a function returned last: called, it is made anew where its time has come, by one thread. Others get the last one."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._last: tuple[T] | None = None
        self._next = 0.0

    def __call__(self) -> T:
        """Return it; raises what the function raises."""
        last = self._last
        if last and (time.monotonic() < self._next or not self._lock.acquire(blocking=False)):
            return last[0]
        if not last:
            self._lock.acquire()  # the first one is waited for
        try:
            if self._last and time.monotonic() < self._next:
                return self._last[0]
            began = time.thread_time()
            self._last = (self._make(),)
            took = time.thread_time() - began
            self._next = time.monotonic() + max(SECONDS, REST * took)
            return self._last[0]
        finally:
            self._lock.release()
