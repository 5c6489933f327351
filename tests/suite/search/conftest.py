"""A search needs no Ray."""

import pytest
import ray


@pytest.fixture(autouse=True)
def ray_is_not_started():
    """Ray is imported for its schedulers, and never started."""
    before = ray.is_initialized()  # by a sweep of another test
    yield
    assert ray.is_initialized() == before
