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
from suite.sweeps.sweep import Result, Sweep
from suite.tracking.store import Store
from tests.support.commands import runs_of
from tests.support.searches import a_study


def swept(paths: SweepPaths, resume: bool = False) -> Result:
    study = a_study(algorithms=["fedavg"], trials=4, seeds=2)
    return Sweep("s", study, paths, resume=resume).run(Resources(max_concurrent=1))


def test_it_ends_soon_and_says_what_is_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    in_this_process: None,
) -> None:
    """The store takes a record and then no other, as one does that does not answer."""
    paths, gate, write = SweepPaths(tmp_path, "s"), threading.Event(), SweepRecording.record
    before, written = signal.getsignal(signal.SIGINT), list[Any]()

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
    assert " has not 5 of the trials" in capsys.readouterr().err
    assert swept(paths, resume=True).ending == ""
    runs = runs_of(Store(None, paths.storage), sweep="s")
    assert sum("trial_id" in run.tags for run in runs) == 6
    assert signal.getsignal(signal.SIGINT) is before, "whoever set it"
