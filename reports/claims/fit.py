"""Which readings of a paper its baselines' numbers leave, and what is to be said of its statements under them.

A reading is named by its picks, open setting -> candidate. It is weighed by the baselines alone (`reports.claims.weights`):
nothing here that decides its weight is given a number of the paper's own method.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

import numpy as np

from reports.claims.chances import Chance
from reports.claims.metrics import Metric, Runs, measured, metric
from reports.claims.verdicts import NOT_RUN, Printed, counted, printed
from reports.claims.weights import LEVEL, REFUTED, FittedRow, Ints
from trials.common.errors import UserError

Numbers = Mapping[str, Mapping[str, Any]]
"""Printed numbers of a row: metric -> method -> number."""

FAR = 10.0
"""How many tolerances a number counts as off at most."""

LIKELY, UNLIKELY, UNDECIDED = "likely", "unlikely", "undecided"
ANSWERS = (LIKELY, UNLIKELY, UNDECIDED, NOT_RUN)
LEAST = 0.75
"""A statement is likely from this chance on. Of the steps of 0.05 the least one at which, on the bank digits of
docs/results/planted_papers.md, at most 5 % of false statements are likely, and of true ones unlikely.
"""
KNOWN = 0.9
"""The paper's own method must have run under readings that have this share of the weight before a statement is judged."""

RULES = (
    "A reading is one candidate of each setting that the paper leaves open. All are run with one seed on the "
    "baselines' rows, up to the round after which no printed number could be met any more; those that one seed does not "
    f"refute (probability at least {REFUTED:g}) are run with all seeds.",
    "All rows of a table decide together, by one statistic: the sum over all printed numbers of the baselines of (printed - "
    "mean)^2 / (s^2 (1/k + 1/n) + tolerance^2 / 3), where s is the standard deviation of n seeds and the print is the "
    "mean of k runs (1 where the paper does not say). A reading is **ruled out** when a statistic as large has a "
    f"probability p below {LEVEL:g} under it; the others are **left**. The **weight** of one is its likelihood. Numbers of the "
    "paper's own method take no part in that, and are not judged.",
    "A reading **against the text** takes a candidate that the paper's words contradict, a **late** one a candidate "
    "that was added after a number of the paper's own method had been seen. Both are shown, and judge nothing.",
    "The paper's own method is run under every reading that is left. Under each, Student's t gives the chance that the mean "
    f"difference agrees with a statement. A statement is **likely** where the weighted mean of the chances is at least {LEAST:g}. It is "
    f"**unlikely** where the weighted chance of a difference on one side of what agrees is at least {LEAST:g}. All else is **undecided**, also where no reading is "
    "left. **Not run**: data, metric or experiment cannot be had, no baseline's number is printed, or the method ran under "
    f"readings with less than {KNOWN:g} of the weight.",
)


