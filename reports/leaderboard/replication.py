"""What a mean of final runs is a mean over: the model of a score, and the intervals that follow. No torch.

The score of a method in a scenario is the sum of its expectation and of four deviations,

    score = method + split + partition + tuning + seed,

each drawn anew for each level of its factor within the one before. The sample is the levels of the outermost factor
that has at least `RANDOM` of them: their means are independent draws that have all deviations within them too, so
Student's t over them covers at its rate whatever the four variances are. Factors outside it have one or two levels,
about which nothing can be estimated: they are fixed, their levels are strata, and an interval is about these levels.
Differences of two methods are taken run by run, since under one draw both meet the same data, clients and batches.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import fsum
from statistics import fmean
from typing import NamedTuple

from reports.leaderboard.statistics import DIGITS, LEVEL, quantile

RANDOM = 3
"""The fewest levels of a factor that an interval covers."""
Interval = tuple[float | None, float | None]


class Draw(NamedTuple):
    """The levels of the four factors that a final run was drawn at."""

    split: int
    partition: int
    tuning: int
    seed: int


Scores = Mapping[Draw, float]
"""Final runs of one method in one scenario."""


@dataclass(frozen=True)
class Mean:
    """A mean, its standard error with its degrees of freedom (None: nothing to estimate it from, or no
    spread at all, which is rounding and not certainty), and the factor that the sample is of.
    """

    mean: float
    error: float | None
    freedom: float
    over: str

    def half(self) -> float | None:
        """Return half of Student's interval: t_{freedom, 0.975} error."""
        return None if self.error is None else quantile((1 + LEVEL) / 2, self.freedom) * self.error

    def interval(self) -> Interval:
        """Return Student's interval: mean -+ half."""
        return around(self.mean, self.half())


def around(mean: float, half: float | None) -> Interval:
    """Return the interval around a mean; None where its half width is None."""
    return (None, None) if half is None else (mean - half, mean + half)


def intervals(scenario: Mapping[str, Mean]) -> dict[str, Interval]:
    """Return the intervals of a scenario's methods, each by its own error. Over tunings, partitions or splits none is
    narrower than by the pooled error of all methods (root mean square, summed freedoms).

    Tunings fail now and then, and a sample without a failure looks more certain than it is; the others of the
    scenario show what a failure costs. (Of differences the paired error is enough: docs/leaderboards.md.)
    """
    squares, freedom = list[float](), 0.0
    for mean in scenario.values():
        if mean.error is not None and mean.over != "seed":
            squares.append(mean.error**2)
            freedom += mean.freedom
    pooled = Mean(0.0, fmean(squares) ** 0.5, freedom, "tuning").half() if squares else None
    ends = {}
    for name, mean in scenario.items():
        half = mean.half()
        if pooled is not None and mean.over != "seed":
            half = max(half or 0.0, pooled)
        ends[name] = around(mean.mean, half)
    return ends


@dataclass(frozen=True)
class Gap:
    """A mean over the sampled factor, taken apart: error^2 = squares / freedom * weight.

    With n_h levels in stratum h of H and means m_hi of each: mean = 1/H sum_h mean_i m_hi, squares =
    sum (m_hi - mean_i m_hi)^2, freedom = sum_h (n_h - 1), weight = sum_h 1/n_h / H^2 (0: no runs).
    """

    mean: float
    squares: float
    freedom: int
    weight: float
    over: str

    @property
    def variance(self) -> float:
        """Return the variance of the levels' means within strata; 0 where nothing tells."""
        return self.squares / self.freedom if self.freedom else 0.0


def taken_apart(scores: Scores) -> Gap:
    """Return the parts of a mean and its error."""
    over = sampled(scores)
    means, squares, shares, freedom = list[float](), list[float](), list[float](), 0
    for levels in _strata(scores, over).values():
        mean = fmean(levels)
        means.append(mean)
        squares += [(level - mean) ** 2 for level in levels]
        shares.append(1 / len(levels))
        freedom += len(levels) - 1
    if not means:
        return Gap(0.0, 0.0, 0, 0.0, over)
    return Gap(fmean(means), fsum(squares), freedom, fsum(shares) / len(means) ** 2, over)


def mean_of(scores: Scores) -> Mean:
    """Return the mean of final runs and its error over the sampled factor (`Gap` has the formulas)."""
    parts = taken_apart(scores)
    error = None
    # Squares that small are rounding: equal scores are no proof of certainty.
    if parts.freedom and parts.squares**0.5 >= 10**-DIGITS:
        error = (parts.variance * parts.weight) ** 0.5
    return Mean(parts.mean, error, parts.freedom, parts.over)


