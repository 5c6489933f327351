"""A trial's run in the store: one, finished, whatever is cut off or lost; and the thread that writes it."""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, TEMPORARILY_UNAVAILABLE

from suite.execution.cluster import Resources
from suite.sweeps import recording
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording import LOCAL_TRIES, SweepRecording
from suite.sweeps.sweep import Result, Sweep
from suite.tracking import StoreError
from suite.tracking.store import Store
from tests.support.commands import runs_of
from tests.support.foreign import little, play, swept
from tests.support.searches import a_study

BUSY = MlflowException("(psycopg2.OperationalError) no connection", TEMPORARILY_UNAVAILABLE)
INVALID = MlflowException("Invalid value", INVALID_PARAMETER_VALUE)


def recorder(uri: str = "http://there") -> SweepRecording:
    """The thread that records a sweep in this store."""
    state = SimpleNamespace(begun=SimpleNamespace(study_name="s"))
    journal: Any = SimpleNamespace(state=state, path=Path("runs/s/journal.jsonl"))
    store: Any = SimpleNamespace(uri=uri, firsts=[])
    control: Any = SimpleNamespace(ending="", waiting="")
    control.halt = lambda fault: setattr(control, "ending", "halted")
    return SweepRecording(store, store, journal, control, control)


def test_it_writes_in_order_and_again_what_failed_and_drops_what_is_refused() -> None:
    failures, taken, records = [0, 0, 2], [], recorder()

    def write(item: int) -> None:
        if failures and failures[0] == item:
            raise ConnectionError(failures.pop(0))
        if item in (7, 9):
            raise StoreError("here", INVALID)
        taken.append(item)

    for item in range(50):
        records.put(partial(write, item))
    assert records.end()
    assert taken == [item for item in range(50) if item not in (7, 9)]
    assert failures == []
    assert records.refusals == [f"2 times: {StoreError('here', INVALID)}"]


@pytest.mark.parametrize("uri", ["http://there", "postgresql://there/db", "sqlite:///here"])
def test_only_a_store_elsewhere_is_waited_for(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records, tried = recorder(uri), []

    def write() -> None:
        tried.append(records.control.waiting)
        raise StoreError(uri, BUSY)

    monkeypatch.setattr(records._stop, "wait", lambda seconds: time.sleep(0.01))
    monkeypatch.setattr(recording, "RECORD_SECONDS", 0.5)
    records.put(write)
    assert not records.end()
    assert (len(tried) == LOCAL_TRIES) is uri.startswith("sqlite")
    assert (records.control.ending == "halted") is uri.startswith("sqlite")
    assert "trying again" in tried[1]


def test_it_is_waited_for_as_long_as_it_writes_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that was lost is written anew from the journal, which takes long."""
    gate = threading.Event()
    for write, seconds, whole in ((lambda: time.sleep(0.06), 0.4, True), (gate.wait, 0.05, False)):
        monkeypatch.setattr(recording, "RECORD_SECONDS", seconds)
        records = recorder()
        for _ in range(10):
            records.put(write)
        assert records.end() is whole
    gate.set()


def whole(place: SweepPaths) -> dict[str, str]:
    """The run of each trial of a finished sweep of two search trials and a final run, which has no other runs but two."""
    runs = runs_of(Store(None, place.storage), sweep="s")
    assert {run.status for run in runs} == {"FINISHED"}
    kinds = sorted(run.tags["kind"] for run in runs)
    assert kinds == ["final", "leaderboard", "search", "search", "sweep"]
    trials = {run.tags["trial_id"]: run.run_id for run in runs if "trial_id" in run.tags}
    assert len(trials) == 3
    recorded = place.state().recorded
    assert {trial_id: recorded[trial_id] for trial_id in trials} == trials
    return trials


def test_a_trial_is_one_finished_run_with_its_curve(tmp_path: Path) -> None:
    place = swept(tmp_path)
    store, trials = Store(None, place.storage), whole(place)
    for trial_id, request in place.state().requests.items():
        run = store.get(trials[trial_id])
        assert run.tags["status"] == "finished"
        points = store.client.get_metric_history(run.run_id, "val_accuracy")
        assert [point.step for point in points] == [0, 1, 2]
        assert run.metrics["val_score"] == place.state().ended[trial_id].value
        params = store.client.get_run(run.run_id).data.params
        assert params["lr"] == str(request.params["lr"])


def test_what_a_killed_session_left_half_written_is_written_anew(tmp_path: Path) -> None:
    """Of one run the journal knows, of another it does not; and as often as it is killed before it is whole."""
    place = swept(tmp_path)
    store, before = Store(None, place.storage), whole(place)
    half, *others = before
    known = store.get(before[half])
    store.set_status(known.run_id, "RUNNING")
    store.create(known.experiment, "begun", {**known.tags, "trial_id": others[0]})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SweepRecording, "record", lambda *given: None)
        patched.setattr(Sweep, "_finish", lambda sweep: None)
        play(Sweep("s", little(), place, resume=True))
    play(Sweep("s", little(), place, resume=True))
    after = whole(place)
    assert {i for i in after if after[i] != before[i]} == {half}


@pytest.mark.parametrize("fails", ["create", "log", "set_status"])
def test_what_is_written_whose_answer_is_lost_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Every fourth answer to the thread that records."""
    calls, write = 0, getattr(Store, fails)

    def lose(store: Store, *given: Any, **more: Any) -> Any:
        nonlocal calls
        answer = write(store, *given, **more)
        if threading.current_thread() is not threading.main_thread():
            calls += 1
            if calls % 4 == 2:
                raise StoreError(store.uri, OSError("the answer was lost"))
        return answer

    monkeypatch.setattr(Store, fails, lose)
    whole(swept(tmp_path))
    assert calls > 4


def sweep(paths: SweepPaths, resume: bool = False) -> Result:
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
        result = sweep(paths)
    gate.set()
    assert (result.ending, result.leaderboard) == ("interrupted", None)
    assert " lacks 5 of the trials" in capsys.readouterr().err
    assert sweep(paths, resume=True).ending == ""
    runs = runs_of(Store(None, paths.storage), sweep="s")
    assert sum("trial_id" in run.tags for run in runs) == 6
    assert signal.getsignal(signal.SIGINT) is before, "whoever set it"
