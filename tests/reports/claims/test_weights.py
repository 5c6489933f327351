"""The joint statistic of a table's numbers, by hand in plain NumPy."""

import numpy as np
import pytest
from scipy.stats import f

from reports.claims.weights import (
    SHARED,
    FittedRow,
    correlation,
    left_by_chance,
    moments,
    recall,
    weigh,
)

RNG = np.random.default_rng(0)
EQUAL = np.zeros(2, np.int64)
ONE = np.arange(1)[:, None]


def row(printed, values, tolerance=(1.0, 1.0), bounds=EQUAL):
    """Two numbers under some readings: values (readings, seeds, 2)."""
    return FittedRow.of(np.array(printed), np.array(bounds), np.array(tolerance), np.array(values))


def test_the_statistic_of_one_reading():
    """Means 90 and 50, each with variance 1 over three seeds, so s^2 = 1; v = 1 + 1/3 + 1/3 = 5/3. The deviations 2 and 1
    give Q = 4 / (5/3) + 1 / (5/3) = 3. Noise is 0.8 of v and wholly correlated, so c = 0.8 and the two are worth
    4 / (2 + 2 * 0.64) numbers.
    """
    values = [[[89.0, 49.0], [90.0, 50.0], [91.0, 51.0]]]
    found = weigh([row([92.0, 51.0], values)], ONE)
    assert found.p == pytest.approx(f.sf(3 / 2, 4 / 3.28, 2 + SHARED))
    assert found.weight == pytest.approx([1.0])
    independent = [[[89.0, 50.0], [90.0, 49.0], [91.0, 50.0], [90.0, 51.0]]]
    assert correlation(np.array(independent)) == pytest.approx(np.eye(2))
    several = weigh([row([92.0, 51.0], independent)], ONE, paper_runs=4)
    v = 2 / 3 * (1 / 4 + 1 / 4) + 1 / 3
    assert several.p == pytest.approx(f.sf((4 / v + 1 / v) / 2, 2, 3 + SHARED))


def test_weights_are_likelihoods():
    """Two readings of equal variances: the ratio is exp(-(Q1 - Q2) / 2 * b / J), here with one number a row and two rows."""
    values = np.array([[[89.0], [90.0], [91.0]], [[90.0], [91.0], [92.0]]])
    one = FittedRow.of(np.array([90.0]), np.zeros(1, np.int64), np.ones(1), values)
    other = FittedRow.of(np.array([93.0]), np.zeros(1, np.int64), np.ones(1), values)
    taken = np.array([[0, 0], [1, 1], [0, 1]])
    found = weigh([one, other], taken)
    v = 5 / 3
    q = np.array([0 + 9, 1 + 4, 0 + 4]) / v
    assert found.weight == pytest.approx(np.exp(-q / 2) / np.exp(-q / 2).sum())
    assert found.p == pytest.approx(f.sf(q / 2, 2, 2 + SHARED))


def test_variances_are_drawn_to_their_mean():
    """Variances 0 and 2 of three seeds: (2 * 0 + 4 * 1) / 6 and (2 * 2 + 4 * 1) / 6."""
    values = np.array([[[1.0], [1.0], [1.0]], [[1.0 - 2**0.5], [1.0], [1.0 + 2**0.5]]])
    means, variances, runs = moments(values)
    assert (means.tolist(), runs.tolist()) == ([[1.0], [1.0]], [3.0, 3.0])
    assert variances == pytest.approx(np.array([[4 / 6], [8 / 6]]))


def test_a_bound_that_is_kept_is_no_deviation_and_what_was_not_run_is_not_left():
    values = [[[89.0, 49.0], [91.0, 51.0]], [[np.nan, np.nan]] * 2]
    found = weigh([row([50.0, 60.0], values, bounds=[1, -1])], np.arange(2)[:, None])
    assert found.p.tolist() == [1.0, 0.0]
    assert found.weight.tolist() == [1.0, 0.0]
    nothing = weigh([row([50.0, 60.0], values[1:])], ONE)
    assert (nothing.p.tolist(), nothing.weight.tolist()) == ([0.0], [0.0])


def test_the_true_reading_is_refuted_in_at_most_5_percent():
    """The parametric bootstrap of six correlated normal numbers, with three seeds: the reference is no bolder than that, and
    not idle either.
    """
    cover = 0.6 + 0.4 * np.eye(6)
    low = np.linalg.cholesky(cover)
    readings = 40
    below = []
    for _ in range(300):
        draws = RNG.normal(size=(readings, 4, 6)) @ low.T
        print_ = draws[0, 3]
        fits = FittedRow.of(print_, np.zeros(6, np.int64), np.full(6, 1e-6), draws[:, :3])
        below.append(weigh([fits], ONE).p[0] < 0.05)
    assert 0 < np.mean(below) <= 0.05


def test_rates_of_a_page():
    """Numbers with no noise: those that are shifted far leave no reading, all of a reading's own seeds leave it."""
    values = np.full((1, 4, 2), 90.0)
    printed = row([90.0, 90.0], values)
    assert 0.2 < left_by_chance([printed], ONE, 1) < 0.9
    assert recall([values], [printed], ONE) == 1.0
    assert recall([values[:, :2]], [row([90.0, 90.0], values[:, :2])], ONE) is None, "two seeds"


def test_one_seed_borrows_the_largest_known_variance():
    values = np.array([[[89.0], [90.0], [91.0]], [[np.nan]] * 3])
    fits = FittedRow.of(np.array([90.0]), np.zeros(1, np.int64), np.ones(1), values)
    found = fits.after_one_seed(np.array([[90.0], [200.0]]))
    assert found.freedom.tolist() == [SHARED, SHARED]
    p = weigh([found], np.arange(2)[:, None]).p
    assert p[0] == 1.0
    assert p[1] == pytest.approx(f.sf(110**2 / (2 + 1 / 3), 1, SHARED))
