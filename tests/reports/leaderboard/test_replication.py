"""What intervals cover: against hand-made numbers, libraries, and scores drawn with known variances."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.mixed_linear_model import MixedLM

from reports.leaderboard.replication import Difference, Draw, Scores, differences, mean_of, spreads
from reports.leaderboard.statistics import LEVEL
from tests.support.boards import by_seed

TUNING, SHARED, SEED = (0.03, 0.09), 0.02, 0.006
"""Standard deviations: of two methods by tuning, by seed shared between them, by seed of each. As measured
on digits, where tunings of a method move its score three to twelve times as much as seeds.
"""


def drawn(
    rng: np.random.Generator, tunings: int, seeds: int, partitions: int = 1, partition: float = 0.0
):
    """Final runs of two methods that are 0.02 apart: tunings within partitions, seeds within tunings."""
    of_deal = rng.normal(0, partition, (2, partitions)) + rng.normal(0, partition, partitions)
    of_tuning = rng.normal(0, 1, (2, partitions, tunings)) * np.reshape(TUNING, (2, 1, 1))
    shape = (partitions, tunings, seeds)
    of_seed = rng.normal(0, SEED, (2, *shape)) + rng.normal(0, SHARED, shape)
    scores = of_deal[:, :, None, None] + of_tuning[..., None] + of_seed
    scores += np.reshape([0.82, 0.80], (2, 1, 1, 1))
    return [
        {Draw(0, d, t, 1000 * (10 * d + t) + s): float(v) for (d, t, s), v in np.ndenumerate(one)}
        for one in scores
    ]


def pair(a: Scores, b: Scores, sign: int = 1) -> Difference:
    return differences({"a": a, "b": b}, sign)[0]


def covers(rng: np.random.Generator, boards: int, old: bool = False, **design: float) -> float:
    """The share of boards whose interval holds the true difference; `old`: the interval over the
    final seeds of one tuned configuration.
    """
    hits = 0
    for _ in range(boards):
        a, b = drawn(rng, **design)
        if old:
            a, b = ({d: v for d, v in of.items() if d.tuning == 0} for of in (a, b))
        found = pair(a, b)
        assert found.low is not None
        hits += found.low <= 0.02 <= found.high
    return hits / boards


@pytest.mark.parametrize("tunings", [3, 5, 10])
def test_intervals_over_tunings_cover_methods_and_those_over_seeds_do_not(tunings):
    """1000 boards of 5 final seeds a tuning; the standard error of the coverage is 0.0069. Over seeds
    alone the error is sqrt(2) 0.006 / sqrt(5) = 0.0038 where the difference has 0.095: t_4 = 2.78 of
    them hold it in 9 % of boards.
    """
    rng, boards = np.random.default_rng(tunings), 1000
    new = covers(rng, boards, tunings=tunings, seeds=5)
    old = covers(rng, boards, old=True, tunings=tunings, seeds=5)
    assert abs(new - LEVEL) < 3 * 0.0069, f"over {tunings} tunings {new:.3f}, over seeds {old:.3f}"
    assert old == pytest.approx(0.09, abs=0.03)


@pytest.mark.parametrize(("partitions", "tunings"), [(5, 1), (5, 3), (2, 5)])
def test_intervals_over_deals_cover_what_deals_move(partitions, tunings):
    """Two partitions are fixed: an interval is about them, and here they do not move the difference."""
    moves = 0.05 if partitions > 2 else 0.0
    new = covers(
        np.random.default_rng(partitions),
        800,
        partitions=partitions,
        tunings=tunings,
        seeds=2,
        partition=moves,
    )
    assert abs(new - LEVEL) < 3 * 0.0077


def test_the_sample_is_the_outermost_factor_with_three_levels():
    def over(**design: int) -> tuple[str, float]:
        (a, _) = drawn(np.random.default_rng(0), **design)
        found = mean_of(a)
        return found.over, found.freedom

    assert over(tunings=1, seeds=5) == ("seed", 4)
    assert over(tunings=2, seeds=5) == ("seed", 8), "two tunings are strata"
    assert over(tunings=3, seeds=5) == ("tuning", 2)
    assert over(tunings=5, seeds=2, partitions=2) == ("tuning", 8), "two partitions are strata"
    assert over(tunings=5, seeds=2, partitions=3) == ("partition", 2)
    assert over(tunings=1, seeds=2, partitions=4) == ("partition", 3)


def test_a_mean_over_tunings_by_hand():
    """Tuning means 0.5, 0.7, 0.9: mean 0.7, variance 0.04, error 0.2 / sqrt(3)."""
    values = {0: (0.4, 0.6), 1: (0.7, 0.7), 2: (0.8, 1.0)}
    scores = {Draw(0, 0, t, 10 * t + s): v for t, of in values.items() for s, v in enumerate(of)}
    found = mean_of(scores)
    assert (found.mean, found.error) == pytest.approx((0.7, 0.2 / 3**0.5))
    assert found.interval() == pytest.approx(
        (0.7 - 4.302653 * 0.1154701, 0.7 + 4.302653 * 0.1154701), abs=1e-6
    )
    # Seeds: ((0.02 + 0 + 0.02) / 3) = 0.01333; tunings: 0.04 - 0.01333 / 2 = 0.03333.
    assert spreads(scores) == pytest.approx(
        {"seed": 0.0133333**0.5, "tuning": 0.0333333**0.5}, rel=1e-5
    )


def test_spreads_are_those_of_restricted_maximum_likelihood():
    """On balanced data the analysis of variance is REML, as long as no variance is 0."""
    (scores, _) = drawn(np.random.default_rng(3), tunings=8, seeds=4)
    table = pd.DataFrame([{"tuning": d.tuning, "score": v} for d, v in scores.items()])
    fit = MixedLM.from_formula("score ~ 1", table, groups="tuning").fit(reml=True)
    found = spreads(scores)
    assert found["tuning"] ** 2 == pytest.approx(fit.cov_re.iloc[0, 0], rel=1e-3)
    assert found["seed"] ** 2 == pytest.approx(fit.scale, rel=1e-3)


def test_a_pair_is_as_uncertain_as_its_scenario_where_that_is_more():
    """The third of three methods fails once: the first two differ on their own runs, and not beside it."""
    rows = {
        "a": [0.90, 0.91, 0.92, 0.93],
        "b": [0.89, 0.90, 0.91, 0.925],
        "c": [0.9, 0.91, 0.5, 0.93],
    }
    scenario = {name: by_seed(dict(enumerate(of))) for name, of in rows.items()}
    assert [each.tie for each in differences(scenario)] == [True] * 3
    assert pair(scenario["a"], scenario["b"]).tie is False


def test_equal_scores_are_a_tie_and_constant_gaps_tell_nothing():
    a = by_seed({1: 0.3, 2: 0.6})
    assert pair(a, dict(a)).tie is True
    constant = pair(a, {s: v - 0.1 for s, v in a.items()})
    assert (constant.low, constant.high, constant.tie) == (None, None, None), (
        "no spread: no interval"
    )
    assert constant.mean == pytest.approx(0.1)
    assert pair(a, by_seed({1: 0.1 + 0.2, 2: 0.6})).tie is True
    assert pair(a, by_seed({1: 0.2})).tie is None
    assert pair(a, by_seed({9: 0.2})).mean is None


def test_pairs_share_the_draws_that_both_have():
    cell = {"a": {1: 0.9, 2: 0.8, 3: 0.9}, "b": {1: 0.8, 2: 0.8, 3: 0.7}, "c": {2: 0.5, 3: 0.4}}
    cell = {name: by_seed(scores) for name, scores in cell.items()}
    found = {(d.first, d.second): d for d in differences(cell)}
    assert list(found) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert found["a", "c"].seeds == 2
    assert found["a", "c"].low is None, "of two runs nothing is claimed"
