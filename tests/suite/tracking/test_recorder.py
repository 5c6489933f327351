"""What writes records beside a sweep: in order, again after a failure, waited for while it writes."""

import threading
import time

from suite.tracking.recorder import Recorder


class Flaky:
    """A store whose first writes fail; what it took, and what it was asked."""

    def __init__(self, failures: int) -> None:
        self.failures, self.taken, self.errors = failures, [], []
        self.tried = threading.Event()

    def write(self, item) -> None:
        self.tried.set()
        if self.failures:
            self.failures -= 1
            raise ConnectionError(item)
        self.taken.append(item)


def test_the_recorder_writes_in_order():
    flaky = Flaky(0)
    recorder = Recorder(flaky.write, flaky.errors.append)
    for i in range(50):
        recorder.put(i)
    assert recorder.close(5) is True
    assert flaky.taken == list(range(50))
    assert flaky.errors == []


def test_the_recorder_tries_again_until_it_succeeds():
    flaky = Flaky(2)
    recorder = Recorder(flaky.write, flaky.errors.append)
    for i in range(3):
        recorder.put(i)
    assert recorder.close(10) is True
    assert flaky.taken == [0, 1, 2]
    assert [str(error) for error in flaky.errors] == ["0", "0"]


def test_a_recorder_that_cannot_write_says_so_and_ends():
    flaky = Flaky(10**9)
    recorder = Recorder(flaky.write, flaky.errors.append)
    recorder.put("lost")
    recorder.put("never tried")
    assert flaky.tried.wait(5)
    assert recorder.close(0.2) is False
    recorder._thread.join(5)
    assert not recorder._thread.is_alive(), "it does not write on behind the caller's back"
    assert flaky.taken == []
    assert {str(error) for error in flaky.errors} == {"lost"}


def test_the_recorder_is_waited_for_as_long_as_it_writes():
    """A store that was lost is written anew from the journal, which takes long."""
    taken = []

    def write(item: int) -> None:
        time.sleep(0.06)
        taken.append(item)

    recorder = Recorder(write, lambda error: None)
    for i in range(10):
        recorder.put(i)
    assert recorder.close(0.4) is True
    assert taken == list(range(10))


def test_nothing_waits_for_the_recorder():
    gate, written = threading.Event(), []

    def write(item: int) -> None:
        gate.wait(10)
        written.append(item)

    recorder = Recorder(write, lambda error: None)
    for i in range(1000):
        recorder.put(i)
    assert written == []
    assert recorder.close(0.05) is False
    gate.set()
