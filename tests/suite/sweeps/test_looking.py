"""Looking at a sweep: the interim ranking before final runs are there, and the audit once they are."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import suite
from reports.wording.formats import audit_table
from suite.execution.cluster import Resources
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.studies.study import read_study
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from suite.sweeps.sweep import Sweep
from suite.sweeps.tables import open_tables
from tests.support.boards import printed, shown
from tests.support.commands import document, fault, suite_here
from tests.support.foreign import little, play, swept
from tests.support.simulations import ROOT

STUDY = {
    "algorithms": ["fedavg", "fedprox"],
    "datasets": ["digits"],
    "models": ["logreg"],
    "heterogeneity": ["iid"],
    "trials": 3,
    "seeds": 2,
    "sampler": "random",
    "pack": 1,  # so that it can be stopped after any trial
    "settings": {"rounds": 4, "clients": 4, "participation": 1.0, "execution": "batched"},
}
pytestmark = pytest.mark.usefixtures("in_this_process")


def sweep(storage: Path, study: Any = STUDY, stop_after: int | None = None, **more: Any) -> None:
    """Run it, all or until so many trials have ended."""
    request = SweepRequest(study, SweepPaths(storage, "small"), **more)
    opened = request.open()
    ended, seen = opened._ended, []

    def count(*end: Any) -> None:
        ended(*end)
        seen.append(end)
        if len(seen) == stop_after:
            opened.control.end("stopped")

    opened._ended = count
    opened.run(Resources(max_concurrent=1))


def test_the_interim_ranking_is_by_validation_until_all_finals_are_there(tmp_path):
    storage = tmp_path / "runs"
    sweep(storage, stop_after=7)  # all of the search, and one final run
    board = read_leaderboard(open_tables(storage), Query("small"))
    assert (board.rows, board.study, board.metric) == ((), "small", "test_accuracy")
    standing = board.interim
    assert [one.rank for one in standing] in ([1, 2], [1, 1])
    assert {one.metric for one in standing} == {"val_accuracy"}
    assert [(one.trials, one.planned, one.seeds) for one in standing] == [(3, 3, 2)] * 2
    assert sorted(one.finals for one in standing) == [0, 1]
    trials = suite.load("small", storage=storage)
    for one in standing:
        mine = trials[(trials["kind"] == "search") & (trials["entry_id"] == one.entry_id)]
        best = mine.loc[mine["val_score"].idxmax()]
        assert (one.best, one.params) == (best["val_score"], json.loads(best["params"]))
    assert standing[0].best >= standing[1].best
    lines = shown(board, 80)
    assert lines[0] == "digits · logreg · iid (small): interim, validation only"
    assert not any("Audit" in line for line in lines)

    sweep(storage, resume=True)
    board = read_leaderboard(open_tables(storage), Query("small"))
    assert board.interim == ()
    assert {(row.algorithm, row.seeds) for row in board.rows} == {("fedavg", 2), ("fedprox", 2)}


def test_final_runs_of_a_former_best_are_no_part_of_a_board_in_the_middle_of_an_extension(tmp_path):
    """The second search trial is better than the default configuration, whose final runs are there; one is of the new best."""
    lr = {"search": {"lr": {"default": 0.001, "low": 0.001, "high": 10}}, "seeds": 3}
    place = swept(tmp_path, trials=1, **lr)
    play(Sweep("s", little(trials=4, **lr), place, resume=True), most=4)
    board = read_leaderboard(open_tables(place.storage), Query("s"))
    assert board.rows == ()
    assert [(one.finals, one.seeds) for one in board.interim] == [(1, 3)]
    done = suite_here("status", "s", "--storage", place.storage, cwd=tmp_path).stdout
    assert done.startswith("s: 5/7 runs (5 finished), 8 recorded; ")
    play(Sweep("s", little(trials=4, **lr), place, resume=True))
    (row,) = read_leaderboard(open_tables(place.storage), Query("s")).rows
    assert row.seeds == 3
    done = suite_here("status", "s", "--storage", place.storage, cwd=tmp_path).stdout
    assert done.startswith("s: 7/7 runs (7 finished), 10 recorded; ")


def test_the_command_shows_it_and_says_what_has_no_form_of_it(tmp_path):
    sweep(tmp_path / "runs", stop_after=2)
    got = document(suite_here("leaderboard", "small", "--json", cwd=tmp_path))
    assert got["rows"] == []
    assert [one["trials"] for one in got["interim"]] == [1, 1]
    done = suite_here("leaderboard", "--format", "md", cwd=tmp_path)
    assert done.stdout.startswith("**digits · logreg · iid (small): interim, validation only**\n")
    done = suite_here("leaderboard", "--format", "csv", cwd=tmp_path, code=2)
    assert fault(done) == (
        "there are no final runs yet: finish the sweep with --resume, or see how it stands "
        "without --format csv"
    )
    where = ("--where", "algorithm=fedprox", "--json")
    got = document(suite_here("leaderboard", *where, cwd=tmp_path))
    assert [one["algorithm"] for one in got["interim"]] == ["fedprox"]


def test_an_interim_ranking_is_asked_for_by_a_third_party_s_short_name(tmp_path):
    median = f"{ROOT / 'examples' / 'fedmedian.py'}:FedMedian"
    sweep(tmp_path / "runs", {**STUDY, "algorithms": ["fedavg", median]}, stop_after=2)
    where = ("--where", "algorithm=FedMedian", "--json")
    got = document(suite_here("leaderboard", *where, cwd=tmp_path))
    assert [one["algorithm"] for one in got["interim"]] == [median]


def test_the_audit_names_edges_and_the_commands_that_mend_them(tmp_path):
    storage = tmp_path / "runs"
    study = {**STUDY, "trials": 1, "search": {"lr": {"low": 0.01, "high": 0.1}}}
    sweep(storage, study)  # one trial, the default configuration: its lr is 0.1
    board = read_leaderboard(open_tables(storage), Query("small"))
    prox, avg = (
        next(r.audit for r in board.rows if r.algorithm == n) for n in ("fedprox", "fedavg")
    )
    assert (avg.trials, avg.hyperparameters, avg.diverged_share) == (1, 1, 0.0)
    assert (prox.trials, prox.hyperparameters) == (1, 2)
    assert [(edge.name, edge.end, edge.closed) for edge in avg.edges] == [("lr", "high", False)]
    more = f"suite sweep small.yaml --resume --trials 20 --storage {storage}"
    wide = f"suite sweep small.yaml --name small-wider --set search.lr=0.01..1 --storage {storage}"
    found = {(finding.kind, finding.command) for finding in avg.findings}
    assert found == {("edge", wide), ("few", more)}
    text = "\n".join(printed(audit_table(board, 200), 200))
    assert "Winner at an edge of its range: " in text
    assert f"  {wide}" in text
    assert "--audit (2 findings)" in shown(board, 200)[-1]


def test_the_command_for_a_wider_range_searches_there(tmp_path):
    options = shlex.split(
        "--set search.lr=0.01..20 --set search.fedprox.mu=0.001..3 --dry-run --json"
    )
    plan = document(suite_here("sweep", "quickstart", *options, cwd=tmp_path))
    assert plan["trials"]
    _, study = read_study(
        "quickstart",
        {
            "search.lr": {"low": 0.01, "high": 20.0},
            "search.fedprox.mu": {"low": 0.001, "high": 3.0},
        },
    )
    lr = study.search["lr"]
    assert (lr.low, lr.high, lr.log, lr.default) == (0.01, 20.0, True, 0.1)
    assert (study.search["fedprox.mu"].low, study.search["fedprox.mu"].high) == (0.001, 3.0)


def test_a_plan_warns_of_a_thin_budget_in_one_line(tmp_path):
    words = ("sweep", "smoke", "--trials", 9, "--set", "sampler=tpe", "--dry-run", "--json")
    assert document(suite_here(*words, cwd=tmp_path))["warnings"] == [
        "9 trials are fewer than 4 for each searched hyperparameter of folb (16 would be enough): how "
        "lucky a search is decides much"
    ]


def test_ranges_of_algorithms_that_are_left_out_go_with_them():
    _, study = read_study("quickstart", {"algorithms": ["fedavg", "fedagg"]})
    assert set(study.search) == {"lr", "fedagg.alpha"}
