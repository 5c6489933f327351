"""How much of what a trial failed by is kept."""

import pytest

from trials.run.outcome import CHARACTERS, Status, reason
from trials.run.trial import RunningTrial


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
