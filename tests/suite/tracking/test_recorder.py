"""What writes records beside a sweep: in order, again after a failure, waited for while it writes."""

import threading
import time
from collections.abc import Callable
from typing import Any

from suite.tracking import StoreError
from suite.tracking.recorder import Recorder

REFUSED = StoreError("sqlite:///here", ValueError("Invalid value"), False)


def recorded(
    write: Callable[[Any], object], count: int, patience: float, give_up: bool = False
) -> tuple[Recorder, bool]:
    """Put so many items; return the recorder, and whether all was written."""
    recorder = Recorder(write, lambda error: give_up)
    for item in range(count):
        recorder.put(item)
    return recorder, recorder.close(patience)


def test_it_writes_in_order_and_again_what_failed_and_drops_what_is_refused() -> None:
    failures, taken = [0, 0, 2], []

    def write(item: int) -> None:
        if failures and failures[0] == item:
            raise ConnectionError(failures.pop(0))
        if item in (7, 9):
            raise REFUSED
        taken.append(item)

    recorder, whole = recorded(write, 50, 10)
    assert whole
    assert taken == [item for item in range(50) if item not in (7, 9)]
    assert failures == []
    assert recorder.refusals == [f"2 times: {REFUSED}"]


def test_one_that_cannot_write_ends() -> None:
    tried = []

    def write(item: int) -> None:
        tried.append(item)
        raise ConnectionError("lost")

    assert not recorded(write, 2, 0.2)[1], "nothing was written for as long as it is waited for"
    assert not recorded(write, 2, 60, give_up=True)[1]
    assert set(tried) == {0}


def test_it_is_waited_for_as_long_as_it_writes_and_nothing_else_is() -> None:
    """A store that was lost is written anew from the journal, which takes long."""
    assert recorded(lambda item: time.sleep(0.06), 10, 0.4)[1]
    gate = threading.Event()
    assert not recorded(lambda item: gate.wait(10), 1000, 0.05)[1]
    gate.set()
