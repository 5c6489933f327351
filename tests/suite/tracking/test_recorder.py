"""What writes records beside a sweep: in order, again after a failure, waited for while it writes."""

import threading
import time
from collections.abc import Callable
from typing import Any

from suite.tracking.recorder import Recorder


def recorded(
    write: Callable[[Any], object], count: int, patience: float
) -> tuple[Recorder, bool, list[str]]:
    """Put so many items; the recorder, whether all was written, and the failures."""
    errors: list[str] = []
    recorder = Recorder(write, lambda error: errors.append(str(error)))
    for item in range(count):
        recorder.put(item)
    return recorder, recorder.close(patience), errors


def test_the_recorder_writes_in_order_and_again_what_failed():
    failures, taken = ["0", "0", "2"], []

    def write(item: int) -> None:
        if failures and failures[0] == str(item):
            raise ConnectionError(failures.pop(0))
        taken.append(item)

    _, whole, errors = recorded(write, 50, 10)
    assert whole
    assert taken == list(range(50))
    assert errors == ["0", "0", "2"]


def test_a_recorder_that_cannot_write_says_so_and_ends():
    tried = []

    def write(item: int) -> None:
        tried.append(item)
        raise ConnectionError("lost")

    recorder, whole, errors = recorded(write, 2, 0.2)
    assert not whole
    recorder._thread.join(5)
    assert not recorder._thread.is_alive(), "it does not write on behind the caller's back"
    assert set(tried) == {0}
    assert set(errors) == {"lost"}


def test_the_recorder_is_waited_for_as_long_as_it_writes():
    """A store that was lost is written anew from the journal, which takes long."""
    assert recorded(lambda item: time.sleep(0.06), 10, 0.4)[1]


def test_nothing_waits_for_the_recorder():
    gate, written = threading.Event(), []

    def write(item: int) -> None:
        gate.wait(10)
        written.append(item)

    assert not recorded(write, 1000, 0.05)[1]
    assert written == []
    gate.set()
