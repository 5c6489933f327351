"""Running trials in the store: their curves while they run, one write a second, nothing left behind."""

from types import SimpleNamespace

import pytest

from suite.search.sweep_search import SweepSearch
from suite.sweeps.recording import live as live_module
from suite.sweeps.recording.live import LiveRuns
from suite.sweeps.recording.runs import SweepRecording
from suite.tracking.store import Store
from tests.support.commands import runs_of
from tests.support.searches import a_study, entries_of
from trials.run.outcome import Status
from trials.run.result import TrialResult

STUDY = {"trials": 3, "seeds": 1, "settings": {"rounds": 20, "eval_every": 5}}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(None, tmp_path_factory.mktemp("live"))


@pytest.fixture
def sweep(store, request, monkeypatch) -> SimpleNamespace:
    """A recording with two trials handed out, and the writes that were put off, on a clock of its own."""
    clock = [0.0]
    monkeypatch.setattr(live_module.time, "monotonic", lambda: clock[0])
    search = SweepSearch(entries_of(**STUDY), a_study(**STUDY), 4, {})
    name = request.node.name
    recording = SweepRecording(store, name, "live", a_study(**STUDY), search, {}, {}, "id", None)
    recording.open()
    writes = []
    asks = [search.next()[0] for _ in range(2)]
    return SimpleNamespace(
        name=name,
        recording=recording,
        requests=asks,
        writes=writes,
        clock=clock,
        live=LiveRuns(recording, writes.append),
    )


def entry(at: int) -> dict[str, float]:
    return {"round": at, "val_accuracy": at / 20, "test_accuracy": at / 20}


def going(*rounds: int) -> TrialResult:
    return TrialResult(Status.RUNNING, [entry(at) for at in rounds], fingerprint="abc")


def running(store: Store, sweep: SimpleNamespace) -> list:
    return runs_of(store, sweep=sweep.name, kind="running")


def curve(store: Store, run_id: str) -> list[tuple[int, float]]:
    entries = store.curve(store.get(run_id), ["val_accuracy"])
    return [(int(one["round"]), one["val_accuracy"]) for one in entries]


def recorded(sweep: SimpleNamespace, request, outcome: TrialResult) -> str:
    """The run that the journal is told of."""
    told: list[str] = []
    sweep.recording.record(request, outcome, told.append)
    return told[-1]


def test_a_trial_shows_its_curve_while_it_runs(store, sweep):
    ask, outcome = sweep.requests[0], going(0, 5)
    sweep.live.reported(ask, outcome)
    assert sweep.writes == [], "the first second"
    sweep.clock[0] = 1.0
    sweep.live.reported(ask, outcome)
    sweep.writes.pop()()
    (run,) = running(store, sweep)
    assert (run.status, run.tags["trial_id"]) == ("RUNNING", ask.trial_id)
    assert curve(store, run.run_id) == [(0, 0.0), (5, 0.25)]
    outcome.history.append(entry(10))
    sweep.clock[0] = 2.0
    sweep.live.reported(ask, outcome)
    sweep.writes.pop()()
    assert curve(store, run.run_id) == [(0, 0.0), (5, 0.25), (10, 0.5)]
    assert runs_of(store, sweep=sweep.name, kind="search") == []

    sweep.live.over(ask)
    ended = TrialResult(Status.FINISHED, [entry(at) for at in (0, 5, 10, 20)], {20: 0.9}, "abc")
    assert recorded(sweep, ask, ended) == run.run_id
    assert running(store, sweep) == []
    (found,) = runs_of(store, sweep=sweep.name, kind="search")
    assert (found.run_id, found.status) == (run.run_id, "FINISHED")
    assert (found.tags["status"], found.metrics["val_score"]) == ("finished", 0.9)
    assert [at for at, _ in curve(store, run.run_id)] == [0, 5, 10, 20]
    params = store.client.get_run(found.run_id).data.params
    assert params["lr"] == str(ask.params["lr"])


def test_it_is_recorded_as_if_nobody_had_looked(store, sweep):
    """Tags, params and metrics are those of a trial that was never shown."""
    ended = TrialResult(
        Status.FINISHED, [entry(at) for at in (0, 5, 20)], {20: 0.9}, "abc", "", 2.0
    )
    seen, unseen = sweep.requests
    sweep.recording.show(seen, [entry(0)])
    records = [store.get(recorded(sweep, ask, ended)) for ask in (seen, unseen)]
    assert [run.metrics for run in records] == [records[0].metrics] * 2
    assert {*records[0].tags} == {*records[1].tags}
    params = [store.client.get_run(run.run_id).data.params for run in records]
    assert {*params[0]} == {*params[1]}


def test_one_write_a_second_of_who_waited_longest(sweep, monkeypatch):
    """Two trials report ten times a second for 4 s."""
    shown = []
    monkeypatch.setattr(sweep.recording, "show", lambda ask, history: shown.append(ask.trial_id))
    first, second = sweep.requests
    for step in range(1, 41):
        sweep.clock[0] = step / 10
        for ask in (second, first):
            sweep.live.reported(ask, going(0, step))
        while sweep.writes:
            sweep.writes.pop()()
    assert shown == [second.trial_id, first.trial_id] * 2


def test_an_attempt_that_starts_again_adds_only_what_is_new(store, sweep):
    """It reports its whole history once more."""
    ask = sweep.requests[0]
    sweep.recording.show(ask, [entry(0), entry(5)])
    sweep.recording.show(ask, [entry(0), entry(5), entry(10)])
    (run,) = running(store, sweep)
    points = store.client.get_metric_history(run.run_id, "val_accuracy")
    assert [point.step for point in points] == [0, 5, 10]


def test_a_trial_that_is_over_is_not_shown(sweep):
    sweep.clock[0] = 5.0
    ask = sweep.requests[0]
    sweep.live.reported(ask, TrialResult(Status.FINISHED, [entry(0)]))
    assert sweep.writes == []


def test_a_session_that_ends_or_was_killed_leaves_no_running_trial(store, sweep):
    ask = sweep.requests[0]
    sweep.recording.show(ask, [entry(0)])
    sweep.recording.close("KILLED")
    assert running(store, sweep) == []
    sweep.recording.show(ask, [entry(0)])
    again = SweepRecording(
        store, sweep.name, "live", a_study(**STUDY), sweep.recording.search, {}, {}, "id", None
    )
    again.open()
    assert again.missing([]) == []
    assert running(store, sweep) == []


def test_a_record_that_fails_halfway_is_written_anew_and_once(store, sweep, monkeypatch):
    ask = sweep.requests[0]
    ended = TrialResult(Status.FINISHED, [entry(0), entry(20)], {20: 0.9}, "abc")
    sweep.recording.show(ask, [entry(0)])
    log = store.log

    def fail(*args, **given):
        log(*args, **given)
        raise OSError("the answer was lost")

    monkeypatch.setattr(store, "log", fail)
    with pytest.raises(OSError, match="lost"):
        recorded(sweep, ask, ended)
    monkeypatch.undo()
    run_id = recorded(sweep, ask, ended)
    (found,) = runs_of(store, sweep=sweep.name, trial_id=ask.trial_id)
    assert found.run_id == run_id
    assert [at for at, _ in curve(store, run_id)] == [0, 20]