def sampled(scores: Scores) -> str:
    """Return the factor that the sample is of: the outermost with enough levels; the run's seed where there is none."""
    for factor, levels in zip(Draw._fields[:-1], zip(*scores, strict=True), strict=False):
        if len(set(levels)) >= RANDOM:
            return factor
    return "seed"


def units(scores: Scores) -> int:
    """Return the number of levels of the sampled factor."""
    return sum(map(len, _strata(scores, sampled(scores)).values()))


def _strata(scores: Scores, over: str) -> dict[tuple[int, ...], list[float]]:
    """Return the means of the sampled factor's levels, by the levels of the factors outside it."""
    place = Draw._fields.index(over)
    groups: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for draw, score in scores.items():
        groups[draw[: place + 1]].append(score)
    strata: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for key in sorted(groups):
        strata[key[:-1]].append(fmean(groups[key]))
    return strata


def spreads(scores: Scores) -> dict[str, float]:
    """Return the standard deviation by each factor that has several levels: analysis of variance, nested.

    From the inside out, v_f is the variance of the means of factor f's levels within the levels outside
    it, and n the levels inside (their harmonic mean): var_seed = v_seed, var_f = max(0, v_f - v_inner / n).
    """
    deviations: dict[str, float] = {}
    means: dict[tuple[int, ...], float] = dict(scores.items())
    inner = 0.0
    for place in reversed(range(len(Draw._fields))):
        groups: dict[tuple[int, ...], list[float]] = defaultdict(list)
        for key, value in means.items():
            groups[key[:place]].append(value)
        outer, squares, shares = {}, list[float](), list[float]()
        for key, values in groups.items():
            outer[key] = fmean(values)
            squares += [(value - outer[key]) ** 2 for value in values]
            shares.append(1 / len(values))
        spread, freedom = inner, len(means) - len(groups)
        if freedom:
            spread = fsum(squares) / freedom
            deviations[Draw._fields[place]] = max(0.0, spread - inner) ** 0.5
        inner, means = spread * fmean(shares), outer
    return deviations


@dataclass(frozen=True)
class Difference:
    """The lead of `first` over `second` in one scenario, over the runs they have in common.

    `low` and `high` hold together with those of all pairs of the scenario (`Errors`); None where there is nothing to
    estimate an error from. `tie`: the interval holds 0, so no difference is shown.
    """

    first: str
    second: str
    mean: float | None
    low: float | None
    high: float | None
    seeds: int
    tie: bool | None
    over: str = "seed"


@dataclass(frozen=True)
class Errors:
    """The errors of all pairs of a scenario of k methods, by which all of its differences are judged together.

    `pooled` is the variance over all pairs, with its degrees of `freedom`; `parts` has each method's part s^2 in the variances
    of its pairs. The variance of a pair is the larger of `pooled` and s_i^2 + s_j^2. Pooling keeps a pair whose few
    searches hold no failure from looking certain, since the others of the scenario show what a failure costs; a
    method's own part keeps one that is noisier than the others from looking as steady as they are.
    """

    pooled: float
    freedom: float
    parts: Mapping[str, float]
    pairs: int

    def half(self, first: str, second: str, gap: Gap) -> float | None:
        """Return the half width of a pair's interval; those of all pairs hold together with `LEVEL` (Bonferroni). None
        below `RANDOM` units.

        What a pair's variance has above the pool was seen on its own units alone. Errors of the two parts may be the same
        ones, so their standard deviations are added: v / sqrt(f) = pooled / sqrt(f_pooled) + excess / sqrt(f_pair).
        """
        if gap.freedom < RANDOM - 1:
            return None
        variance = max(self.pooled, self.parts[first] + self.parts[second])
        spread = self.pooled / self.freedom**0.5 + (variance - self.pooled) / gap.freedom**0.5
        tail = (1 - LEVEL) / (2 * self.pairs)
        return quantile(1 - tail, (variance / spread) ** 2) * (variance * gap.weight) ** 0.5


