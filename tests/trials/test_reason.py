"""Which line of a traceback is shown for all of it."""

import pytest

from trials.run.outcome import CHARACTERS, Status, reason, shortened
from trials.run.running import RunningTrial

FRAMES = """Traceback (most recent call last):
  File "trials/run/running.py", line 46, in step
    return self._step(due)
           ^^^^^^^^^^^^^^^
  File "/mine/mine.py", line 12, in aggregate
    return later(w)
           ^^^^^^^^
"""


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (FRAMES + "ValueError: not so\n", "ValueError: not so"),
        (
            FRAMES
            + "numba.core.errors.TypingError: \x1b[1mFailed in nopython mode pipeline\x1b[0m\n"
            '\x1b[1mFile "mine.py", line 3:\x1b[0m\n  - Resolution failure\n'
            "\x1b[0m\x1b[1mDuring: Pass nopython_type_inference\x1b[0m\n",
            "numba.core.errors.TypingError: Failed in nopython mode pipeline",
        ),
        (
            f"{FRAMES}KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n"
            f"\n{FRAMES}ValueError: not so\n",
            "ValueError: not so",
        ),
        ("the worker was killed\nOut of memory", "Out of memory"),
        ("", ""),
    ],
    ids=["one line", "many lines", "two exceptions", "no frames", "nothing"],
)
def test_it_names_the_exception(error: str, shown: str) -> None:
    assert reason(error) == shown


def test_a_short_text_stays_as_it_is() -> None:
    error = FRAMES + "ValueError: not so\n"
    assert shortened(error) == error


@pytest.mark.parametrize("message", ["x" * 10**7, "line\n" * 10**6])
def test_a_long_message_keeps_its_beginning(message: str) -> None:
    found = shortened(FRAMES + "ValueError: not so: " + message)
    assert found.startswith(FRAMES + "ValueError: not so: " + message[:1000])
    assert len(found) < CHARACTERS + 100
    assert found.endswith(" more characters are cut)")
    assert reason(found).startswith("ValueError: not so: ")


def test_a_long_way_keeps_its_ends() -> None:
    """Of a recursion, say."""
    found = shortened(FRAMES * 1000 + "ValueError: not so\n")
    assert found.startswith(FRAMES)
    assert found.endswith(FRAMES + "ValueError: not so\n")
    assert "characters are cut here" in found
    assert len(found) < CHARACTERS + 100


def test_a_long_text_that_is_no_traceback_keeps_its_beginning() -> None:
    found = shortened("killed: " + "x" * 10**6)
    assert found.startswith("killed: xxx")
    assert len(found) < CHARACTERS + 100


def test_a_trial_reports_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: RunningTrial, due: object) -> None:
        raise ValueError("x" * 10**7)

    monkeypatch.setattr(RunningTrial, "advance", fails)
    report = RunningTrial.__new__(RunningTrial).step(lambda: True)
    assert report.status == Status.FAILED
    assert reason(report.error).startswith("ValueError: xxx")
    assert len(report.error) < CHARACTERS + 100
