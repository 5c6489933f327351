"""A trial's run in the store: one, finished, whatever is cut off; its curve while it runs, one write a second."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.execution.cluster import Resources
from suite.search.sweep_search import SweepSearch
from suite.sweeps import recording
from suite.sweeps.journal.events import Begun, Journal, Requested, SweepState, ended
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


def opened(store: Store, folder: Path, name: str) -> SimpleNamespace:
    """A recording of a sweep, with two trials handed out, and the trials whose record it finds lacking."""
    study = a_study(**STUDY)
    search = SweepSearch(entries_of(**STUDY), study, 4, {})
    journal = Journal(folder / name / "journal.jsonl", SweepState())
    journal.read()
    entries = {first.entry.id: first.entry.about() for first in search.firsts}
    content = study.model_dump(mode="json")
    planned = dict.fromkeys(entries, 4)
    begun = Begun(
        study_name="live", study=content, lag=4, planned=planned, id="id", entries=entries
    )
    search.replay([*journal.state.requests.values()], journal.state.ended)
    journal.write(begun)
    state = SimpleNamespace(ending="", waiting="")
    recording = SweepRecording(store, search, journal, state, state)  # type: ignore[arg-type]
    return SimpleNamespace(recording=recording, journal=journal, missing=recording.open([]))


@pytest.fixture
def sweep(
    store: Store, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[SimpleNamespace]:
    """A recording whose first trial has ended."""
    sweep = opened(store, tmp_path, request.node.name)
    sweep.name = request.node.name
    sweep.request = sweep.recording.search.next()[0]
    sweep.outcome = outcome(0, 5, 10, 20)
    sweep.journal.write(
        Requested(request=sweep.request), *ended(sweep.request.trial_id, sweep.outcome)
    )
    yield sweep
    sweep.journal.close()


def entry(at: int) -> dict[str, float]:
    return {"round": at, "val_accuracy": at / 20, "test_accuracy": at / 20}


def outcome(*rounds: int, status: Status = Status.FINISHED) -> TrialResult:
    return TrialResult(status, [entry(at) for at in rounds], {20: 0.9}, "abc", "", 2.0)


def points(store: Store, run_id: str) -> list[tuple[int, float]]:
    history = store.client.get_metric_history(run_id, "val_accuracy")
    return [(point.step, point.value) for point in history]


def record(sweep: SimpleNamespace) -> str:
    """Record its trial; the run that the journal is told of."""
    sweep.recording.record(sweep.request, sweep.outcome)
    return str(sweep.journal.state.recorded[sweep.request.trial_id])


def again(store: Store, sweep: SimpleNamespace, folder: Path) -> list[str]:
    """The trials that whoever resumes the sweep has to record."""
    sweep.journal.close()
    resumed = opened(store, folder, sweep.name)
    resumed.journal.close()
    return list(resumed.missing)


def test_a_trial_is_one_finished_run_with_its_curve(store: Store, sweep: SimpleNamespace) -> None:
    run_id = record(sweep)
    (run,) = runs_of(store, sweep=sweep.name, kind="search")
    assert (run.run_id, run.status) == (run_id, "FINISHED")
    assert (run.tags["status"], run.metrics["val_score"]) == ("finished", 0.9)
    assert points(store, run_id) == [(0, 0.0), (5, 0.25), (10, 0.5), (20, 1.0)]
    params = store.client.get_run(run_id).data.params
    assert params["lr"] == str(sweep.request.params["lr"])


def test_what_a_killed_session_left_half_written_is_written_anew(
    store: Store, sweep: SimpleNamespace, tmp_path: Path
) -> None:
    trial_id, half = sweep.request.trial_id, record(sweep)
    assert again(store, sweep, tmp_path) == []
    store.set_status(half, "RUNNING")
    assert again(store, sweep, tmp_path) == [trial_id]
    assert again(store, sweep, tmp_path) == [trial_id], "as often as it is killed before it is"


@pytest.mark.parametrize("fails", ["create", "log", "set_status"])
def test_a_record_whose_answer_is_lost_is_written_anew_and_once(
    store: Store,
    sweep: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: str,
) -> None:
    trial_id, write = sweep.request.trial_id, getattr(store, fails)

    def lose(*given: Any, **more: Any) -> None:
        write(*given, **more)
        raise OSError("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(store, fails, lose)
        with pytest.raises(OSError, match="lost"):
            record(sweep)
    run_id = record(sweep)
    runs = runs_of(store, sweep=sweep.name, trial_id=trial_id)
    assert [run.run_id for run in runs if run.status == "FINISHED"] == [run_id]
    # Nobody has the id of a run whose beginning had no answer: it goes when the sweep ends, or is resumed.
    assert {run.status for run in runs} <= {"FINISHED", *["RUNNING"] * (fails == "create")}
    assert again(store, sweep, tmp_path) == []
    (run,) = runs_of(store, sweep=sweep.name, trial_id=trial_id)
    assert run.run_id == run_id
    assert len(points(store, run_id)) == 4


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

    def slow(self: SweepRecording, ask: Any, outcome: Any) -> None:
        if written:
            gate.wait(60)
        write(self, ask, outcome)
        written.append(ask)

    def interrupt() -> None:
        while not (paths.journal.exists() and paths.journal.read_text().count('"end"') == 6):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(SweepRecording, "record", slow)
        patched.setattr(recording, "HASTE_SECONDS", 0.1)
        threading.Thread(target=interrupt).start()
        result = swept(paths)
    gate.set()
    assert (result.ending, result.leaderboard) == ("interrupted", None)
    assert " lacks 5 of the trials" in capsys.readouterr().err
    assert swept(paths, resume=True).ending == ""
    runs = runs_of(Store(None, paths.storage), sweep="s")
    assert sum("trial_id" in run.tags for run in runs) == 6
    assert signal.getsignal(signal.SIGINT) is before, "whoever set it"
