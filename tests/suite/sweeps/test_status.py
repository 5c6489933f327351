"""How far a sweep is: what its terminal draws, what `suite status` says, and the interim leaderboard are one."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.results.leaderboards import read_leaderboard
from suite.search.trial import TrialRequest
from suite.sweeps.journal.events import Begun, Died, Journal, Ranked, Recorded, SweepState
from suite.sweeps.journal.paths import STATUS, SweepPaths
from suite.sweeps.progress import Deadline
from suite.sweeps.status import keep, standing, status
from suite.sweeps.sweep import Sweep
from suite.sweeps.tables import open_tables
from tests.support import foreign
from tests.support.commands import document, suite_here
from tests.support.foreign import little, play, swept
from tests.support.journals import STUDY, add, asked, ended, line
from tests.support.searches import a_study, entries_of
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.run.spec import TrialSpec

GROWS = {
    "algorithms": ["fedavg", "fedprox"],
    "heterogeneity": ["iid", "labels(2)"],
    "search": {"lr": {"default": 0.001, "low": 0.001, "high": 1e300}},  # which diverges at times
    "confirm": {"best": 2, "seeds": 1},
    "seeds": 2,
}
MOVING = dict.fromkeys(("per_minute", "seconds_left", "recorded"))
"""What changes from one moment to the next, while trials are recorded."""


def test_the_views_of_a_moment_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every trial's beginning and end, of a sweep that is begun and of one that grows; trials diverge."""
    place = SweepPaths(tmp_path / "runs", "s")
    moments: list[dict[str, Any]] = []

    def compare(sweep: Sweep) -> None:
        moments.append(told := dict(sweep.progress.look()))
        of_files = replace(SweepState().read(place.journal), running=sweep.state.running)
        shown = f"s: {told['ended'] - told['superseded']}/{told['expected']} runs ("
        assert sweep.progress.line(told).startswith(shown)
        seen = status(place.storage, "s")
        for other in (standing("s", of_files, True), {key: seen[key] for key in told}):
            assert {**other, **MOVING} == {**told, **MOVING}

    began, over = Sweep._requested, Sweep._ended

    def requested_(sweep: Sweep, request: TrialRequest, new: bool) -> None:
        began(sweep, request, new)
        sweep.state.report(request, TrialResult())
        compare(sweep)

    def ended_(sweep: Sweep, request: TrialRequest, outcome: TrialResult) -> None:
        over(sweep, request, outcome)
        compare(sweep)

    monkeypatch.setattr(Sweep, "_requested", requested_)
    monkeypatch.setattr(Sweep, "_ended", ended_)
    play(Sweep("s", little(trials=3, **GROWS), place))
    first = len(moments)
    play(Sweep("s", little(trials=5, **GROWS), place, resume=True))
    assert len(moments) - 8 > first > 30
    last = moments[-1]
    assert last["ended"] - last["superseded"] == last["expected"]
    assert last["diverged"] > 0
    assert all(math.isfinite(row["best"]) for row in last["best"])


def whole(place: SweepPaths) -> tuple[int, int]:
    """The trials that there will be and that have ended, as the file says that was kept, and as the journal does."""
    seen = status(place.storage, place.name)
    (place.folder / STATUS).unlink()
    again = status(place.storage, place.name)
    assert {**seen, "idle_seconds": 0} == {**again, "idle_seconds": 0}
    return seen["expected"], seen["ended"] - seen["superseded"]


def test_a_sweep_whose_search_a_deadline_cut_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One search trial of six, and its two final runs: three of three."""
    sweep = Sweep("s", little(trials=6, seeds=2), SweepPaths(tmp_path / "runs", "s"))
    monkeypatch.setattr(Deadline, "presses", lambda self, search: len(search.requests) == 1)
    play(sweep, deadline=Deadline(10, slots=1))
    assert whole(sweep.paths) == (3, 3)


def test_a_sweep_that_had_fewer_configurations_to_confirm_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of nine trials those that ran to their end are confirmed, and not the ones that were stopped early."""
    outcome = foreign.outcome

    def stopped(spec: TrialSpec) -> TrialResult:
        result = outcome(spec)
        return replace(result, status=Status.PRUNED) if spec.params["lr"] > 0.1 else result

    monkeypatch.setattr(foreign, "outcome", stopped)
    place = swept(tmp_path, trials=9, seeds=2, confirm={"best": 9, "seeds": 1})
    pruned = status(place.storage, "s")["pruned"]
    assert 0 < pruned < 9
    assert whole(place) == (20 - pruned, 20 - pruned)


@pytest.fixture
def night(tmp_path: Path) -> tuple[Path, list[str]]:
    """The folder of a sweep that has begun, with a journal written by hand, and the ids of its two entries."""
    entries = entries_of(**STUDY)
    study = a_study(**STUDY).model_dump(mode="json")
    folder = tmp_path / "runs" / "night"
    folder.mkdir(parents=True)
    planned, about = {e.id: 5 for e in entries}, {e.id: e.about() for e in entries}
    begun = Begun(study_name="quick", study=study, lag=2, planned=planned, id="x", entries=about)
    (folder / "journal.jsonl").write_bytes(line(begun))
    return folder, [entry.id for entry in entries]


