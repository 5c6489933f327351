"""Which final runs are ranked with which, and their rows, against independent computations."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.leaderboard.leaderboard import leaderboard
from reports.leaderboard.replication import behind_best, differences
from reports.wording.tables import render
from reports.wording.words import answer, behind_text
from tests.support.boards import A, B, C, board_of, by_seed, run, runs
from trials.scoring.metrics import REACHED

DAY = {"sweep": "day", "study": "other"}


def places(board) -> list[tuple[str, int]]:
    return [(row.algorithm, row.rank) for row in board.rows]


@pytest.mark.parametrize(
    ("methods", "rows"),
    [
        ({"c": C, "b": B, "a": A}, [("a", 1), ("b", 2), ("c", 3)]),
        ({"d": C, "c": B, "b": B[::-1], "a": A}, [("a", 1), ("b", 2), ("c", 2), ("d", 4)]),
        ({"a": A[:1], "b": B[:1]}, [("a", 1), ("b", 2)]),
    ],
)
def test_means_and_ranks_equal_ones_in_the_order_of_names(methods, rows):
    board = board_of(*(runs(name, scores) for name, scores in methods.items()))
    assert places(board) == rows
    for row in board.rows:
        assert row.mean == pytest.approx(np.mean(methods[row.algorithm]), abs=1e-15)
        assert row.behind == pytest.approx(board.rows[0].mean - row.mean, abs=1e-15)
        assert (row.ci_low is None) == (row.seeds == 1)


def test_rows_say_how_far_they_are_behind_the_best_whichever_that_is():
    board = board_of(runs("a", A), runs("b", B), runs("c", C))
    scores = {
        name: by_seed(dict(enumerate(of, 1))) for name, of in zip("abc", (A, B, C), strict=True)
    }
    shown = behind_best(scores, differences(scores))
    for row in board.rows:
        expected = shown[row.algorithm]
        assert (row.behind_low, row.behind_high) == (expected.low, expected.high)
        assert row.beaten_by == expected.beaten_by
    assert [row.within_noise for row in board.rows] == [True, True, False]
    for row in board_of(runs("a", A[:1]), runs("b", B[:1])).rows:
        assert (row.ci_low, row.ci_high, row.behind_low, row.within_noise) == (None,) * 4


def test_only_common_seeds_are_paired_whatever_their_order():
    _, row = board_of(runs("a", A), [r for r in runs("b", B)[::-1] if r["seed"] != 2]).rows
    keep = [0, 2, 3, 4]
    expected = stats.ttest_rel([A[i] for i in keep], [B[i] for i in keep]).confidence_interval(0.95)
    assert (row.behind_low, row.behind_high) == pytest.approx((0.0, expected.high))
    other = [run("b", seed, s) for seed, s in zip(range(11, 16), B, strict=True)]
    _, row = board_of(runs("a", A), other).rows
    assert (row.behind_low, row.behind_high, row.within_noise) == (None, None, None)


def test_diverged_runs_count_and_work_is_the_mean_over_seeds():
    scores = [*A[:3], 0.1, 0.08]
    found = [
        run("a", i, s, lost=s < 0.5, spent={"client_steps": 100.0 * i, "uploaded_bytes": 1e6 * i})
        for i, s in enumerate(scores, 1)
    ]
    trials = {("night", found[0]["entry_id"]): 16, ("day", found[0]["entry_id"]): 99}
    first, second = board_of(found, runs("b", B), trials=trials).rows
    assert (first.algorithm, first.failed_seeds) == ("b", 0)
    assert (second.failed_seeds, second.seeds) == (2, 5)
    assert second.mean == pytest.approx(np.mean(scores))
    assert (second.client_steps, second.uploaded_bytes, second.trials) == (300.0, 3e6, 16)


@given(
    st.lists(st.lists(st.integers(0, 1000), min_size=5, max_size=5), min_size=2, max_size=6),
    st.sampled_from([None, 0.01, 0.3]),
)
def test_no_row_shows_a_mark_and_an_interval_that_contradict_each_other(table, margin):
    """Whoever is shown not to be the best is so by more than 0, the others are said to be candidates; so says the answer."""
    methods = [runs(f"m{i}", [score / 1000 for score in of]) for i, of in enumerate(table)]
    rows = board_of(*methods, margin=margin).rows
    if rows[0].within_noise is None:  # nothing to estimate an error from
        assert all(row.within_noise is None for row in rows)
        return
    best = [row for row in rows if row.within_noise]
    for row in rows:
        text = behind_text(row)
        if row in best:
            candidates = {"within the margin" if row.equivalent else "may be the best"}
            assert text in ({"the best"} if len(best) == 1 else candidates)
            continue
        low, high = text.removesuffix(" points").split(" to ")
        assert low.startswith("<0.") or 0 < float(low) <= 100 * row.behind + 0.06
        assert 0 < 100 * row.behind <= float(high) + 0.06
    named = ", ".join(row.algorithm for row in best)
    assert (named in answer(rows)) == (len(best) < len(rows))


@pytest.mark.parametrize(
    "other",
    [
        *({"dataset": "mnist"}, {"model": "mlp"}, {"heterogeneity": "labels(2)"}),
        {"sweep": "day", "partition_fingerprint": "other"},
        {"sweep": "day", "shared": '{"rounds":99}'},
    ],
)
def test_groups_are_never_mixed(other):
    """What another group holds changes nothing but the number of rows."""
    alone = board_of(runs("a", A), runs("b", B))
    both = board_of(runs("a", C, **other), runs("a", A), runs("b", B), runs("b", A, **other))
    assert both.rows[2:] == alone.rows
    assert places(both) == [("b", 1), ("a", 2), ("a", 1), ("b", 2)]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["iid", "natural"])),
        st.lists(st.sampled_from([0.1, 0.25, 0.3, 0.7, 0.9]), min_size=1, max_size=4),
        min_size=1,
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_runs_changes_no_row(cells, draw):
    found = []
    for (algorithm, level), scores in cells.items():
        found += runs(algorithm, scores, heterogeneity=level)
    one, other = board_of(found), board_of(draw.sample(found, len(found)))
    assert sorted(map(repr, one.rows)) == sorted(map(repr, other.rows))


def test_cells_of_two_studies_are_matched_by_content_and_the_later_answer_counts():
    board = board_of(runs("a", A), runs("b", B), runs("c", C, **DAY))
    assert places(board) == [("a", 1), ("b", 2), ("c", 3)]
    assert {row.sweeps for row in board.rows} == {"night + day"}
    assert (board.study, board.notes) == ("other, quick", ())
    again = board_of(runs("a", A), runs("b", B), runs("a", C, **DAY))
    assert places(again) == [("b", 1), ("a", 2)]
    assert again.rows[1].mean == pytest.approx(np.mean(C))
    assert "day counts" in again.notes[0]


@pytest.mark.parametrize(
    ("terms", "budget", "said"),
    [
        ({"partition_fingerprint": "beef"}, 8, "fingerprint beef against cafe"),
        ({"shared": '{"rounds":9}'}, 8, "rounds 9 against 5"),
        ({}, 16, "16 against 8 search trials"),
    ],
)
def test_what_is_not_comparable_is_said_and_not_merged(terms, budget, said):
    here = {"partition_fingerprint": "cafe", "shared": '{"rounds":5}'}
    found = [runs("a", A, **here), runs("b", B, **{**here, **DAY, **terms})]
    trials = {("night", found[0][0]["entry_id"]): 8, ("day", found[1][0]["entry_id"]): budget}
    board = board_of(*found, trials=trials)
    assert places(board) == [("a", 1), ("b", 1)]
    (note,) = board.notes
    assert said in note
    assert note in render(board, "md")
    if not terms:
        return
    third = runs("c", C, **{**here, **DAY, **terms, "sweep": "third"})
    trials["third", third[0]["entry_id"]] = budget
    assert places(board_of(*found, third, trials=trials))[1:] == [("b", 1), ("c", 2)]


def test_a_familys_row_is_the_average_of_the_ranks_in_its_scenarios():
    """Seeds are averaged first. b wins two of three levels of digits, though a has the better mean over them, since it wins the third by
    more; a wins mnist and mnist01, which are one family: each is ahead in one family. An algorithm
    that lacks a level has no row there.
    """
    scores = {
        "iid": ([0.8, 1.0], [0.6] * 2),
        "labels(2)": ([0.6], [0.7]),
        "labels(1)": ([0.6], [0.7]),
    }
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
    assert (len(compared.scenarios), compared.left_out_algorithms) == (5, ("c",))


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


def test_equal_cost_compares_what_the_cheapest_run_spent():
    cheap = ((0.0, 0.1), (10.0, 0.5), (20.0, 0.6))
    dear = ((0.0, 0.1), (15.0, 0.4), (30.0, 0.55), (45.0, 0.9))
    silent = ((0.0, 0.1), (0.0, 0.2), (0.0, 0.3))
    found = [
        *(run("cheap", seed, 0.6, curve=cheap) for seed in (1, 2)),
        *(run("dear", seed, 0.9, curve=dear) for seed in (1, 2)),
        run("dear", 3, 0.1, lost=True),
        *(run("alone", seed, 0.3, curve=silent, reference=True) for seed in (1, 2)),
    ]
    board = leaderboard(pd.DataFrame(found), {}, None, "bytes")
    means = {row.algorithm: row.mean for row in board.rows}
    assert means == pytest.approx({"cheap": 0.6, "dear": (0.4 + 0.4 + 0.1) / 3, "alone": 0.3})
    assert [row.rank for row in board.rows] == [1, 2, None]
    assert ({row.budget for row in board.rows}, board.at) == ({20.0}, "bytes")
    whole = leaderboard(pd.DataFrame([r | {"curve": ()} for r in found]), {}, None)
    assert [row.algorithm for row in whole.rows] == ["dear", "cheap", "alone"]
    assert {row.budget for row in whole.rows} == {None}


def test_less_is_better_where_the_metric_says_so():
    errors = [0.5, 0.6, 0.4, 0.5, 0.5]
    worse, sine = [e + 0.1 for e in errors], {"metric": "mse", "dataset": "sine"}
    board = board_of(runs("far", worse, **sine), runs("near", errors, **sine), runs("a", A))
    assert places(board) == [("near", 1), ("far", 2), ("a", 1)]
    assert board.rows[1].behind == pytest.approx(0.1)
    assert (board.metric, board.direction) == ("test_mse, test_accuracy", "minimize, maximize")
    shown = render(board, "md")
    assert "| test mse |" in shown
    assert "| test accuracy % |" in shown


def test_rows_outside_their_papers_settings_and_references_have_no_rank_and_stand_below():
    upper = [s + 0.05 for s in A]
    found = runs("gossip", upper, reference=True, outside="few are awake")
    board = board_of(found, runs("b", B), runs("a", A), runs("all", upper, reference=True))
    assert places(board) == [("a", 1), ("b", 2), ("all", None), ("gossip", None)]
    assert board.rows[-1].behind == pytest.approx(-0.05)
    alone = board_of(runs("a", A), runs("b", B))
    assert (board.differences, board.overall) == (alone.differences, alone.overall)
    assert board.rows[1].behind_high == alone.rows[1].behind_high
    grew = runs("gossip", A[:2]) + runs("gossip", A, reference=True, outside="now")[2:]
    assert [row.rank for row in board_of(grew, runs("b", B)).rows] == [1, None]
