"""Statistics of leaderboards: Student's intervals, and tests of ranks over families of data sets (Demsar, JMLR 7, 2006).

`reports.leaderboard.replication` defines the sample within a scenario. Across scenarios each family of data sets is one
observation, because levels, models and variants of one data set are not independent. In each scenario the methods
are ranked, and an observation is their average ranks over the family's scenarios. So no scenario counts more
because its scores spread more. The tests are Friedman's, and Wilcoxon's signed-rank test of each pair with Holm's correction.
With fewer than `ENOUGH` families ranks are shown, but nothing is tested. Distributions are SciPy's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trials.common.lazy import Lazy

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")
special, stats = Lazy("scipy.special"), Lazy("scipy.stats")

LEVEL = 0.95
"""The confidence level of every interval; 1 - LEVEL is the significance level of every test."""
DIGITS = 12
"""Decimals to which scores are compared; a smaller difference is rounding and counts as a tie."""
ENOUGH = 8
"""The fewest families of data sets over which methods are tested."""
BOOTSTRAP = 1000
"""The number of bootstrap samples behind an interval of average ranks."""
CANNOT = "cannot reject at this n"
DIFFERS = "differs"
SAME = "not shown to differ"


@dataclass(frozen=True)
class PairTest:
    """Wilcoxon's test of two algorithms over families of data sets; `rank_difference` is the second's average rank minus the first's.
    `wilcoxon` is the p-value, `holm` the corrected one. `smallest` is the p-value if all families preferred one algorithm.
    The verdict is "cannot reject at this n" if `smallest` is above the corrected level `threshold`, or there are too few families.
    """

    first: str
    second: str
    rank_difference: float
    wilcoxon: float
    holm: float
    smallest: float
    threshold: float
    verdict: str


@dataclass(frozen=True)
class Across:
    """A comparison over families of data sets: the `algorithms`, best first, with their average `ranks` and the ends
    `rank_low` and `rank_high` of bootstrap intervals (empty for a single family).

    `friedman` is the p-value of Friedman's statistic `chi2`. `iman_davenport` is the p-value of `f`, a less
    conservative correction of `chi2`. All four are None for fewer than 3 algorithms or 8 families of data sets.
    """

    algorithms: tuple[str, ...]
    ranks: tuple[float, ...]
    families: tuple[str, ...]
    scenarios: tuple[str, ...]
    left_out_algorithms: tuple[str, ...]
    left_out_families: tuple[str, ...]
    chi2: float | None
    friedman: float | None
    f: float | None
    iman_davenport: float | None
    friedman_verdict: str
    pairs: tuple[PairTest, ...]
    rank_low: tuple[float, ...] = ()
    rank_high: tuple[float, ...] = ()


def interval(values: Sequence[float], level: float = LEVEL) -> tuple[float | None, float | None]:
    """Return the ends of Student's interval of the mean: m -+ t_{n-1, (1+level)/2} s / sqrt(n). Return (None, None) for fewer than 2 values."""
    if len(values) < 2:
        return None, None
    n, mean = len(values), fmean(values)
    variance = fsum((value - mean) ** 2 for value in values) / (n - 1)  # the same in any order
    half = quantile((1 + level) / 2, n - 1) * (variance / n) ** 0.5
    return float(mean - half), float(mean + half)


def half_width(spread: float, n: int) -> float:
    """Return half the width of Student's 95 % interval of a mean: t_{n-1, 0.975} spread / sqrt(n). `spread` is the standard deviation."""
    return quantile((1 + LEVEL) / 2, n - 1) * spread / n**0.5


def quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution at `probability`, with `freedom` degrees of freedom."""
    return float(special.stdtrit(freedom, probability))


def corrected(pairs: int) -> float:
    """Return the confidence level of each of `pairs` intervals that hold jointly with 95 % confidence (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(1, pairs)


def across(families: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> Across | None:
    """Compare algorithms over families of data sets. `families[family][scenario][algorithm]` has one score per tuning; larger
    scores are better. Algorithms and families with missing scores are left out. Return None if fewer than two algorithms or
    no family remain.

    A pair of algorithm and family is missing if a scenario of the family has no score of the algorithm. The algorithm or
    family with the largest share of missing pairs is left out first. This is repeated until no pair is missing.
    """
    complete: dict[str, set[str]] = {}
    everybody: set[str] = set()
    for family, scenarios in families.items():
        complete[family] = set.intersection(*map(set, scenarios.values()))
        everybody.update(*scenarios.values())
    rows, names = _complete(complete)
    if len(names) < 2 or not rows:
        return None
    means, ranked = [], list[str]()
    for row in rows:
        scores = []
        for scenario, tunings in families[row].items():
            scores.append([fmean(tunings[name]) for name in names])
            ranked.append(scenario)
        means.append(_ranks(np.array(scores)).mean(0))
    # In the tests more is better, so ranks change their sign.
    table = -np.array(means).round(DIGITS)
    ranks = _ranks(table).mean(0)
    order = sorted(range(len(names)), key=lambda i: (ranks[i], names[i]))
    names, table, ranks = [names[i] for i in order], table[:, order], ranks[order]
    low, high = _bootstrap([list(families[row].values()) for row in rows], names)
    return Across(
        tuple(names),
        tuple(map(float, ranks)),
        tuple(rows),
        tuple(ranked),
        tuple(sorted(everybody - set(names))),
        tuple(family for family in families if family not in rows),
        *friedman_test(table),
        pairs=_pairs(names, table, ranks),
        rank_low=low,
        rank_high=high,
    )


def _ranks(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return each algorithm's rank within each row of scores (rows, algorithms). The highest score has rank 1; ties share their average."""
    ranks: npt.NDArray[Any] = stats.rankdata(-scores.round(DIGITS), "average", axis=-1)
    return ranks


def _bootstrap(
    rows: Sequence[Sequence[Mapping[str, Sequence[float]]]], names: Sequence[str]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the lower and upper ends of bootstrap intervals of the average ranks. Both are empty for fewer than 2 families of
    data sets (`rows`). A bootstrap sample draws families with replacement. Within each scenario, it also draws each method's
    scores with replacement. The seed is fixed.
    """
    if len(rows) < 2:
        return (), ()
    rng = np.random.default_rng(0)
    drawn = []  # ranks (BOOTSTRAP, algorithms) of each family
    for scenarios in rows:
        rank = np.zeros((BOOTSTRAP, len(names)))
        for scores in scenarios:
            score = np.empty((BOOTSTRAP, len(names)))
            for i, name in enumerate(names):
                values = np.asarray(scores[name])
                chosen = rng.integers(len(values), size=(BOOTSTRAP, len(values)))
                score[:, i] = values[chosen].mean(1)
            rank += _ranks(score) / len(scenarios)
        drawn.append(_ranks(-rank))
    chosen = rng.integers(len(rows), size=(BOOTSTRAP, len(rows)))
    means = np.array(drawn)[chosen, np.arange(BOOTSTRAP)[:, None]].mean(1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0, method="linear")
    return tuple(map(float, low)), tuple(map(float, high))


def holm(p: Sequence[float]) -> list[float]:
    """Return the p-values, in the same order, adjusted for multiple tests by Holm's step-down rule."""
    adjusted, highest = [0.0] * len(p), 0.0
    for step, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        highest = max(highest, min(1.0, (len(p) - step) * p[i]))
        adjusted[i] = highest
    return adjusted


def wilcoxon(gaps: npt.NDArray[Any]) -> float:
    """Return the exact two-sided p-value of Wilcoxon's signed-rank test for paired differences. Differences of 0 are left
    out. If all are 0, the p-value is 1.

    With ties SciPy would try all signs, which takes a second for 12 rows. Instead, each rank r is in the sum of positive ranks
    with probability 1/2, so the coefficients of prod (1 + x^r) / 2 are the sum's distribution. Ranks are doubled to be whole.
    """
    unequal = gaps[gaps != 0]
    ranks = (2 * stats.rankdata(abs(unequal), "average")).astype(int)
    chance = np.ones(1)
    for rank in ranks:
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    smaller = min(ranks[unequal > 0].sum(), ranks[unequal < 0].sum())
    return min(1.0, 2 * float(chance[: smaller + 1].sum()))


def _complete(present: Mapping[str, set[str]]) -> tuple[list[str], list[str]]:
    """Drop rows and algorithms until each row has each algorithm, and return those that remain. `present` has the algorithms of each row."""
    names = sorted(set().union(*present.values()))
    holes = pd.DataFrame({row: ~np.isin(names, [*present[row]]) for row in present}, names)
    while holes.size:
        by_row, by_name = holes.mean(axis=0), holes.mean(axis=1)
        worst = max(by_row.max(), by_name.max())
        if worst == 0:
            break
        if worst in by_row.to_numpy():
            holes = holes.drop(columns=max(by_row.index[by_row == worst]))
        else:
            holes = holes.drop(index=max(by_name.index[by_name == worst]))
    return list(holes.columns), list(holes.index)


def friedman_test(
    table: npt.NDArray[Any],
) -> tuple[float | None, float | None, float | None, float | None, str]:
    """Return Friedman's chi-squared and p-value, Iman and Davenport's F and p-value, and the verdict. `table` has scores
    with a row per family of data sets and a column per algorithm. With fewer than 3 columns or fewer than 8 rows, the
    numbers are None, and the verdict says how many are needed.
    """
    n, k = table.shape
    if k < 3 or n < ENOUGH:
        needs = f"needs 3 algorithms and {ENOUGH} families of data sets; there are {k} and {n}"
        return None, None, None, None, needs
    if (table == table[:, :1]).all():
        return 0.0, 1.0, 0.0, 1.0, SAME
    test = stats.friedmanchisquare(*table.T)
    chi2, most = float(test.statistic), n * (k - 1)
    f = (n - 1) * chi2 / (most - chi2) if chi2 < most * (1 - 1e-12) else np.inf
    p = float(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))
    return chi2, float(test.pvalue), f, p, DIFFERS if test.pvalue <= 1 - LEVEL else SAME


def _pairs(
    names: Sequence[str], table: npt.NDArray[Any], ranks: npt.NDArray[Any]
) -> tuple[PairTest, ...]:
    at, alpha = list(combinations(range(len(names)), 2)), 1 - LEVEL
    p, smallest = list[float](), list[float]()
    for i, j in at:
        gap = (table[:, i] - table[:, j]).round(DIGITS)
        p.append(wilcoxon(gap))
        # The smallest p-value that the test can have with gaps of these sizes.
        smallest.append(wilcoxon(abs(gap)))
    adjusted = holm(p)
    left = len(at) - sum(value <= alpha for value in adjusted)
    tests = []
    for pair, (i, j) in enumerate(at):
        apart = float(ranks[j] - ranks[i])
        differs = adjusted[pair] <= alpha and len(table) >= ENOUGH
        threshold = alpha / max(1, left)  # the level at which Holm's rule stopped rejecting
        cannot = len(table) < ENOUGH or smallest[pair] > threshold
        verdict = DIFFERS if differs else CANNOT if cannot else SAME
        numbers = (apart, p[pair], adjusted[pair], smallest[pair], threshold)
        tests.append(PairTest(names[i], names[j], *numbers, verdict))
    return tuple(tests)
