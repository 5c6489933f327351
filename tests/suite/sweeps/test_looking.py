"""Looking at a sweep: the interim ranking before final runs are there."""

import json
from pathlib import Path
from typing import Any

import suite
from suite.results.leaderboards import Query, read_leaderboard
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.sweeps.tables import open_tables
from tests.support.commands import document, suite_here
from tests.support.foreign import little, play, swept
from tests.support.simulations import ROOT

TWO: dict[str, Any] = {"algorithms": ["fedavg", "fedprox"], "trials": 3, "seeds": 2}


def cut_short(folder: Path, most: int, **given: Any) -> SweepPaths:
    """A sweep of which so many trials have ended."""
    place = SweepPaths(folder / "runs", "s")
    play(Sweep("s", little(**{**TWO, **given}), place), most=most)
    return place


def test_the_interim_ranking_is_by_validation_until_all_finals_are_there(tmp_path: Path) -> None:
    place = cut_short(tmp_path, 7)  # all of the search, and one final run
    board = read_leaderboard(open_tables(place.storage), Query("s"))
    assert (board.rows, board.study, board.metric) == ((), "s", "test_accuracy")
    standing = board.interim
    assert [one.rank for one in standing] in ([1, 2], [1, 1])
    assert {one.metric for one in standing} == {"val_accuracy"}
    assert [(one.trials, one.planned, one.seeds) for one in standing] == [(3, 3, 2)] * 2
    assert sorted(one.finals for one in standing) == [0, 1]
    trials = suite.load("s", storage=place.storage)
    for one in standing:
        mine = trials[(trials["kind"] == "search") & (trials["entry_id"] == one.entry_id)]
        best = mine.loc[mine["val_score"].idxmax()]
        assert (one.best, one.params) == (best["val_score"], json.loads(best["params"]))
    assert standing[0].best >= standing[1].best
    play(Sweep("s", little(**TWO), place, resume=True))
    board = read_leaderboard(open_tables(place.storage), Query("s"))
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
        board = read_leaderboard(open_tables(place.storage), Query("s"))
        if done == 5:
            assert board.rows == ()
            assert [(one.finals, one.seeds) for one in board.interim] == [(1, 3)]
        else:
            assert [row.seeds for row in board.rows] == [3]
        line = suite_here("status", "s", "--storage", place.storage, cwd=tmp_path).stdout
        assert line.startswith(f"s: {done}/7 runs ({done} finished), {recorded} recorded; ")


def test_the_command_shows_it_and_refuses_what_has_no_form_of_it(tmp_path: Path) -> None:
    """A third party's method goes by its short name."""
    median = f"{ROOT / 'examples' / 'fedmedian.py'}:FedMedian"
    cut_short(tmp_path, 2, algorithms=["fedavg", median])
    got = document(suite_here("leaderboard", "s", "--json", cwd=tmp_path))
    assert got["rows"] == []
    assert [one["trials"] for one in got["interim"]] == [1, 1]
    shown = suite_here("leaderboard", "--format", "md", cwd=tmp_path).stdout
    assert "interim, validation only" in shown.splitlines()[0]
    suite_here("leaderboard", "--format", "csv", cwd=tmp_path, code=2)
    where = ("--where", "algorithm=FedMedian", "--json")
    got = document(suite_here("leaderboard", *where, cwd=tmp_path))
    assert [one["algorithm"] for one in got["interim"]] == [median]
