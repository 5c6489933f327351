"""A cluster of a sweep's own whose processes die; really killed in tests/faults."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from suite.execution import cluster
from suite.execution.resources import Resources
from suite.execution.stop_signal import Control


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch) -> "subprocess.Popen[bytes]":
    """The process of a cluster that this one seems to have."""
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    @contextmanager
    def connect(resources: Resources) -> Iterator[Any]:
        yield None

    name = Path(f"/proc/{started.pid}/comm").read_text().strip()
    monkeypatch.setattr(cluster, "NEEDED", (name,))
    monkeypatch.setattr(cluster, "connect", connect)
    monkeypatch.setattr(cluster, "WATCH_SECONDS", 0.01)
    return started


def test_its_death_halts_the_sweep_which_may_end_in_order(
    gcs: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    control, name = Control(tmp_path), cluster.NEEDED[0]
    with cluster.watched(Resources(), control):
        assert not control.ending
        gcs.kill()
        while not control.ending:
            pass
    assert control.fault.startswith(f"Ray's process {name} has died on this machine")
