"""Whatever a test started and left running is ended with it."""

from collections.abc import Iterator

import pytest

from tests.support.faults import Driver, Server


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    for started in [*Driver.started, *Server.started]:
        if started.process.poll() is None:
            started.kill()
    Driver.started.clear()
    Server.started.clear()
