"""What the tests of sweeps, and of what runs them, start from."""

import pytest
import ray

from suite.execution import cluster


@pytest.fixture
def no_ray_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process uses no Ray, as far as the suite can tell. That of another test's sweep goes on, with the
    token that it has read.
    """
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(cluster, "read_authentication_again", lambda: None)