def errors_of(gaps: Mapping[tuple[str, str], Gap]) -> Errors | None:
    """Return the errors of a scenario's pairs; None where nothing varies by more than rounding.

    The pool has Satterthwaite's degrees of freedom over the pairs, times 2 / k, since a method's deviations are in
    k - 1 of them. With S_i the sum of method i's pairs' variances, s_i^2 = (S_i - T) / (k - 2),
    T = sum_i S_i / (2 (k - 1)): what Grubbs (1948) estimates.
    """
    freedoms, sums_of_squares, fourths = list[int](), list[float](), list[float]()
    variances: dict[str, list[float]] = {name: [] for name in sorted(set().union(*gaps))}
    for pair, gap in gaps.items():
        if gap.freedom:
            freedoms.append(gap.freedom)
            sums_of_squares.append(gap.squares)
            fourths.append(gap.squares**2 / gap.freedom)
            for name in pair:
                variances[name].append(gap.variance)
    squares, k = fsum(sums_of_squares), len(variances)
    if not squares or (squares / sum(freedoms)) ** 0.5 < 10**-DIGITS:
        return None
    share = 2 / k
    freedom = min(max(share * squares**2 / fsum(fourths), min(freedoms)), share * sum(freedoms))
    parts = dict.fromkeys(variances, 0.0)
    if k > 2:
        # Pairs without a common run are taken to vary as the method's others do.
        sums = {name: fmean(values or [0.0]) * (k - 1) for name, values in variances.items()}
        total = fsum(sums.values()) / (2 * (k - 1))
        parts = {name: max(0.0, (s - total) / (k - 2)) for name, s in sums.items()}
    return Errors(squares / sum(freedoms), freedom, parts, len(gaps))


def differences(scenario: Mapping[str, Scores], sign: int = 1) -> tuple[Difference, ...]:
    """Return all pairs of one scenario, `scenario[algorithm][draw]`, in the order of the algorithms; `sign` is -1 where
    less is better.
    """
    gaps: dict[tuple[str, str], Gap] = {}
    runs: dict[tuple[str, str], int] = {}
    for first, second in combinations(scenario, 2):
        mine, theirs = scenario[first], scenario[second]
        common = sorted(mine.keys() & theirs.keys())
        runs[first, second] = len(common)
        # Rounded, so that scores that are equal on paper differ by 0.
        ahead = {draw: round(sign * (mine[draw] - theirs[draw]), DIGITS) for draw in common}
        gaps[first, second] = taken_apart(ahead)
    errors, pairs = errors_of(gaps), []
    for (first, second), gap in gaps.items():
        n = runs[first, second]
        half = None if errors is None else errors.half(first, second, gap)
        low, high = around(gap.mean, half)
        tie = True if gap.mean == 0 and n > 1 else None
        if low is not None and high is not None:
            tie = low <= 0 <= high
        mean = gap.mean if n else None
        pairs.append(Difference(first, second, mean, low, high, n, tie, gap.over))
    return tuple(pairs)


@dataclass(frozen=True)
class Behind:
    """The distance of a method behind the best of its scenario, whichever that is: between `low` and `high`.

    `beaten_by` are the rivals that are shown to be ahead; where there are any, the method is shown not to be the
    best. `tie`: whether it may be the best, and is shown to be within the study's margin of it.
    """

    low: float
    high: float
    beaten_by: tuple[str, ...] = ()
    tie: bool = False


def behind_best(
    methods: Collection[str], differences: Iterable[Difference], margin: float | None = None
) -> dict[str, Behind]:
    """Return what the differences of a scenario show of each method. Empty where no error can be estimated, unless all runs
    are equal.
    """
    # By how much a rival is ahead, at least and at most.
    ahead: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in methods}
    equal = []
    for pair in differences:
        equal.append(pair.mean == 0 and pair.tie is True)
        if pair.low is not None and pair.high is not None:
            ahead[pair.second][pair.first] = pair.low, pair.high
            ahead[pair.first][pair.second] = -pair.high, -pair.low
    if not any(ahead.values()):
        return dict.fromkeys(methods, Behind(0.0, 0.0)) if equal and all(equal) else {}
    beaten = {}
    for name, ends in ahead.items():
        beaten[name] = tuple(rival for rival in methods if ends.get(rival, (0.0, 0.0))[0] > 0)
    shown = {}
    for name, ends in ahead.items():
        low = high = 0.0
        for rival, (least, most) in ends.items():
            low = max(low, least)
            if not beaten[rival]:  # who is shown not to be the best sets no upper end
                high = max(high, most)
        tie = margin is not None and bool(ends) and not beaten[name] and high <= margin
        shown[name] = Behind(low, max(low, high), beaten[name], tie)
    return shown
