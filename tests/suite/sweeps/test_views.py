"""How far a sweep is, in three views at once: the terminal, `suite status` (which the pages draw) and the leaderboard."""

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.snapshot import Snapshot
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.search.trial import TrialRequest
from suite.sweeps import running
from suite.sweeps.deadline import Deadline
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.status import Followed, status
from suite.sweeps.sweep import Sweep
from suite.sweeps.tables import open_tables
from tests.support import foreign
from tests.support.foreign import little, play
from trials.common.errors import UserError
from trials.run.outcome import ENDINGS, Status
from trials.run.result import TrialResult
from trials.run.spec import TrialSpec

STUDY = {
    "algorithms": ["fedavg", "fedprox"],
    "heterogeneity": ["iid", "labels(2)"],
    "search": {"lr": {"default": 0.001, "low": 0.001, "high": 1e300}},  # which diverges at times
    "confirm": {"best": 2, "seeds": 1},
    "seeds": 2,
}


def summed(found: Snapshot) -> dict[str, Any]:
    counts = found.counts
    return {
        "planned": found.planned,
        "done": found.done,
        "running": counts["running"],
        **{word: counts[word] for word in ENDINGS},
        "best": {e.entry_id: e.best for e in found.entries if e.best is not None},
    }


def seen_by_the_terminal(sweep: Sweep) -> dict[str, Any]:
    found = sweep.progress.look()
    line = f"s: {found.done}/{found.planned} trials ("
    assert sweep.progress._line(found).startswith(line)
    return summed(found)


def seen_by_status(storage: Path, name: str) -> dict[str, Any]:
    found = status(storage, name)
    return {
        "planned": found["expected"],
        "done": found["ended"] - found["superseded"],
        "running": found["running_trials"],
        **{word.value: found[word] for word in ENDINGS},
        "best": {e["entry_id"]: e["best"] for e in found["best"] if e["best"] is not None},
    }


def wait_for_records(sweep: Sweep) -> None:
    deadline = time.monotonic() + 60
    while sweep.state.ended.keys() - sweep.state.recorded.keys():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def interim(sweep: Sweep) -> dict[str, tuple[float | None, int, int]]:
    """Best score, search trials and final runs of each entry whose scenario is not over, as the leaderboard
    tells them.
    """
    tables = open_tables(sweep.paths.storage)
    try:
        board = read_leaderboard(tables, Query(sweep.paths.name))
    except UserError:  # there is nothing yet
        return {}
    return {one.entry_id: (one.best, one.trials, one.finals) for one in board.interim}


def test_three_views_of_a_moment_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every trial's beginning and end, of a sweep that is begun and of one that grows; trials diverge."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    monkeypatch.setattr(running, "SECONDS", 0.0)  # others learn at once which trials run
    place = SweepPaths(tmp_path / "runs", "s")
    moments: list[dict[str, Any]] = []

    def compare(sweep: Sweep) -> None:
        one = seen_by_the_terminal(sweep)
        assert one == seen_by_status(place.storage, "s")
        moments.append(one)
        if len(moments) % 9 == 0:  # reading the store takes a while
            wait_for_records(sweep)
            told = {e.entry_id: e for e in Followed(place.folder).refresh().entries}
            for entry_id, (best, trials, finals) in interim(sweep).items():
                entry = told[entry_id]
                assert (best, trials) == (entry.best, entry.counts["search"])
                assert finals == entry.recorded

    began, ended = Sweep._requested, Sweep._ended

    def requested_(sweep: Sweep, request: TrialRequest, new: bool) -> None:
        began(sweep, request, new)
        sweep.running.began(request, "one")
        compare(sweep)

    def ended_(sweep: Sweep, request: TrialRequest, outcome: TrialResult) -> None:
        ended(sweep, request, outcome)
        compare(sweep)

    monkeypatch.setattr(Sweep, "_requested", requested_)
    monkeypatch.setattr(Sweep, "_ended", ended_)
    play(Sweep("s", little(trials=3, **STUDY), place, resume=False))
    first = len(moments)
    play(Sweep("s", little(trials=5, **STUDY), place, resume=True))
    assert first > 30
    assert len(moments) > first + 8
    assert moments[-1]["done"] == moments[-1]["planned"]
    assert moments[-1]["diverged"] > 0
    assert all(math.isfinite(best) for best in moments[-1]["best"].values())


def test_a_sweep_whose_search_a_deadline_cut_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One search trial of six, and its two final runs: three of three, in every view."""
    sweep = Sweep("s", little(trials=6, seeds=2), SweepPaths(tmp_path / "runs", "s"), resume=False)
    monkeypatch.setattr(Deadline, "presses", lambda self, search: len(search.requests) == 1)
    play(sweep, deadline=Deadline(10, slots=1))
    found = Followed(sweep.paths.folder).refresh()
    assert (found.planned, found.done, found.over) == (3, 3, True)
    live = replace(sweep.progress.look(), active=False, per_second=found.per_second, experiment="")
    assert found == live


def test_a_sweep_that_had_fewer_configurations_to_confirm_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of nine trials those that ran to their end are confirmed, and not the ones that were stopped early."""
    whole = foreign.outcome

    def stopped(spec: TrialSpec) -> TrialResult:
        found = whole(spec)
        return replace(found, status=Status.PRUNED) if spec.params["lr"] > 0.1 else found

    monkeypatch.setattr(foreign, "outcome", stopped)
    study = little(trials=9, seeds=2, confirm={"best": 9, "seeds": 1})
    sweep = Sweep("s", study, SweepPaths(tmp_path / "runs", "s"), resume=False)
    play(sweep)
    found = Followed(sweep.paths.folder).refresh()
    assert 0 < found.counts["pruned"] < 9
    trials = 9 + (9 - found.counts["pruned"]) + 2
    assert (found.planned, found.done, found.over) == (trials, trials, True)
