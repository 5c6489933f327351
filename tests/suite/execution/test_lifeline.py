"""A cluster of a sweep's own whose processes die; really killed in tests/faults."""

import subprocess
import sys
import threading
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


def test_one_that_does_not_end_in_order_ends_with_the_message(
    gcs: "subprocess.Popen[bytes]",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    codes, ended = list[int](), threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    monkeypatch.setattr(cluster.os, "_exit", end)
    monkeypatch.setattr(cluster, "GRACE_SECONDS", 0.0)
    with cluster.watched(Resources(), Control(tmp_path)):
        gcs.kill()
        gcs.wait()
        assert ended.wait(60)
    assert codes == [3]
    said = capsys.readouterr().err
    assert said.startswith("halted: Ray's process ")
    assert "run the command again with --resume" in said


def test_processes_that_end_afterwards_end_as_they_should(
    gcs: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    control = Control(tmp_path)
    with cluster.watched(Resources(), control):
        pass
    gcs.kill()
    gcs.wait()
    assert not control.ending
