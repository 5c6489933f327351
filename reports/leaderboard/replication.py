"""The statistical model of a method's score in one scenario, and the intervals that follow from it.

A score is the sum of the method's expectation and of four random deviations, of nested factors:

    score = method + split + partition + tuning + seed.

The sample consists of the levels of the outermost factor that has at least `RANDOM` levels. The means of its levels are
independent draws that contain all inner deviations, so Student's t over them has its coverage whatever the variances are.
Factors outside the sampled one have one or two levels, too few to estimate a variance. They are fixed: their levels are
strata, and an interval is about these levels only. Two methods are compared run by run, since under one draw both have the
same data, clients and minibatches.
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
"""The fewest levels of a factor whose variance an interval accounts for."""
Interval = tuple[float | None, float | None]


class Draw(NamedTuple):
    """The indices of a final run's split, partition, tuning and seed."""

    split: int
    partition: int
    tuning: int
    seed: int


Scores = Mapping[Draw, float]
"""The scores of one method's final runs in one scenario."""


@dataclass(frozen=True)
class Mean:
    """A mean score of final runs, and its standard `error` with degrees of `freedom`. `over` is the sampled factor, such as
    "tuning". The error is None if there are too few runs, or if all scores are equal, which is no proof of certainty.
    """

    mean: float
    error: float | None
    freedom: float
    over: str

    def half(self) -> float | None:
        """Return half the width of Student's 95 % interval: `error` times the t quantile for `freedom`. Return None if `error` is None."""
        return None if self.error is None else quantile((1 + LEVEL) / 2, self.freedom) * self.error

    def interval(self) -> Interval:
        """Return the ends of Student's 95 % interval of the mean; (None, None) if `error` is None."""
        return around(self.mean, self.half())


def around(mean: float, half: float | None) -> Interval:
    """Return mean - half and mean + half; (None, None) if half is None."""
    return (None, None) if half is None else (mean - half, mean + half)


def intervals(scenario: Mapping[str, Mean]) -> dict[str, Interval]:
    """Return the 95 % interval of each method's mean score in a scenario. A few searches can agree by luck, so an interval is
    widened if the average of all methods' standard errors would give a wider one.
    """
    # Means over seeds alone do not count in this average, and their intervals are not widened.
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
    """A mean of scores, or of differences between two methods, and its error: error^2 = squares / freedom * weight. A stratum has
    fixed values of all factors outside `over`. Stratum h of H has n_h values of `over`, with means m_hi. Then mean = 1/H
    sum_h mean_i m_hi, squares = sum_hi (m_hi - mean_i m_hi)^2, freedom = sum_h (n_h - 1), weight = sum_h 1/n_h / H^2.
    """

    mean: float
    squares: float
    freedom: int
    weight: float
    over: str

    @property
    def variance(self) -> float:
        """Return the variance of mean scores from one value of the factor `over` to another, such as from seed to seed."""
        return self.squares / self.freedom if self.freedom else 0.0


def taken_apart(scores: Scores) -> Gap:
    """Return the mean of scores (or of score differences), and the numbers from which its standard error is computed."""
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
    """Return the mean of scores and its standard error. The error is None for too few runs, or if all scores are equal."""
    parts = taken_apart(scores)
    error = None
    # Smaller squares are rounding: all scores are equal, which is no proof of certainty.
    if parts.freedom and parts.squares**0.5 >= 10**-DIGITS:
        error = (parts.variance * parts.weight) ** 0.5
    return Mean(parts.mean, error, parts.freedom, parts.over)


def sampled(scores: Scores) -> str:
    """Return the factor whose values count as independent: the first of split, partition and tuning that has at least 3, or "seed" if none has."""
    for factor, levels in zip(Draw._fields[:-1], zip(*scores, strict=True), strict=False):
        if len(set(levels)) >= RANDOM:
            return factor
    return "seed"


def units(scores: Scores) -> int:
    """Count the independent scores in a method's mean: its splits, partitions or tunings if there are 3 or more, otherwise its runs."""
    return sum(map(len, _strata(scores, sampled(scores)).values()))


def _strata(scores: Scores, over: str) -> dict[tuple[int, ...], list[float]]:
    """Return the mean score of each value of the factor `over`, in lists by the values of the factors that enclose it."""
    # From the outermost: split, partition, tuning, seed.
    place = Draw._fields.index(over)
    groups: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for draw, score in scores.items():
        groups[draw[: place + 1]].append(score)
    strata: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for key in sorted(groups):
        strata[key[:-1]].append(fmean(groups[key]))
    return strata


