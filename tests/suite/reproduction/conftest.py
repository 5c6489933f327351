"""What the tests of reproductions start from."""

import pytest

from suite.execution import driver


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go one after another in this process, as they do on one core."""
    monkeypatch.setattr(driver, "drive", driver.in_process)
