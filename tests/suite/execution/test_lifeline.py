"""A cluster of a sweep's own whose processes die; really killed in tests/faults."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from suite.execution import lifeline, ray_internals
from suite.execution.lifeline import Lifeline
from suite.execution.stop_signal import Control


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch) -> "subprocess.Popen[bytes]":
    """The process of a cluster that this one seems to have."""
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    node = SimpleNamespace(all_processes={"gcs_server": [SimpleNamespace(process=started)]})
    monkeypatch.setattr(ray_internals.ray._private.worker, "_global_node", node)
    monkeypatch.setattr(lifeline, "LOOK_SECONDS", 0.01)
    return started


def test_its_death_halts_the_sweep_which_may_end_in_order(
    gcs: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    control = Control(tmp_path)
    with Lifeline(control) as line, line.watched():
        assert not control.ending
        gcs.kill()
        gcs.wait()
        while not control.ending:
            pass
        while line._timer is None:
            pass
    assert control.fault.startswith("Ray's process gcs_server has died on this machine")
    assert line._timer.finished.is_set(), "nothing ends this process any more"


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

    monkeypatch.setattr(lifeline.os, "_exit", end)
    monkeypatch.setattr(lifeline, "GRACE_SECONDS", 0.0)
    with Lifeline(Control(tmp_path)) as line, line.watched():
        gcs.kill()
        gcs.wait()
        assert ended.wait(60)
    assert codes == [3]
    said = capsys.readouterr().err
    assert said.startswith("halted: Ray's process gcs_server has died on this machine")
    assert "run the command again with --resume" in said


def test_processes_that_end_afterwards_end_as_they_should(
    gcs: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    control = Control(tmp_path)
    with Lifeline(control) as line:
        with line.watched():
            pass
        gcs.kill()
        gcs.wait()
    assert not control.ending
