"""What the tests of the trainable start from."""

import pytest

from trials.run import trainable, trial


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data sets are handed over as they are instead of through Ray's object store."""
    monkeypatch.setattr(trainable.ray, "get", lambda reference: reference)
    monkeypatch.setattr(trial, "REPORT_SECONDS", 1e9)
