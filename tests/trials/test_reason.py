"""Which line of a traceback is shown for all of it, and how much of it is kept."""

import pytest

from trials.run.outcome import CHARACTERS, Status, reason, shortened
from trials.run.trial import RunningTrial

FRAMES = """Traceback (most recent call last):
  File "trials.run.trial.py", line 46, in step
    return self._step(due)
           ^^^^^^^^^^^^^^^
  File "/mine/mine.py", line 12, in aggregate
    return later(w)
           ^^^^^^^^
"""
SAYS = "ValueError: not so"
TWO = f"{FRAMES}KeyError: 1\n\nDuring handling of the above exception, another one occurred:\n\n"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (f"{FRAMES}{SAYS}\n", SAYS),
        (f"{TWO}{FRAMES}{SAYS}\n", SAYS),
        ("", ""),
    ],
)
def test_it_names_the_exception(error: str, shown: str) -> None:
    assert reason(error) == shown
    assert shortened(error) == error


def test_a_trial_reports_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class UnspeakableError(Exception):
        def __str__(self) -> str:
            raise ValueError

    for error in (ValueError("x" * 10**7), UnspeakableError()):

        def fails(self: RunningTrial, due: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(RunningTrial, "advance", fails)
        report = RunningTrial.__new__(RunningTrial).step(lambda: True)
        assert report.status == Status.FAILED
        assert type(error).__name__ in reason(report.error)
        assert len(report.error) < CHARACTERS + 100