def spreads(scores: Scores) -> dict[str, float]:
    """Return the standard deviation that split, partition, tuning and seed each add to a score. Leave out factors with one value.

    The factors are nested, with seeds innermost. A factor's values have mean scores, whose variance also contains the noise of
    inner factors. This noise is subtracted.
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
    """The lead of method `first` over `second` in one scenario: the mean difference over the `seeds` runs that both have. Its
    interval is from `low` to `high`, or (None, None) if its standard error cannot be estimated. The intervals of all pairs in
    the scenario hold jointly with 95 % confidence. A `tie` has 0 in its interval, so no difference is shown.
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
    """The variances of the score differences of all pairs in a scenario, from which the intervals of these pairs follow.

    `pooled` is the variance over all pairs, with its degrees of `freedom`. `parts` has each method's share s^2 in the
    variances of its pairs. The variance of a pair is the larger of `pooled` and s_i^2 + s_j^2. The first matters for a pair
    whose few searches all succeeded by chance, the second for a method that varies more than the others.
    """

    pooled: float
    freedom: float
    parts: Mapping[str, float]
    pairs: int

    def half(self, first: str, second: str, gap: Gap) -> float | None:
        """Return half the width of the confidence interval of `gap`, the mean score difference of methods `first` and `second`.
        Return None if `gap` has too few degrees of freedom. All pairs' intervals hold jointly with 95 % confidence (Bonferroni).
        """
        if gap.freedom < RANDOM - 1:
            return None
        variance = max(self.pooled, self.parts[first] + self.parts[second])
        # The variance is v = p + e: p is that of all pairs, e what this pair adds. Their degrees of freedom f, f_p and f_e
        # satisfy v / sqrt(f) = p / sqrt(f_p) + e / sqrt(f_e). Each term is proportional to the standard error of its
        # numerator, so that the sum allows for any correlation between p and e.
        spread = self.pooled / self.freedom**0.5 + (variance - self.pooled) / gap.freedom**0.5
        tail = (1 - LEVEL) / (2 * self.pairs)
        return quantile(1 - tail, (variance / spread) ** 2) * (variance * gap.weight) ** 0.5


def errors_of(gaps: Mapping[tuple[str, str], Gap]) -> Errors | None:
    """Return the variance of the score differences over all pairs of methods, and each method's share in its pairs' variances.
    Return None if the differences vary by rounding only.
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
    # Each method is in k - 1 pairs, so the pooled variance has 2 / k of Satterthwaite's degrees of freedom.
    share = 2 / k
    freedom = min(max(share * squares**2 / fsum(fourths), min(freedoms)), share * sum(freedoms))
    parts = dict.fromkeys(variances, 0.0)
    if k > 2:
        # Grubbs (1948): if the variance of a pair is s_i^2 + s_j^2, the estimate of s_i^2 is max(0, (S_i - T) / (k - 2)).
        # S_i is the sum of the variances of the method's pairs, and T = sum_i S_i / (2 (k - 1)).
        # A pair without a common run is assumed to vary as the method's other pairs do.
        sums = {name: fmean(values or [0.0]) * (k - 1) for name, values in variances.items()}
        total = fsum(sums.values()) / (2 * (k - 1))
        parts = {name: max(0.0, (s - total) / (k - 2)) for name, s in sums.items()}
    return Errors(squares / sum(freedoms), freedom, parts, len(gaps))


def differences(scenario: Mapping[str, Scores], sign: int = 1) -> tuple[Difference, ...]:
    """Return the score difference of each pair of methods in a scenario. `scenario[algorithm][draw]` is the score of one
    final run (`Draw`). `sign` is -1 if small scores are better, so that a better method's lead is positive.
    """
    gaps: dict[tuple[str, str], Gap] = {}
    runs: dict[tuple[str, str], int] = {}
    for first, second in combinations(scenario, 2):
        mine, theirs = scenario[first], scenario[second]
        common = sorted(mine.keys() & theirs.keys())
        runs[first, second] = len(common)
        # Rounded, so that scores that would be equal in exact arithmetic differ by 0.
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
    """How far a method is behind the best method of its scenario: at least `low`, at most `high`. `beaten_by` lists the rivals
    that are shown to be ahead. A `tie` is a method without such rivals that is at most the study's margin behind.
    """

    low: float
    high: float
    beaten_by: tuple[str, ...] = ()
    tie: bool = False


def behind_best(
    methods: Collection[str], differences: Iterable[Difference], margin: float | None = None
) -> dict[str, Behind]:
    """Return how far each method is behind the best. If no difference has a confidence interval, as with one run,
    return {}. Exception: if the methods' mean scores over several runs are all equal, each method is 0 behind. A method counts
    as a tie if it is at most `margin` behind and no rival is shown to be better.
    """
    # ahead[method][rival]: by how much the rival is ahead, at least and at most.
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
            if not beaten[rival]:  # a rival that is shown not to be the best sets no upper end
                high = max(high, most)
        tie = margin is not None and bool(ends) and not beaten[name] and high <= margin
        shown[name] = Behind(low, max(low, high), beaten[name], tie)
    return shown