def test_counts_and_scores(night: tuple[Path, list[str]]) -> None:
    folder, (first, second) = night
    requests = [asked(first, i) for i in range(4)]
    other, final = asked(second, 0), asked(second, 0, TrialKind.FINAL)
    add(
        folder,
        *requests,
        other,
        final,
        ended(requests[0], 100.0, 0.5),
        ended(requests[1], 102.0, 0.9, Status.PRUNED),
        ended(requests[2], 104.0, None, Status.FAILED),
        ended(final, 106.0, 0.8),
        Died(trial_id=requests[3].request.trial_id, round=7, error="Killed\n"),
        *(Recorded(trial_id=final.request.trial_id, run_id=run) for run in "bc"),
        Ranked(entry_id=first, run_id="a row of the leaderboard"),
        torn=line(asked(second, 1))[:20],
    )
    seen = status(folder.parent, "night")
    one, two = seen["best"]
    assert (one["best"], one["trials"], one["done"]) == (0.5, 1, 3), "only trials at full rounds"
    assert [one[key] for key in ("finished", "pruned", "failed")] == [1, 1, 1]
    assert (two["best"], two["trials"], two["done"], two["finished"]) == (None, 0, 1, 1)
    totals = ("expected", "requested", "ended", "recorded", "died", "running", "running_trials")
    assert [seen[key] for key in totals] == [10, 6, 4, 1, 1, False, 0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("suite.sweeps.status.time.monotonic", lambda: now[0])
    return now


def test_what_runs_now_is_told_by_the_process_that_runs_it(
    night: tuple[Path, list[str]], tmp_path: Path, clock: list[float]
) -> None:
    """Two trials at once, 10 s for a half: of ten trials nine are left, at 0.1 a second. Once it is killed, nobody knows."""
    folder, ids = night
    requests = [asked(entry, 0) for entry in ids]
    add(folder, *requests)
    journal = Journal(folder / "journal.jsonl", SweepState())
    half = TrialResult(Status.RUNNING, history=[{"round": 25, "val_accuracy": 0.4}])
    for seconds, outcome in ((0, TrialResult()), (10, half)):
        clock[0] += seconds
        for asks in requests:
            journal.state.report(asks.request, outcome)
    keep(folder, standing("night", journal.state, True))
    seen = status(folder.parent, "night")
    assert (seen["running_trials"], seen["per_minute"], seen["seconds_left"]) == (2, 6.0, 90.0)
    about = {"kind": "search", "params": {"lr": 0.1}, "metric": "accuracy"}
    about |= {"round": 25, "rounds": 50, "score": 0.4}
    assert seen["now"] == [
        {"trial_id": f"{entry}-s0000", "entry_id": entry, "name": name, **about}
        for entry, name in zip(ids, STUDY["algorithms"], strict=True)
    ]
    text = suite_here("status", "night", cwd=tmp_path).stdout
    assert "; running, 6 runs/min, about 90 s left, last event " in text
    journal.close()
    found = document(suite_here("status", "night", "--json", cwd=tmp_path))
    assert (found["running"], found["running_trials"], found["now"]) == (False, 0, [])
    assert (found["per_minute"], found["seconds_left"]) == (None, None)


def test_what_was_kept_counts_while_it_is_of_this_journal(night: tuple[Path, list[str]]) -> None:
    folder, (first, _) = night
    (folder / STATUS).write_bytes(b"\xff{")
    assert status(folder.parent, "night")["expected"] == 10
    keep(folder, {**standing("night", SweepState().read(folder / "journal.jsonl"), False), "expected": 7})  # fmt: skip
    assert status(folder.parent, "night")["expected"] == 7
    add(folder, asked(first, 0))
    assert status(folder.parent, "night")["expected"] == 10


TWO: dict[str, Any] = {"algorithms": ["fedavg", "fedprox"], "trials": 3, "seeds": 2}


def test_the_interim_ranking_is_by_validation_until_all_finals_are_there(tmp_path: Path) -> None:
    place = SweepPaths(tmp_path / "runs", "s")
    play(Sweep("s", little(**TWO), place), most=7)  # all of the search, and one final run
    tables = open_tables(place.storage, names=["s"])
    board = read_leaderboard(tables)
    assert (board.rows, board.study, board.metric) == ((), "s", "test_accuracy")
    assert [one.rank for one in board.interim] in ([1, 2], [1, 1])
    assert [(one.trials, one.planned, one.seeds) for one in board.interim] == [(3, 3, 2)] * 2
    assert sorted(one.finals for one in board.interim) == [0, 1]
    for one in board.interim:
        mine = tables.searches["s", one.entry_id]
        best = mine.loc[mine["val_score"].astype(float).idxmax()]
        assert (one.best, one.params) == (best["val_score"], json.loads(best["params"]))
    play(Sweep("s", little(**TWO), place, resume=True))
    board = read_leaderboard(open_tables(place.storage, names=["s"]))
    assert board.interim == ()
    assert {(row.algorithm, row.seeds) for row in board.rows} == {("fedavg", 2), ("fedprox", 2)}


def test_final_runs_of_a_former_best_are_no_part_of_a_board_in_the_middle_of_an_extension(
    tmp_path: Path,
) -> None:
    """The second search trial is better than the default configuration, whose final runs are there; one is of the new best."""
    lr = {"search": {"lr": {"default": 0.001, "low": 0.001, "high": 10}}, "seeds": 3}
    place = swept(tmp_path, trials=1, **lr)
    for most, done, recorded in ((4, 5, 8), (99, 7, 10)):
        play(Sweep("s", little(trials=4, **lr), place, resume=True), most=most)
        board = read_leaderboard(open_tables(place.storage, names=["s"]))
        assert [row.seeds for row in board.rows] == ([3] if done == 7 else [])
        assert [(one.finals, one.seeds) for one in board.interim] == [(1, 3)] * (done == 5)
        line = suite_here("status", "s", "--storage", place.storage, cwd=tmp_path).stdout
        assert line.startswith(f"s: {done}/7 runs ({done} finished), {recorded} recorded; ")
