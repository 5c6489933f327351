"""What the tests of sweeps, and of what runs them, start from."""

import pytest

from suite.execution import driver
from tests.support import in_process
from trials import trainable


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials run in this process, without Ray, each to its end in one step."""
    monkeypatch.setattr(driver, "drive", in_process.drive)
    monkeypatch.setattr(trainable.ray, "get", lambda reference: reference)
    monkeypatch.setattr(trainable, "REPORT_SECONDS", 1e9)
