"""A sweep that has to be over by a time: its search is cut so that final runs fit, by the number of the trial."""

import random
from collections import Counter
from pathlib import Path

import pytest

from suite.execution.resources import Resources
from suite.results.leaderboards import read_leaderboard
from suite.sweeps import progress
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.progress import Deadline
from suite.sweeps.request import SweepRequest
from suite.sweeps.sweep import Sweep
from suite.sweeps.tables import open_tables
from tests.support.foreign import little, play, swept
from tests.support.searches import Player, finished, sweep_of
from trials.run.outcome import Status, TrialResult


def took(rounds: int, seconds: float) -> TrialResult:
    """A trial that came so far in so long."""
    return TrialResult(Status.FINISHED, history=[{"round": rounds}], seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_no_trial_is_begun_after_which_the_final_runs_would_not_fit(clock: list[float]) -> None:
    """Two methods with 10 trials of 50 rounds and 3 final runs each; of a 2 trials are handed out and run, of b 1."""
    search = sweep_of(algorithms=["fedavg", "fedprox"], trials=10, seeds=3, settings={"rounds": 50})
    a, b = (of.entry.id for of in search.entries.values())
    for _ in range(3):
        search.next()
    watch = Deadline(minutes=10, slots=2)
    assert watch.at == 100 + 600 * 0.95 - 5
    clock[0] = 664.0
    assert not watch.presses(search), "nothing is known of how long a trial takes"
    clock[0] = 200.0
    watch.took(
        a, took(50, 100.0)
    )  # it started the workers: all that is known, 125 s with the margin
    # 2 phases of 125 s; a third trial of a, two more of b, 3 that run, 6 final runs: 12 trials of 125 s, two at once.
    watch.at = 200 + 250 + 12 * 125 / 2 + 0.01
    assert not watch.presses(search)
    watch.at -= 0.02
    assert watch.presses(search)
    clock[0] = 300.0
    watch.took(a, took(5, 4.0))  # pruned: 0.8 s a round
    watch.took(a, took(45, 16.0))  # together 0.4 s a round, 25 s a trial with the margin
    watch.took(b, took(50, 8.0))  # 10 s
    for _ in range(4):
        watch.took(b, TrialResult(Status.FAILED, seconds=118.0))
    # 600 s of trials in 200 s are three at once. Of a 1 + 2 + 3 trials, of b 2 + 1 + 3.
    watch.at = 300 + 2 * 25 + (6 * 25 + 6 * 10) / 3 + 0.01
    assert not watch.presses(search)
    watch.at -= 0.02
    assert watch.presses(search)


@pytest.mark.parametrize("seed", range(8))
def test_a_trial_s_number_is_run_for_all_entries_of_a_scenario_or_for_none(seed: int) -> None:
    """Whenever it is cut, and however entries' trials end; then each best runs again."""
    draw = random.Random(seed)
    search = sweep_of(
        algorithms=["fedavg", "fedprox", "folb"], heterogeneity=["iid", "labels(2)"], trials=12,
        seeds=2, tunings=2, confirm={"best": 2, "seeds": 1}, sampler="random",
    )  # fmt: skip
    player = Player(search, lambda ask: finished(draw.random()))
    player.play(draw, concurrent=draw.choice([1, 3, 20]), limit=draw.randrange(200))
    begun = len(player.requests("search"))
    search.pressed = lambda: True
    player.play(draw, concurrent=5)
    trials = Counter(request.search for request in player.requests("search"))
    assert trials.keys() == search.entries.keys()
    for scenario in {of.entry.scenario for of in search.entries.values()}:
        counts = {
            trials[name] for name, of in search.entries.items() if of.entry.scenario == scenario
        }
        assert len(counts) == 1
    assert begun <= trials.total() <= max(begun, 1) * 12
    assert search.exhausted
    finals = Counter(request.search for request in player.requests("final"))
    assert all(finals[name] >= 2 for name in search.entries)


def test_a_cut_is_said_below_the_leaderboard_until_the_sweep_is_resumed_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = {"algorithms": ["fedavg", "fedprox"], "trials": 6, "seeds": 2}
    paths = SweepPaths(tmp_path / "runs", "s")
    monkeypatch.setattr(Deadline, "presses", lambda self, search: len(search.requests) == 4)
    first = play(Sweep("s", little(**study), paths), deadline=Deadline(10, slots=1))
    assert [row.trials for row in first.leaderboard.rows] == [2, 2]
    (note,) = first.leaderboard.notes
    assert "--minutes 10: 2 of 6 search trials" in note
    assert note in read_leaderboard(open_tables(paths.storage, names=["s"])).notes
    again = play(Sweep("s", little(**study), paths, resume=True)).leaderboard
    assert ([row.trials for row in again.rows], again.notes) == ([6, 6], ())
    swept(tmp_path, "t", **study)
    at_once = read_leaderboard(open_tables(paths.storage, names=["t"]))
    assert [row.mean for row in again.rows] == [row.mean for row in at_once.rows]


def test_a_sweep_whose_time_is_up_is_kept(tmp_path: Path, in_this_process: None) -> None:
    study = little(trials=6, seeds=2).model_dump(mode="json")
    paths = SweepPaths(tmp_path / "runs", "s")
    result = SweepRequest(study, paths).run(Resources(max_concurrent=1), minutes=0.001)
    assert (result.ending, result.leaderboard) == ("out of time", None)
    result = SweepRequest(study, paths, resume=True).run(Resources(max_concurrent=1))
    assert [row.trials for row in result.leaderboard.rows] == [6]
