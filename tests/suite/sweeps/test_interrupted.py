"""Ctrl-C while the last records are written."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from suite.execution.cluster import Resources
from suite.sweeps import recording
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording import SweepRecording
from suite.sweeps.result import Result
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Store
from tests.support.commands import runs_of
from tests.support.searches import a_study

pytestmark = pytest.mark.usefixtures("in_this_process")


def swept(paths: SweepPaths, resume: bool = False) -> Result:
    study = a_study(algorithms=["fedavg"], trials=4, seeds=2)
    return Sweep("s", study, paths, resume=resume).run(Resources(max_concurrent=1))


def test_it_ends_soon_and_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store takes a record and then no other, as one does that does not answer."""
    paths, gate, write = (
        SweepPaths(tmp_path / "runs", "s"),
        threading.Event(),
        SweepRecording.record,
    )
    written: list[Any] = []

    before = signal.getsignal(signal.SIGINT)

    def slow(self: SweepRecording, ask: Any, outcome: Any, note: Any) -> None:
        if written:
            gate.wait(60)
        write(self, ask, outcome, note)
        written.append(ask)

    def interrupt() -> None:
        while not (paths.journal.exists() and paths.journal.read_text().count('"end"') == 6):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(SweepRecording, "record", slow)
        patched.setattr(recording, "PERSON_SECONDS", 0.1)
        threading.Thread(target=interrupt).start()
        result = swept(paths)
    gate.set()
    assert (result.ending, result.leaderboard) == ("interrupted", None)
    assert (
        " has not 5 of the trials that have ended yet: the journal has all"
        in capsys.readouterr().err
    )
    result = swept(paths, resume=True)
    assert result.ending == ""
    runs = runs_of(Store(None, paths.storage), sweep="s")
    assert sum("trial_id" in run.tags for run in runs) == 6
    assert signal.getsignal(signal.SIGINT) is before, "whoever set it"
