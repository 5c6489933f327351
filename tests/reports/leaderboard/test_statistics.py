"""Statistics of leaderboards against SciPy, statsmodels and published examples."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats.multitest import multipletests

import calibration
from reports.leaderboard.statistics import (
    CANNOT,
    DIFFERS,
    LEVEL,
    Across,
    across,
    friedman_test,
    interval,
    wilcoxon,
)

# Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006, Table 6:
# the ranks of four algorithms on 14 data sets, and what the paper computes from them.
DEMSAR = {
    "C4.5": [4, 1, 4, 4, 4, 1, 3, 2.5, 4, 2.5, 4, 3, 4, 3],
    "C4.5+m": [3, 2, 1, 1, 2, 2.5, 2, 2.5, 3, 2.5, 2.5, 2, 1, 1],
    "C4.5+cf": [2, 3, 2, 3, 3, 4, 4, 4, 2, 2.5, 1, 4, 2, 4],
    "C4.5+m+cf": [1, 4, 3, 2, 1, 2.5, 1, 1, 1, 2.5, 2.5, 1, 3, 2],
}
AVERAGE_RANKS = {"C4.5+m+cf": 1.964, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5": 3.143}
CHI2, F = 9.28, 3.69


def table(columns: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """scores[scenario][algorithm] of columns."""
    n = len(next(iter(columns.values())))
    return {f"scenario {i}": {a: float(v[i]) for a, v in columns.items()} for i in range(n)}


def compared(rows: dict[str, dict[str, float]]) -> Across | None:
    """Families of one scenario that was tuned once."""
    return across({row: {row: {a: [v] for a, v in of.items()}} for row, of in rows.items()})


def random_columns(k: int, n: int, seed: int, decimals: int = 6) -> dict[str, list[float]]:
    draw = np.random.default_rng(seed).normal(size=(k, n)).round(decimals)
    return {chr(97 + i): row.tolist() for i, row in enumerate(draw)}


def test_demsars_table():
    found = compared(table({name: [-rank for rank in ranks] for name, ranks in DEMSAR.items()}))
    assert dict(zip(found.algorithms, found.ranks, strict=True)) == pytest.approx(
        AVERAGE_RANKS, abs=5e-4
    )
    assert list(found.algorithms) == list(AVERAGE_RANKS)
    # The paper leaves ties out of account: sum r^2 for k untied ranks is k (k + 1) (2 k + 1) / 6.
    n, k = 14, 4
    ties = sum(r**2 for ranks in DEMSAR.values() for r in ranks) - n * k * (k + 1) ** 2 / 4
    without = n * (k**3 - k) / 12
    assert found.chi2 * ties / without == pytest.approx(CHI2, abs=0.005)
    chi2 = found.chi2 * ties / without
    assert (n - 1) * chi2 / (n * (k - 1) - chi2) == pytest.approx(F, abs=0.005)


@pytest.mark.parametrize(("k", "n", "decimals"), [(3, 8, 6), (4, 12, 0), (7, 9, 1)])
def test_against_scipy_and_statsmodels(k, n, decimals):
    columns = random_columns(k, n, 10 * k + n, decimals)
    found = compared(table(columns))
    expected = stats.friedmanchisquare(*columns.values())
    assert (found.chi2, found.friedman) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.f == pytest.approx((n - 1) * found.chi2 / (n * (k - 1) - found.chi2))
    assert found.iman_davenport == pytest.approx(stats.f.sf(found.f, k - 1, (k - 1) * (n - 1)))
    frame = pd.DataFrame(columns)
    ranks = frame.rank(axis=1, ascending=False).mean()
    for name, rank in zip(found.algorithms, found.ranks, strict=True):
        assert rank == pytest.approx(ranks[name])
    _, adjusted, _, _ = multipletests([p.wilcoxon for p in found.pairs], method="holm")
    assert [p.holm for p in found.pairs] == pytest.approx(adjusted)


@given(arrays(float, st.integers(1, 30), elements=st.floats(-1, 1), unique=True))
def test_wilcoxon_is_scipys_exact_test(gaps):
    gaps = gaps[gaps != 0]
    if len(np.unique(abs(gaps))) < len(gaps) or not len(gaps):
        return
    assert wilcoxon(gaps) == pytest.approx(stats.wilcoxon(gaps, method="exact").pvalue)


def test_wilcoxon_by_hand():
    """Of three unequal scenarios all one way: 2 of 8 sign patterns are as extreme."""
    assert wilcoxon(np.array([0.1, 0.2, 0.3])) == 0.25
    assert wilcoxon(np.array([0.1, 0.1, 0.1, 0.0])) == 0.25
    assert wilcoxon(np.array([0.1, -0.1])) == 1.0
    assert wilcoxon(np.zeros(5)) == 1.0
    found = compared(
        {"x": {"a": 0.9, "b": 0.9, "c": 0.5}, "y": {"a": 0.1 + 0.2, "b": 0.3, "c": 0.3}}
    )
    assert dict(zip(found.algorithms, found.ranks, strict=True)) == {"a": 1.75, "b": 1.75, "c": 2.5}


@pytest.mark.parametrize(("n", "verdict"), [(2, CANNOT), (7, CANNOT), (8, DIFFERS)])
def test_what_no_data_of_this_size_could_show_is_said(n, verdict):
    """Two algorithms that always differ: the least p-value of n scenarios is 2^(1-n), at 0.05."""
    found = compared(table({"a": [i + 1.0 for i in range(n)], "b": [0.0] * n}))
    (pair,) = found.pairs
    assert pair.smallest == pair.wilcoxon == 2.0 ** (1 - n)
    assert pair.threshold == pytest.approx(0.05)
    assert pair.verdict == verdict


def test_nothing_is_tested_over_fewer_than_eight_families():
    """Eight in perfect agreement: chi2 = n (k - 1) is all it can be, with a p of exp(-8) at 2 degrees of freedom."""
    same = {"a": [3.0] * 7, "b": [2.0] * 7, "c": [1.0] * 7}
    few, enough = (compared(table({k: v[:1] * n for k, v in same.items()})) for n in (7, 8))
    assert few.friedman is None
    assert few.friedman_verdict.endswith("8 families of data sets; there are 3 and 7")
    assert {pair.verdict for pair in few.pairs} == {CANNOT}
    assert (enough.chi2, enough.friedman_verdict) == (16.0, DIFFERS)
    assert enough.friedman == pytest.approx(np.exp(-8))
    assert compared(table({"a": [1.0] * 9, "b": [1.0] * 9, "c": [1.0] * 9})).friedman == 1.0


def test_holes_are_left_out_and_named():
    whole = table(random_columns(3, 6, 2))
    part = {**whole, "scenario 3": {"a": 0.5}, "new": {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}}
    found = compared(part)
    assert found.left_out_families == ("scenario 3",)
    assert found.left_out_algorithms == ("d",)
    assert set(found.algorithms) == {"a", "b", "c"}
    assert len(found.families) == 6
    assert compared({"x": {"a": 1.0}}) is None
    assert compared({}) is None


@pytest.mark.parametrize("n", [2, 8])
def test_intervals_cover_at_their_rate_at_the_seeds_used(n):
    """4000 samples of n normal numbers; the standard error of the coverage is 0.0034."""
    draws = np.random.default_rng(n).normal(0.8, 0.05, (4000, n)).tolist()
    inside = [low <= 0.8 <= high for low, high in map(interval, draws)]
    assert abs(np.mean(inside) - LEVEL) < 4 * 0.0034


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_friedman_by_family_errs_seldom_however_alike_a_familys_data_sets_are(correlation):
    """150 boards of equal methods: more than 16 at a rate of 5 % has a chance below 0.5 %. By data sets it is far above."""
    found = calibration.friedman(correlation, 7, 150)
    assert found["false by family"] <= 100 * 16 / 150
    assert correlation == 0 or found["false by data set"] > 30


def test_pairs_of_equal_methods_seldom_differ():
    """Any of six pairs in at most 5 % of 200 boards, and 3.4 Monte Carlo errors of 1.5 %."""
    boards = (compared(table(random_columns(4, 12, seed))) for seed in range(200))
    false = sum(any(pair.verdict == DIFFERS for pair in board.pairs) for board in boards)
    assert 0 < false <= 200 * (0.05 + 3.4 * 0.015)


@pytest.mark.parametrize("tunings", [(1,) * 8, (1, 1, 1, 1, 5, 5, 5, 5)])
def test_families_that_were_tuned_once_make_no_false_difference(tunings):
    """Five equal methods, one search in ten of which fails: Friedman's test errs in at most 5 % of 4,000 boards, and two
    Monte Carlo errors of 0.34 %. (Without ties chi2 = 12 n / (k (k + 1)) sum_j (r_j - (k + 1) / 2)^2.)
    """
    rng, n, k = np.random.default_rng(sum(tunings)), len(tunings), 5
    rows = []
    for count in tunings:
        fails = rng.random((4000, k, count)) < 0.1
        scores = rng.normal(0, 0.03, fails.shape) - 0.3 * fails
        rows.append(stats.rankdata(-scores.mean(-1), axis=1))
    ranks = np.stack(rows, 1)
    chi2 = 12 * n / (k * (k + 1)) * ((ranks.mean(1) - (k + 1) / 2) ** 2).sum(1)
    assert friedman_test(ranks[0])[0] == pytest.approx(chi2[0])
    assert (stats.chi2.sf(chi2, k - 1) <= 1 - LEVEL).mean() <= 0.05 + 2 * 0.0034
