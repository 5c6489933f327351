"""Comparisons with the best: against hand-made numbers, and on drawn boards whose truth is known."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import calibration
from reports.leaderboard.replication import Behind, behind_best, differences
from tests.support.boards import A, B, C, by_seed


def seeds(scores: list[float]):
    return by_seed(dict(enumerate(scores, 1)))


def shown(scenario, sign: int = 1, margin: float | None = None):
    return behind_best(scenario, differences(scenario, sign), margin)


def test_of_two_methods_it_is_the_paired_t_interval():
    scenario = {"a": seeds(A), "b": seeds(B)}
    expected = stats.ttest_rel(A, B).confidence_interval(0.95)
    behind = shown(scenario)
    assert behind["b"].high == pytest.approx(expected.high, rel=1e-9)
    assert behind["a"].high == pytest.approx(max(0.0, -expected.low), rel=1e-9)
    assert (behind["a"].low, behind["b"].low) == (0.0, 0.0)
    assert (behind["a"].beaten_by, behind["b"].beaten_by) == ((), ())


def test_of_three_by_hand():
    """With variances v of the pairs, the sums of a method's two are S, T = sum S / 4, and its own part S - T. Of three pairs
    the level is 0.05 / 3.
    """
    table = {"a": np.array(A), "b": np.array(B), "c": np.array(C)}
    gap = {pair: table[pair[0]] - table[pair[1]] for pair in ("ab", "ac", "bc")}
    v = {pair: of.var(ddof=1) for pair, of in gap.items()}
    pooled = sum(v.values()) / 3
    freedom = 2 / 3 * sum(v.values()) ** 2 / sum(x**2 / 4 for x in v.values())
    sums = {"a": v["ab"] + v["ac"], "b": v["ab"] + v["bc"], "c": v["ac"] + v["bc"]}
    own = {name: max(0.0, s - sum(sums.values()) / 4) for name, s in sums.items()}
    half = {}
    for pair in gap:
        variance = max(pooled, own[pair[0]] + own[pair[1]])
        spread = pooled / freedom**0.5 + (variance - pooled) / 4**0.5
        factor = stats.t.ppf(1 - 0.05 / 6, (variance / spread) ** 2)
        half[pair] = factor * (variance / 5) ** 0.5
    behind = shown({name: seeds(list(scores)) for name, scores in table.items()})
    assert behind["c"].beaten_by == ("a", "b")
    low = max(gap[pair].mean() - half[pair] for pair in ("ac", "bc"))
    high = max(gap[pair].mean() + half[pair] for pair in ("ac", "bc"))
    assert (behind["c"].low, behind["c"].high) == pytest.approx((low, high))
    assert behind["b"].high == pytest.approx(gap["ab"].mean() + half["ab"])
    assert behind["a"].high == pytest.approx(half["ab"] - gap["ab"].mean())


def test_less_is_better_is_the_mirror_image():
    scenario = {name: seeds(scores) for name, scores in (("a", A), ("b", B), ("c", C))}
    mirrored = {name: {draw: -score for draw, score in of.items()} for name, of in scenario.items()}
    assert shown(scenario, 1, 0.05) == shown(mirrored, -1, 0.05)


def test_a_method_that_fails_now_and_then_widens_the_others_intervals():
    steady = {"a": seeds(A), "b": seeds([s - 0.02 for s in A[:4]] + [A[4] - 0.021])}
    assert shown(steady)["b"].beaten_by == ("a",)
    failing = {**steady, "c": seeds([0.91, 0.2, 0.9, 0.93, 0.89])}
    assert shown(failing)["b"].beaten_by == ()


def test_nothing_is_said_where_nothing_varies_or_of_two_units():
    shifted = seeds([round(score - 0.1, 12) for score in A])
    assert shown({"a": seeds(A), "b": shifted}) == {}, "rounding is no certainty"
    assert shown({"a": seeds(A), "b": seeds(A)}) == dict.fromkeys("ab", Behind(0.0, 0.0))
    assert shown({"a": seeds(A[:1]), "b": seeds(B[:1])}) == {}
    assert shown({"a": seeds([0.9, 0.91]), "b": seeds([0.5, 0.4]), "c": seeds([0.2, 0.1])}) == {}
    assert shown({"a": seeds(A)}) == {}


@pytest.mark.parametrize("draw", calibration.SITUATIONS, ids=lambda of: of.__name__)
def test_a_word_is_false_on_at_most_one_of_twenty_boards(draw):
    """400 boards of seven methods and eight units: more than 35 in 400 false has a chance below 0.1 % at 5 %."""
    found = calibration.rates(draw, 7, 8, 400)
    assert found["failing as here"] <= 100 * 35 / 400
    assert found["of configurations"] <= 100 * 35 / 400


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
    assert not at_once.ahead.all(2).any()


def test_five_points_are_seen():
    assert calibration.power(7, 8, 400)["power"] >= 80


def test_the_page_has_the_figures_of_its_document():
    docs = Path(__file__).parents[3] / "docs"
    found = json.loads((docs / "results" / "calibration.json").read_text())
    page = (docs / "statistics.md").read_text()
    assert calibration.between(page, calibration.tables(found)) == page
    assert max(of["failing as here"] for of in found["false"]) <= 5
    assert (
        max(of["false by family"] for of in found["friedman"]) <= 5 + 2 * found["monte carlo error"]
    )
