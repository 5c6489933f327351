"""Leaderboards: hand-made cases against independent computations."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.leaderboard.leaderboard import leaderboard
from reports.leaderboard.replication import behind_best, differences
from reports.leaderboard.statistics import interval
from reports.wording.tables import board_tables, render
from reports.wording.words import answer, behind_text
from tests.support.boards import A, B, C, board_of, by_seed, run, runs


@pytest.mark.parametrize(
    ("methods", "rows"),
    [
        ({"c": C, "b": B, "a": A}, [("a", 1), ("b", 2), ("c", 3)]),
        ({"d": C, "c": B, "b": B[::-1], "a": A}, [("a", 1), ("b", 2), ("c", 2), ("d", 4)]),
        ({"b": A, "a": A}, [("a", 1), ("b", 1)]),
        ({"a": A[:1], "b": B[:1]}, [("a", 1), ("b", 2)]),
    ],
)
def test_means_and_ranks_equal_ones_in_the_order_of_names(methods, rows):
    board = board_of(*(runs(name, scores) for name, scores in methods.items()))
    assert [(row.algorithm, row.rank) for row in board.rows] == rows
    for row in board.rows:
        assert row.mean == pytest.approx(np.mean(methods[row.algorithm]), abs=1e-15)
        assert row.behind == pytest.approx(board.rows[0].mean - row.mean, abs=1e-15)
        assert (row.ci_low is None) == (row.seeds == 1)


def test_equal_runs_may_be_the_best_and_of_one_seed_nothing_is_said():
    _, second = board_of(runs("b", A), runs("a", A)).rows
    assert (second.behind_low, second.behind_high, second.within_noise) == (0.0, 0.0, True)
    for row in board_of(runs("a", A[:1]), runs("b", B[:1])).rows:
        assert (row.ci_low, row.ci_high, row.behind_low, row.within_noise) == (None,) * 4
    assert interval([0.5]) == interval([]) == (None, None)


def test_only_common_seeds_are_paired_whatever_their_order():
    _, row = board_of(runs("a", A), [r for r in runs("b", B)[::-1] if r["seed"] != 2]).rows
    keep = [0, 2, 3, 4]
    expected = stats.ttest_rel([A[i] for i in keep], [B[i] for i in keep]).confidence_interval(0.95)
    assert (row.behind_low, row.behind_high) == pytest.approx((0.0, expected.high))
    other = [run("b", seed, s) for seed, s in zip(range(11, 16), B, strict=True)]
    _, row = board_of(runs("a", A), other).rows
    assert (row.behind_low, row.behind_high, row.within_noise) == (None, None, None)


def test_diverged_runs_count_and_are_counted():
    scores = [*A[:3], 0.1, 0.08]
    found = [run("a", seed, s, lost=s < 0.5) for seed, s in enumerate(scores, 1)]
    first, second = board_of(found, runs("b", B)).rows
    assert (first.algorithm, first.failed_seeds) == ("b", 0)
    assert (second.failed_seeds, second.seeds) == (2, 5)
    assert second.mean == pytest.approx(np.mean(scores))


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12), st.floats(0.5, 0.999))
def test_the_interval_is_students_for_any_numbers(values, level):
    low, high = interval(values, level)
    mean, sem = np.mean(values), stats.sem(values)
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * sem
    assert low == pytest.approx(mean - half, rel=1e-6, abs=1e-9)
    assert high == pytest.approx(mean + half, rel=1e-6, abs=1e-9)


@given(
    st.lists(st.lists(st.integers(0, 1000), min_size=5, max_size=5), min_size=2, max_size=6),
    st.sampled_from([None, 0.01, 0.3]),
)
def test_no_row_shows_a_mark_and_an_interval_that_contradict_each_other(table, margin):
    """Whoever is shown not to be the best is so by more than 0, the others are said to be candidates; so says the answer."""
    methods = [runs(f"m{i}", [score / 1000 for score in of]) for i, of in enumerate(table)]
    rows = board_of(*methods, margin=margin).rows
    told = {row.algorithm: behind_text(row) for row in rows}
    if rows[0].within_noise is None:  # nothing to estimate an error from
        assert all(row.within_noise is None for row in rows)
        assert answer(rows).startswith("Too few")
        return
    best = [row for row in rows if row.within_noise]
    for row in rows:
        text = told[row.algorithm]
        if row in best:
            candidates = {"within the margin" if row.equivalent else "may be the best"}
            assert text in ({"the best"} if len(best) == 1 else candidates)
            continue
        low, high = text.removesuffix(" points").split(" to ")
        assert low.startswith("<0.") or 0 < float(low) <= 100 * row.behind + 0.06
        assert 0 < 100 * row.behind <= float(high) + 0.06
    names = ", ".join(row.algorithm for row in best)
    if len(best) == 1:
        assert f"{names} is shown to be the best." in answer(rows)
    elif len(best) < len(rows):
        assert f"{len(best)} of {len(rows)} may be the best: {names}." in answer(rows)
    else:
        assert "no method is told apart from the best." in answer(rows)


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
    assert [row.units for row in board.rows] == [5, 5, 5]


def test_pairing_sees_what_means_hide():
    """Scores that vary much over seeds, but together: the small lead is no noise."""
    good = [0.5, 0.6, 0.7, 0.8, 0.9]
    board = board_of(runs("a", good), runs("b", [s - 0.01 - s / 1000 for s in good]))
    first, second = board.rows
    assert second.ci_high > first.ci_low, "the intervals overlap"
    assert second.within_noise is False


def test_work_is_the_mean_over_seeds_and_trials_are_counted_per_cell():
    found = [
        run("a", i, s, spent={"client_steps": 100.0 * i, "uploaded_bytes": 1e6 * i})
        for i, s in enumerate(A)
    ]
    trials = {("night", found[0]["entry_id"]): 16, ("day", found[0]["entry_id"]): 99}
    (row,) = board_of(found, trials=trials).rows
    assert (row.client_steps, row.uploaded_bytes, row.trials) == (200.0, 2e6, 16)


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": "mnist"},
        {"model": "mlp"},
        {"heterogeneity": "labels(2)"},
        {"sweep": "day", "partition_fingerprint": "other"},
        {"sweep": "day", "shared": '{"rounds":99}'},
    ],
)
def test_groups_are_never_mixed(other):
    """What another group holds changes nothing but the number of rows."""
    alone = board_of(runs("a", A), runs("b", B))
    both = board_of(runs("a", C, **other), runs("a", A), runs("b", B), runs("b", A, **other))
    assert both.rows[2:] == alone.rows
    assert [(row.algorithm, row.rank) for row in both.rows] == [
        ("b", 1),
        ("a", 2),
        ("a", 1),
        ("b", 2),
    ]
    assert len({row.group for row in both.rows}) == 2


SCORES = st.lists(st.sampled_from([0.1, 0.25, 0.3, 0.7, 0.9]), min_size=1, max_size=4)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["iid", "natural"])), SCORES, min_size=1
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_runs_changes_no_row(cells, draw):
    found = [
        r
        for (algorithm, level), scores in cells.items()
        for r in runs(algorithm, scores, heterogeneity=level)
    ]
    mixed = draw.sample(found, len(found))
    one, other = board_of(found, target=0.5), board_of(mixed, target=0.5)
    assert sorted(map(repr, one.rows)) == sorted(map(repr, other.rows))
    for level in {level for _, level in cells}:
        order = [
            [r.algorithm for r in board.rows if r.heterogeneity == level] for board in (one, other)
        ]
        assert order[0] == order[1]


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
    assert {row.budget for row in board.rows} == {20.0}
    assert board.at == "bytes"
    assert "at equal bytes" in board.protocol
    whole = leaderboard(pd.DataFrame([r | {"curve": ()} for r in found]), {}, None)
    assert [row.algorithm for row in whole.rows] == ["dear", "cheap", "alone"]
    assert {row.budget for row in whole.rows} == {None}


def test_less_is_better_where_the_metric_says_so():
    errors = [0.5, 0.6, 0.4, 0.5, 0.5]
    worse, sine = [e + 0.1 for e in errors], {"metric": "mse", "dataset": "sine"}
    board = board_of(runs("far", worse, **sine), runs("near", errors, **sine), runs("a", A))
    assert [(row.algorithm, row.rank) for row in board.rows] == [("near", 1), ("far", 2), ("a", 1)]
    assert board.rows[1].behind == pytest.approx(0.1)
    assert (board.metric, board.direction) == ("test_mse, test_accuracy", "minimize, maximize")
    shown = render(board, "md")
    assert "| test mse |" in shown
    assert "| test accuracy % |" in shown


def test_below_the_tables_of_several_models_stands_which_model_suits():
    """The best mean of each, best first: a's 91.0 and b's 90.4, with Student's halves; not where costs are equal."""
    board = board_of(
        runs("a", A), runs("b", C), runs("a", C, model="mlp"), runs("b", B, model="mlp"),
        runs("a", A, heterogeneity="labels(2)"),
    )  # fmt: skip
    half_a, half_b = (100 * stats.t.ppf(0.975, 4) * stats.sem(scores) for scores in (A, B))
    said = (
        f"By model, its best method: logreg 91.0 ± {half_a:.1f} (a), mlp 90.4 ± {half_b:.1f} (b)."
    )
    assert [said in made.said for made in board_tables(board)] == [False, True, False]
    assert render(board, "md").count("By model") == 1
    assert "By model" not in render(replace(board, at="bytes"), "md")
