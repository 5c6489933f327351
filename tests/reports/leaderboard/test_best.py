"""Comparisons with the best: against hand-made numbers, and on drawn boards whose truth is known."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import calibration
from reports.leaderboard.best import Behind, behind_best
from reports.leaderboard.replication import Draw
from tests.support.boards import A, B, C, by_seed


def seeds(scores: list[float]):
    return by_seed(dict(enumerate(scores, 1)))


def test_of_two_methods_it_is_the_paired_t_interval():
    found = behind_best({"a": seeds(A), "b": seeds(B)})
    expected = stats.ttest_rel(A, B).confidence_interval(0.95)
    assert found["b"].high == pytest.approx(expected.high, rel=1e-9)
    assert found["a"].high == pytest.approx(max(0.0, -expected.low), rel=1e-9)
    assert (found["a"].low, found["b"].low) == (0.0, 0.0)
    assert (found["a"].beaten_by, found["b"].beaten_by) == ((), ())


def test_of_three_by_hand():
    """Pairs: variances of A-B, A-C, B-C; the pooled one where it is larger; t with (3-1)(5-1) freedoms."""
    table = {"a": A, "b": B, "c": C}
    gaps = {
        (x, y): np.subtract(table[x], table[y]) for x, y in (("a", "b"), ("a", "c"), ("b", "c"))
    }
    pooled = np.mean([gap.var(ddof=1) for gap in gaps.values()])
    factor = stats.t.ppf(1 - 0.05 / 4, 8)
    width = {pair: factor * (max(gap.var(ddof=1), pooled) / 5) ** 0.5 for pair, gap in gaps.items()}
    found = behind_best({name: seeds(scores) for name, scores in table.items()})
    low = min(gaps[pair].mean() - width[pair] for pair in (("a", "c"), ("b", "c")))
    high = max(gaps[pair].mean() + width[pair] for pair in (("a", "c"), ("b", "c")))
    assert found["c"].beaten_by == ("a", "b")
    assert (found["c"].low, found["c"].high) == pytest.approx((low, high))
    assert found["b"].high == pytest.approx(gaps["a", "b"].mean() + width["a", "b"])
    assert found["a"].high == pytest.approx(width["a", "b"] - gaps["a", "b"].mean())


def test_less_is_better_is_the_mirror_image():
    scenario = {name: seeds(scores) for name, scores in (("a", A), ("b", B), ("c", C))}
    mirrored = {name: {draw: -score for draw, score in of.items()} for name, of in scenario.items()}
    assert behind_best(scenario, 1, 0.05) == behind_best(mirrored, -1, 0.05)


def test_a_method_that_fails_now_and_then_widens_the_others_intervals():
    steady = {"a": seeds(A), "b": seeds([s - 0.02 for s in A[:4]] + [A[4] - 0.021])}
    assert behind_best(steady)["b"].beaten_by == ("a",)
    failing = {**steady, "c": seeds([0.91, 0.2, 0.9, 0.93, 0.89])}
    assert behind_best(failing)["b"].beaten_by == ()


def test_nothing_is_said_where_nothing_varies():
    shifted = seeds([round(score - 0.1, 12) for score in A])
    assert behind_best({"a": seeds(A), "b": shifted}) == {}, "rounding is no certainty"
    assert behind_best({"a": seeds(A), "b": seeds(A)}) == dict.fromkeys("ab", Behind(0.0, 0.0))
    assert behind_best({"a": seeds(A[:1]), "b": seeds(B[:1])}) == {}
    assert behind_best({"a": seeds(A)}) == {}


def test_a_reference_beats_nobody_and_may_be_ahead():
    scenario = {"b": seeds(B), "c": seeds(C)}
    found = behind_best(scenario, references={"a": seeds([s + 0.2 for s in A])})
    assert {name: found[name] for name in scenario} == behind_best(scenario)
    assert found["a"].high < 0
    assert found["a"].beaten_by == ()


scores = st.floats(0, 1).map(lambda x: round(x, 3))


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(scores, min_size=n, max_size=n), min_size=2, max_size=6)
    ),
    st.floats(0.001, 0.5),
)
def test_marks_intervals_and_ties_never_contradict_each_other(table, margin):
    scenario = {
        f"m{i}": {Draw(0, unit, 0, 1): score for unit, score in enumerate(of)}
        for i, of in enumerate(table)
    }
    found = behind_best(scenario, margin=margin)
    candidates = [name for name, of in found.items() if not of.beaten_by]
    assert bool(candidates) == bool(found)
    for of in found.values():
        assert 0 <= of.low <= of.high + 1e-12
        assert of.low == 0 or of.beaten_by, "an interval without 0 is of one that is out"
        assert not (of.tie and of.beaten_by), "a row is in one list only"
        assert not of.tie or of.high <= margin


@pytest.mark.parametrize("draw", calibration.SITUATIONS, ids=lambda of: of.__name__)
def test_a_word_is_false_on_at_most_one_of_twenty_boards(draw):
    """400 boards of seven methods and eight units: more than 35 in 400 false has a chance below 0.1 % at 5 %."""
    found = calibration.rates(draw, 7, 8, 400)
    assert found["failing as here"] <= 100 * 35 / 400
    assert found["of configurations"] <= 100 * 35 / 400
    if draw is not calibration.one_rival_fails:  # which none of eight searches shows now and then
        assert found["best out"] <= 100 * 35 / 400


@pytest.mark.parametrize("draw", calibration.SITUATIONS, ids=lambda of: of.__name__)
@pytest.mark.parametrize("units", [3, 5])
def test_many_boards_at_once_are_said_as_each_is(draw, units):
    scores = (
        draw(np.random.default_rng(units), (6, 5, units)).scores
        - 0.03 * np.arange(5)[:, None, None]
    )
    at_once = calibration.said(scores, 0.05)
    for i, alone in enumerate(scores):
        for many, one in zip(at_once, calibration.one_by_one(alone, 0.05), strict=True):
            np.testing.assert_allclose(many[i], one, atol=1e-9)
    assert 0 < at_once.out.sum() < at_once.out.size or draw is calibration.spreads_differ


def test_boards_that_share_too_few_runs_are_said_one_by_one():
    scores = calibration.normal(np.random.default_rng(0), (3, 4, 3)).scores
    scores[0, 0, 0] = np.nan  # two units are left: the sample is of seeds
    scores[1] = 0.5
    at_once = calibration.said(scores)
    for i, alone in enumerate(scores):
        for many, one in zip(at_once, calibration.one_by_one(alone), strict=True):
            np.testing.assert_allclose(many[i], one, atol=1e-9)


@pytest.mark.parametrize("best", [0, 6])
def test_methods_whose_spreads_differ_by_a_factor_of_eleven_are_told_apart_no_more_often(best):
    """Spreads as on digits, five tunings; the best has the narrowest or the widest."""
    rng, boards, out = np.random.default_rng(5), 400, 0
    spread = np.geomspace(0.009, 0.1, 7)
    for _ in range(boards):
        table = rng.normal(size=(7, 5)) * spread[:, None] + rng.normal(0, 0.02, 5)
        scenario = {str(i): by_seed(dict(enumerate(row))) for i, row in enumerate(table.tolist())}
        out += bool(behind_best(scenario)[str(best)].beaten_by)
    assert out / boards < 0.05 + 3 * 0.0109


def test_five_points_are_seen():
    assert calibration.power(7, 8, 400)["power"] >= 80


def test_the_page_has_the_figures_of_its_document():
    docs = Path(__file__).parents[3] / "docs"
    found = json.loads((docs / "results" / "calibration.json").read_text())
    page = (docs / "statistics.md").read_text()
    assert calibration.between(page, calibration.tables(found)) == page
    assert max(of["failing as here"] for of in found["false"]) <= 5
    assert max(of["false by family"] for of in found["friedman"]) <= 5