def baselines_numbers(numbers: Numbers, own: Collection[str]) -> dict[str, dict[str, Any]]:
    """The printed numbers that a fit may see: of measured metrics, of baselines, not relative to a method
    of the paper's own.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, column in numbers.items():
        try:
            wanted = metric(name)
        except UserError:
            continue
        if set(wanted.arguments) & set(own):
            continue
        seen = {method: number for method, number in column.items() if method not in own}
        if seen:
            found[name] = seen
    return found


def rounds_needed(numbers: Numbers, planned: int) -> int:
    """After how many rounds of the planned ones a run can no longer meet any of the numbers: only rounds to
    a target end early, two tolerances after the last printed one.
    """
    ends = []
    for name, column in numbers.items():
        wanted = metric(name)
        for claim in map(printed, column.values()):
            if wanted.name != "rounds_to" or claim.value is None:
                return planned
            ends.append(math.ceil(claim.value + 2 * wanted.tolerance(claim.value)))
    return min(planned, max(ends, default=planned))


@dataclass(frozen=True)
class ComparedNumber:
    """A baseline's number under a reading: the measured mean over `seeds` (None: not all of them reached the target, or they
    diverged), `reached` of which have a number, the standard deviation over seeds, and how many tolerances the mean is off.
    """

    method: str
    metric: str
    published: str
    measured: float | None
    seeds: int
    reached: int
    off: float
    spread: float | None
    by_seed: Mapping[int, float] = field(default_factory=dict)


def compare(numbers: Numbers, runs: Runs, rounds: int) -> list[ComparedNumber]:
    """Each baseline's number (`baselines_numbers`) beside what runs of at most `rounds` rounds give. A target that was not
    reached counts as the last round plus one; what else is not finite is NaN.
    """
    found = []
    for name, column in numbers.items():
        wanted = metric(name)
        for method, number in column.items():
            values = measured(wanted, method, runs)
            by_seed = {seed: _finite(wanted, v, rounds) for seed, v in values.items()}
            reached = sum(map(math.isfinite, values.values()))
            mean = fmean(by_seed.values()) if by_seed else math.nan
            known = len(by_seed) > 1 and math.isfinite(mean)
            found.append(
                ComparedNumber(
                    method,
                    name,
                    str(printed(number)),
                    mean if reached == len(values) > 0 else None,
                    len(values),
                    reached,
                    _off(printed(number), wanted, mean, rounds),
                    stdev(by_seed.values()) if known else None,
                    by_seed,
                )
            )
    return found


def _finite(wanted: Metric, value: float, rounds: int) -> float:
    found = counted(value, rounds) if wanted.kind.unit == "rounds" else value
    return found if math.isfinite(found) else math.nan


@dataclass(frozen=True)
class Target:
    """A printed number as a fit sees it: -1 or 1 in `bound` where it is an upper or lower one."""

    value: float
    bound: int
    tolerance: float

    @classmethod
    def of(cls, claim: Printed, wanted: Metric, rounds: int) -> "Target":
        """A printed "never within the rounds" is at least the last round plus one."""
        if claim.value is None:
            return cls(rounds + 1.0, 1, wanted.tolerance(rounds + 1.0))
        bound = {"<": -1, ">": 1}.get(claim.relation[0], 0)
        return cls(claim.value, bound, wanted.tolerance(claim.value))


def _off(claim: Printed, wanted: Metric, mean: float, rounds: int) -> float:
    target = Target.of(claim, wanted, rounds)
    gap = mean - target.value
    if math.isnan(gap):
        return FAR
    return 0.0 if target.bound * gap > 0 else min(FAR, abs(gap) / target.tolerance)


def fitted(
    numbers: Numbers, rounds: int, found: Sequence[Sequence[ComparedNumber]], seeds: int
) -> FittedRow:
    """A row whose readings gave these numbers, each a list of the same; an empty one was not run."""
    targets = [
        Target.of(printed(number), metric(name), rounds)
        for name, column in numbers.items()
        for number in column.values()
    ]
    values = np.full((len(found), seeds, len(targets)), np.nan)
    for r, given in enumerate(found):
        for j, one in enumerate(given):
            for seed, value in one.by_seed.items():
                values[r, seed, j] = value
    # A run without a value makes a reading one that was not run: it diverged.
    ran = [
        bool(given) and all(math.isfinite(v) for one in given for v in one.by_seed.values())
        for given in found
    ]
    values[~np.array(ran, bool)] = np.nan
    columns = np.array([(t.value, t.bound, t.tolerance) for t in targets]).T
    printed_, bounds, tolerance = columns
    bounds_: Ints = bounds.astype(np.int64)
    return FittedRow.of(printed_, bounds_, tolerance, values)


def misfit(found: Iterable[ComparedNumber]) -> float:
    """The mean over a reading's numbers of how far they are off, in tolerances."""
    return fmean(one.off for one in found)


@dataclass(frozen=True)
class Answer:
    """What is to be said of a statement: one of `ANSWERS`, and under how many of the readings that are left it was
    judged.
    """

    verdict: str
    of: int


def answer(agrees: Mapping[int, Chance], weights: Mapping[int, float], unknown: Answer) -> Answer:
    """The answer on a statement from its chance under each reading that is left, by number; `unknown` where too few are known."""
    mean = weighted(agrees, weights)
    return unknown if mean is None else Answer(word(mean), len(agrees))


def weighted(agrees: Mapping[int, Chance], weights: Mapping[int, float]) -> Chance | None:
    """The weighted mean of chances under readings, by number; None where they have too little of the weight (`KNOWN`)."""
    total = math.fsum(weights[number] for number in agrees)
    if not total or total < KNOWN * math.fsum(weights.values()):
        return None
    columns = zip(*agrees.values(), strict=True)
    pairs = (zip(agrees, column, strict=True) for column in columns)
    return Chance(*(math.fsum(weights[n] * p for n, p in column) / total for column in pairs))


def word(chance: Chance, least: float = LEAST) -> str:
    """What is said of a statement with this chance. It is unlikely where the mean lies on one side of what agrees."""
    if chance.within >= least:
        return LIKELY
    return UNLIKELY if max(chance.below, chance.above) >= least else UNDECIDED
