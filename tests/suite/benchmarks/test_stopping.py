"""Recorded curves played again under schedulers: by hand, and a sweep's own."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stopping import STOPPERS, Curve, Play, curve, play, stopping
from suite.execution.cluster import Resources
from suite.studies.entry import Entry
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from tests.support.searches import BASE, entries_of
from trials.common.errors import UserError
from trials.run.outcome import Status
from trials.run.result import TrialResult


@pytest.fixture
def entry() -> Entry:
    """Nine rounds, decisions after the first and the third."""
    (found,) = entries_of(settings={"rounds": 9, "eval_every": 1})
    assert found.stops == (1, 3)
    return found


def steady(value: float) -> Curve:
    """A trial that always scores the same."""
    return Curve({1: value, 3: value}, 9, value)


@dataclass
class Threshold:
    """Stops what is below a half, and keeps what it was shown and told."""

    shown: list[tuple[int, int]] = field(default_factory=list)
    over: list[int] = field(default_factory=list)

    def stops(self, index: int, round_index: int, value: float) -> bool:
        self.shown.append((index, round_index))
        return value < 0.5

    def ended(self, index: int, value: float | None) -> None:
        self.over.append(index)


def test_four_trials_run_at_once_and_what_stops_makes_room(entry: Entry) -> None:
    """Trial 1 stops at round 1, time 1; trial 4 takes its place and is at round 3 at time 4."""
    stopper = Threshold()
    found = play([steady(v) for v in (0.6, 0.4, 0.7, 0.8, 0.9)], entry, stopper)
    assert stopper.shown == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (0, 3), (2, 3), (3, 3), (4, 3)]
    assert stopper.over == [0, 2, 3, 4]
    assert found == Play(share=37 / 45, regret=0.0, plain=pytest.approx(0.1))


def test_regret_is_what_the_best_stopped_trial_was_ahead(entry: Entry) -> None:
    """A late bloomer is stopped: 28 rounds of 36 are run; without stopping they are three trials."""
    late = Curve({1: 0.1, 3: 0.6}, 9, 0.95)
    found = play([steady(0.7), steady(0.8), late, steady(0.6)], entry, Threshold())
    assert found == Play(28 / 36, pytest.approx(0.15), 0.0)


def test_less_is_better_of_an_error() -> None:
    (entry,) = entries_of(datasets=["sine"], models=["linear"], settings={"rounds": 9})
    curves = [Curve({1: 3.0}, 9, 2.0), Curve({1: 0.1}, 9, 0.5), Curve({1: 5.0}, 9, 1.0)]
    found = play(curves, entry, Threshold())
    assert found == Play(19 / 27, 0.5, 0.0)


def test_a_play_that_stops_everything_keeps_the_worst_of_the_task(entry: Entry) -> None:
    found = play([steady(0.4), steady(0.3)], entry, Threshold())
    assert found == Play(2 / 18, pytest.approx(0.4), 0.0)


def test_trials_that_end_by_themselves_are_told_and_cost_what_they_ran(entry: Entry) -> None:
    """One diverged at round 2: no scheduler sees its last report, and it has no score."""
    stopper = Threshold()
    found = play([steady(0.6), Curve({1: 0.9}, 2, None)], entry, stopper)
    assert stopper.over == [1, 0]
    assert found == Play(1.0, 0.0, 0.0)


def test_asha_keeps_the_first_and_stops_what_is_worse(entry: Entry) -> None:
    """Best first: all but the first stop at round 1. Worst first: nothing stops."""
    falling = [steady(v) for v in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)]
    found = play(falling, entry, STOPPERS["asha"](entry))
    assert found == Play((9 + 5) / 54, 0.0, 0.0)
    assert play(falling[::-1], entry, STOPPERS["asha"](entry)).share == 1.0


def test_optuna_s_median_waits_for_five_whole_trials(entry: Entry) -> None:
    """Eight trials, four at once: when the last four are asked, four are complete. Of twelve the last four
    stop at round 1, below the median of the eight before.
    """
    falling = [steady(0.9 - i / 20) for i in range(12)]
    assert play(falling[:8], entry, STOPPERS["optuna median"](entry)).share == 1.0
    found = play(falling, entry, STOPPERS["optuna median"](entry))
    assert found == Play((8 * 9 + 4) / 108, 0.0, 0.0)


@pytest.mark.parametrize("name", STOPPERS)
def test_every_scheduler_plays_the_same_again(entry: Entry, name: str) -> None:
    curves = [Curve({1: i * 7 % 12 / 12, 3: i * 5 % 12 / 12}, 9, i / 12) for i in range(12)]
    first, second = (play(curves, entry, STOPPERS[name](entry)) for _ in range(2))
    assert first == second
    assert first.regret >= 0


def test_a_curve_is_what_schedulers_were_shown(entry: Entry) -> None:
    """Means of the last three evaluations, though only the last one was reported: 0.1 after round 1, and
    (0.1 + 0.2 + 0.3) / 3 after round 3.
    """

    def outcome(status: Status, rounds: int) -> TrialResult:
        history = [{"round": r, "val_accuracy": r / 10} for r in range(rounds + 1)]
        return TrialResult(status, history, {rounds: 0.8} if rounds else {})

    whole = curve(entry, outcome(Status.FINISHED, 9))
    assert whole == Curve(pytest.approx({1: 0.1, 3: 0.2}), 9, 0.8)
    assert curve(entry, outcome(Status.DIVERGED, 3)) == Curve({1: 0.1}, 3, None)
    assert curve(entry, outcome(Status.FAILED, 0)) == Curve({}, 0, None)
    torn = outcome(Status.FINISHED, 9)
    torn.history[1]["val_accuracy"] = math.nan
    assert curve(entry, torn).scores == {}, (
        "a score is a mean of three, and none of these is finite"
    )


SWEPT = {
    **BASE,
    "heterogeneity": ["iid", "labels(2)"],
    "trials": 12,
    "seeds": 1,
    "sampler": "random",
    "settings": {"rounds": 9, "clients": 4, "participation": 1.0, "eval_every": 1},
}


@pytest.fixture
def storage(tmp_path: Path, in_this_process: None) -> Path:
    """A storage with a finished sweep that stopped nothing."""
    request = SweepRequest(SWEPT, SweepPaths(tmp_path, "whole"))
    request.run(Resources(max_concurrent=1))
    return tmp_path


def test_a_sweep_played_again(storage: Path) -> None:
    found = stopping(storage, "whole", 20)
    assert found == stopping(storage, "whole", 20), "the same again"
    assert [row["scheduler"] for row in found["schedulers"]] == list(STOPPERS)
    assert {row["searches"] for row in found["schedulers"]} == {2}
    assert len(found["searches"]) == 2 * len(STOPPERS)
    for row in found["searches"]:
        assert 0 < row["share_low"] <= row["share"] <= row["share_high"] <= 1
        assert 0 <= row["regret_low"] <= row["regret"] <= row["regret_high"]


def test_what_cannot_be_played_is_refused(tmp_path: Path, in_this_process: None) -> None:
    def said(name: str) -> str:
        with pytest.raises(UserError) as caught:
            stopping(tmp_path, name, 1)
        return str(caught.value)

    assert said("gone") == f"--name gone: there is no such sweep in {tmp_path}"
    few = {**SWEPT, "trials": 2, "heterogeneity": ["iid"]}
    stopped = SweepRequest({**few, "scheduler": "asha"}, SweepPaths(tmp_path, "stopped"))
    stopped.run(Resources(max_concurrent=1))
    assert said("stopped") == "--name stopped: ran under asha; whole curves need none"
    brief = SweepRequest(few, SweepPaths(tmp_path, "brief"), {"settings.rounds": 1})
    brief.run(Resources(max_concurrent=1))
    rest = "no trial of it finished that could have been stopped before"
    assert said("brief") == f"--name brief: {rest}"
