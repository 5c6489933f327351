"""Which runs are compared with which, sorting, and what is read from a store for it."""

import json

import numpy as np
import pytest

from reports.wording.tables import render
from tests.support.boards import A, B, C, board_of, run, runs
from trials.scoring.metrics import REACHED

DAY = {"sweep": "day", "study": "other"}


def names(board) -> list[list[str]]:
    """Algorithms of each group."""
    groups = list(dict.fromkeys(row.group for row in board.rows))
    return [[row.algorithm for row in board.rows if row.group == group] for group in groups]


def test_cells_of_two_studies_are_matched_by_content():
    board = board_of(runs("a", A), runs("b", B), runs("c", C, **DAY))
    assert names(board) == [["a", "b", "c"]]
    assert {row.sweeps for row in board.rows} == {"night + day"}
    assert [row.sweep for row in board.rows] == ["night", "night", "day"]
    assert board.study == "other, quick"
    alone = board_of(runs("a", A), runs("b", B), runs("c", C))
    assert [r.behind_low for r in board.rows] == [r.behind_low for r in alone.rows]
    assert board.notes == ()


@pytest.mark.parametrize(
    ("terms", "budget", "said"),
    [
        ({"partition_fingerprint": "beef"}, 8, "fingerprint beef against cafe"),
        ({"shared": '{"rounds":9}'}, 8, "rounds 9 against 5"),
        ({"shared": '{"rounds":5,"momentum":0.9}'}, 8, "momentum 0.9 against None"),
        ({}, 16, "16 against 8 search trials"),
    ],
)
def test_what_is_not_comparable_is_said_and_not_merged(terms, budget, said):
    here = {"partition_fingerprint": "cafe", "shared": '{"rounds":5}'}
    found = [runs("a", A, **here), runs("b", B, **{**here, **DAY, **terms})]
    trials = {("night", found[0][0]["entry_id"]): 8, ("day", found[1][0]["entry_id"]): budget}
    board = board_of(*found, trials=trials)
    assert names(board) == [["a"], ["b"]]
    assert [row.rank for row in board.rows] == [1, 1]
    (note,) = board.notes
    assert said in note
    assert note in render(board, "md")


def test_a_third_sweep_joins_the_group_it_is_comparable_with():
    terms = {"partition_fingerprint": "other"}
    third = {"sweep": "third", **terms}
    board = board_of(runs("a", A), runs("b", B, **DAY, **terms), runs("c", C, **third))
    assert names(board) == [["a"], ["b", "c"]]
    assert len(board.notes) == 1


def test_an_algorithm_tuned_twice_counts_once_and_that_is_said():
    board = board_of(runs("a", A), runs("b", B), runs("a", C, **DAY))
    assert names(board) == [["b", "a"]]
    assert board.rows[1].mean == pytest.approx(np.mean(C))
    assert "a was tuned in night and day; day counts" in board.notes[0]


def test_overall_has_one_row_a_data_set_and_seeds_are_averaged_first():
    """Ten seeds on two data sets are two rows, not ten."""
    names = ("digits", "mnist", "emnist", "cifar10", "svhn", "adult", "wisdm", "hapt")
    levels = [{"dataset": name} for name in names]
    found = [
        runs(name, v, **level) for level in levels for name, v in zip("abc", (A, B, C), strict=True)
    ]
    (compared,) = board_of(*found).overall.values()
    assert compared.families == names
    assert (compared.algorithms, compared.ranks) == (("a", "b", "c"), (1.0, 2.0, 3.0))
    assert compared.chi2 == pytest.approx(16.0), "n (k - 1)"
    more = [
        runs(name, [*v, *v], **level)
        for level in levels
        for name, v in zip("abc", (A, B, C), strict=True)
    ]
    (same,) = board_of(*more).overall.values()
    assert (same.ranks, same.friedman) == (compared.ranks, compared.friedman)


def test_a_familys_row_is_the_average_of_the_ranks_in_its_scenarios():
    """b wins two of three levels of digits, though a has the better mean over them, since it wins the third by
    more; a wins mnist and mnist01, which are one family: each is ahead in one family. An algorithm
    that lacks a level has no row there.
    """
    scores = {"iid": ([0.9], [0.6]), "labels(2)": ([0.6], [0.7]), "labels(1)": ([0.6], [0.7])}
    found = [
        runs(name, value, heterogeneity=level)
        for level, values in scores.items()
        for name, value in zip("ab", values, strict=True)
    ]
    for name in ("mnist", "mnist01"):
        found += [runs("a", [0.9], dataset=name), runs("b", [0.8], dataset=name)]
    found += [runs("c", [1.0]), runs("c", [1.0], dataset="mnist")]
    (compared,) = board_of(*found).overall.values()
    assert compared.families == ("digits", "mnist")
    assert (compared.algorithms, compared.ranks) == (("a", "b"), (1.5, 1.5))
    assert (compared.rank_low, compared.rank_high) == ((1.0, 1.0), (2.0, 2.0))
    assert len(compared.scenarios) == 5
    assert compared.left_out_algorithms == ("c",)


def test_references_take_no_part_in_the_comparison_over_cells():
    board = board_of(runs("a", A), runs("b", B), runs("all", A, reference=True))
    (compared,) = board.overall.values()
    assert compared.algorithms == ("a", "b")
    assert {d.first for _, pairs in board.differences for d in pairs} == {"a"}


def test_censored_seeds_are_later_than_all():
    """Reached after 10 and 20 rounds; three of five seeds never. The median is one that never did."""
    at = [
        dict(zip(REACHED, (r, 100 * r, 7 * r), strict=True)) if r else {} for r in (10, 0, 20, 0, 0)
    ]
    found = [run("a", i, s, reached=x) for i, (s, x) in enumerate(zip(A, at, strict=True))]
    (row,) = board_of(found, target=0.9).rows
    assert (row.rounds_to_target, row.reached_share) == (15.0, 0.4)
    assert row.median_rounds_to_target is None
    assert (row.client_steps_to_target, row.bytes_to_target) == (1500.0, 105.0)
    (row,) = board_of(found[:3], target=0.9).rows
    assert row.median_rounds_to_target == 20.0


def test_all_pairs_are_in_the_json_document():
    document = json.loads(json.dumps(board_of(runs("a", A), runs("b", B), runs("c", C)).as_dict()))
    pairs = {(d["first"], d["second"]): d for d in document["differences"]}
    assert set(pairs) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert pairs["a", "b"]["tie"] is True
    assert pairs["b", "c"]["heterogeneity"] == "iid"
    assert document["overall"]["test_accuracy"]["pairs"][0]["verdict"] == "cannot reject at this n"
