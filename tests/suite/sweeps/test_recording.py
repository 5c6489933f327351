"""A trial's run in the store: one, finished, whatever is cut off; its curve while it runs, one write a second."""

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.execution.cluster import Resources
from suite.search.sweep_search import SweepSearch
from suite.sweeps import recording
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording import SweepRecording
from suite.sweeps.sweep import Result, Sweep
from suite.tracking.store import Store
from tests.support.commands import runs_of
from tests.support.searches import a_study, entries_of
from trials.run.outcome import Status, TrialResult

STUDY = {"trials": 3, "seeds": 1, "settings": {"rounds": 20, "eval_every": 5}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(None, tmp_path_factory.mktemp("live"))


def recording_of(store: Store, name: str, recorded: dict[str, str]) -> SweepRecording:
    search = SweepSearch(entries_of(**STUDY), a_study(**STUDY), 4, {})
    recording = SweepRecording(store, name, "live", search, recorded, "id")
    recording.open()
    return recording


@pytest.fixture
def sweep(store: Store, request: pytest.FixtureRequest) -> SimpleNamespace:
    """A recording with two trials handed out."""
    name, recorded = request.node.name, dict[str, str]()
    recording = recording_of(store, name, recorded)
    asks = [recording.search.next()[0] for _ in range(2)]
    return SimpleNamespace(name=name, recording=recording, requests=asks, recorded=recorded)


def entry(at: int) -> dict[str, float]:
    return {"round": at, "val_accuracy": at / 20, "test_accuracy": at / 20}


def outcome(*rounds: int, status: Status = Status.FINISHED) -> TrialResult:
    return TrialResult(status, [entry(at) for at in rounds], {20: 0.9}, "abc", "", 2.0)


def points(store: Store, run_id: str) -> list[tuple[int, float]]:
    history = store.client.get_metric_history(run_id, "val_accuracy")
    return [(point.step, point.value) for point in history]


def record(sweep: SimpleNamespace, request: Any, result: TrialResult) -> str:
    """Record a trial; the run that the journal is told of."""

    def note(run_id: str) -> None:
        sweep.recorded[request.trial_id] = run_id

    sweep.recording.record(request, result, note)
    return str(sweep.recorded[request.trial_id])


def test_a_trial_is_one_finished_run_with_its_curve(store: Store, sweep: SimpleNamespace) -> None:
    request = sweep.requests[0]
    record(sweep, request, outcome(0, 5, 10, 20))
    (run,) = runs_of(store, sweep=sweep.name, kind="search")
    assert (run.run_id, run.status) == (sweep.recorded[request.trial_id], "FINISHED")
    assert (run.tags["status"], run.metrics["val_score"]) == ("finished", 0.9)
    assert points(store, run.run_id) == [(0, 0.0), (5, 0.25), (10, 0.5), (20, 1.0)]
    params = store.client.get_run(run.run_id).data.params
    assert params["lr"] == str(request.params["lr"])


def test_what_a_killed_session_left_half_written_is_written_anew(
    store: Store, sweep: SimpleNamespace
) -> None:
    half = sweep.requests[0]
    whole = record(sweep, half, outcome(0, 20))
    again = recording_of(store, sweep.name, sweep.recorded)
    assert again.missing([half.trial_id]) == []
    store.set_status(whole, "RUNNING")
    again = recording_of(store, sweep.name, sweep.recorded)
    assert again.missing([half.trial_id]) == [half.trial_id]
    assert runs_of(store, sweep=sweep.name, trial_id=half.trial_id) == []


@pytest.mark.parametrize("fails", ["create", "log", "set_status"])
def test_a_record_whose_answer_is_lost_is_written_anew_and_once(
    store: Store,
    sweep: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    fails: str,
) -> None:
    request, write = sweep.requests[0], getattr(store, fails)

    def lose(*given: Any, **more: Any) -> None:
        write(*given, **more)
        raise OSError("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(store, fails, lose)
        with pytest.raises(OSError, match="lost"):
            record(sweep, request, outcome(0, 20))
    run_id = record(sweep, request, outcome(0, 20))
    runs = runs_of(store, sweep=sweep.name, trial_id=request.trial_id)
    assert [run.run_id for run in runs if run.status == "FINISHED"] == [run_id]
    # Nobody has the id of a run whose beginning had no answer: it goes when the sweep ends, or is resumed.
    assert {run.status for run in runs} <= {"FINISHED", *["RUNNING"] * (fails == "create")}
    again = recording_of(store, sweep.name, sweep.recorded)
    assert again.missing([request.trial_id]) == []
    (run,) = runs_of(store, sweep=sweep.name, trial_id=request.trial_id)
    assert run.run_id == run_id
    assert [at for at, _ in points(store, run_id)] == [0, 20]


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
