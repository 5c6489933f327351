"""Published against measured: what runs measured, and the verdict on a number or a statement.

Seeds are paired. The rules (`RULES`) are shown with every result and explained in docs/reproduce.md.
Nothing here knows what ran; `suite.reproduction.reproduce` gives it records.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple, Self

from reports.claims.metrics import Metric
from reports.leaderboard.statistics import corrected, half_width, interval
from trials.common.errors import UserError

REPRODUCED, DIRECTION, FAILED, NOISY, NOT_RUN = (
    "reproduced",
    "direction only",
    "not reproduced",
    "too noisy to say",
    "not run",
)
VERDICTS = (REPRODUCED, DIRECTION, FAILED, NOISY, NOT_RUN)
Seeds = Mapping[int, float]
"""A value for each seed."""
MOST_SEEDS = 1000
"""No verdict is said to need more seeds than these."""
ONE_SEED = "one seed"


RULES = (
    "Each number and each statement has a range in which the mean over seeds agrees with it: the printed number "
    "plus or minus the tolerance, all that a bound (> 50) allows, all differences that a statement allows. It is "
    "**reproduced** when the mean's whole 95 % Student-t interval lies in the range, **not reproduced** when the "
    "whole interval lies outside, and **too noisy to say** otherwise, also with one seed.",
    "A number is not reproduced where its method's order to another exact number of the row is reversed: the "
    "interval of the difference, paired by seed, lies on the other side of 0. **Direction only**: the number is "
    "not reproduced, but its method stands to each of these others as printed, by the same intervals. These "
    "intervals hold together for a number with 95 % (Bonferroni).",
    "A statement compares two methods by their difference, paired by seed. 'As good as' allows differences up to "
    "the tolerance.",
    "A seed that never reaches a target counts as the last round plus one. So does a printed 'never within the "
    "rounds'. A number of rounds is not reproduced where a seed did not get there and the mean would be too "
    "large even so; otherwise it is too noisy to say. Where no run of either method gets there, a statement is not "
    "reproduced. A run that diverges loses to one that does not. A speed-up needs a number of rounds of both "
    "methods.",
    "**Not run**: the data, the metric or the experiment cannot be had, or the run was cut too short.",
    "Tolerances: 1 point of accuracy, 2 of a difference of accuracies, 20 % of a number of rounds (at "
    "least 2) or of a speed-up, 10 % of a loss, 5 % of uploads.",
)


@dataclass(frozen=True)
class VerdictSummary:
    """A mean over seeds. Where some are infinite (`reached` < 1) there is no interval: a mean of rounds
    counts seeds that never reached the target as the last round plus one, a lower bound; others leave
    out runs that diverged and speed-ups without two numbers.
    """

    mean: float
    low: float | None
    high: float | None
    seeds: int
    reached: float


def summary(values: Seeds, wanted: Metric, rounds: int) -> VerdictSummary | None:
    """Mean and interval; None without values."""
    if not values:
        return None
    finite = [v for v in values.values() if math.isfinite(v)]
    reached = len(finite) / len(values)
    if wanted.kind.unit != "rounds":
        mean = fmean(finite) if finite else math.inf
    else:
        mean = fmean([*finite, *[rounds + 1.0] * (len(values) - len(finite))])
    low, high = interval(finite) if reached == 1 else (None, None)
    return VerdictSummary(mean, low, high, len(values), reached)


@dataclass(frozen=True)
class Printed:
    """A published number: = or ~ or a bound, and its value; None: never reached."""

    relation: str
    value: float | None

    def __str__(self) -> str:
        """The number as the paper prints it."""
        if self.value is None:
            return "never"
        return f"{self.relation} {self.value:g}".removeprefix("= ")


def printed(number: float | str | None) -> Printed:
    """Read a number of a paper's file."""
    if not isinstance(number, str):
        return Printed("=", number)
    relation, _, value = number.partition(" ")
    if relation not in ("<", ">", "<=", ">=", "~"):
        raise UserError(f"number {number!r}: the form is a number, or one after <, >, <=, >= or ~")
    return Printed(relation, float(value))


@dataclass(frozen=True)
class Verdict:
    """One of `VERDICTS`, and why where that is not plain from the numbers. `seeds_needed`: about how many seeds would
    say more where it is too noisy; None where that is unknown or over `MOST_SEEDS`.
    """

    verdict: str
    reason: str = ""
    seeds_needed: int | None = None


@dataclass(frozen=True)
class AgreementRange:
    """The means that agree with a claim, ends included."""

    low: float
    high: float

    @classmethod
    def of(cls, relation: str, bound: float, tolerance: float) -> Self:
        """Those of `= bound`, `~ bound`, or of an inequality, which has no tolerance."""
        return {
            "<": cls(-math.inf, math.nextafter(bound, -math.inf)),
            "<=": cls(-math.inf, bound),
            ">": cls(math.nextafter(bound, math.inf), math.inf),
            ">=": cls(bound, math.inf),
        }.get(relation, cls(bound - tolerance, bound + tolerance))

    def holds(self, low: float, high: float) -> bool:
        """Whether a whole interval lies in it."""
        return self.low <= low and high <= self.high

    def verdict(self, values: Sequence[float], at_least: bool = False) -> Verdict:
        """What a sample says of its mean; with `at_least` some values are only lower bounds of what they stand for."""
        low, high = interval(values)
        if low is None or high is None:
            return Verdict(NOISY, ONE_SEED)
        if low > self.high or (high < self.low and not at_least):
            return Verdict(FAILED)
        if at_least and self.high < math.inf:
            return Verdict(NOISY, "not all seeds got there")
        if self.holds(low, high):
            return Verdict(REPRODUCED)
        needed = self._seeds_needed(values)
        least = needed or f"over {MOST_SEEDS}"
        return Verdict(NOISY, f"about {least} seeds would say", needed)

    def _seeds_needed(self, values: Sequence[float]) -> int | None:
        """The fewest seeds whose interval would keep clear of the ends, had they this mean and spread."""
        mean, spread = fmean(values), stdev(values)
        room = min(abs(mean - end) for end in (self.low, self.high))
        enough = range(len(values) + 1, MOST_SEEDS + 1)
        return next((n for n in enough if half_width(spread, n) <= room), None)


class Order(NamedTuple):
    """How a method stands to others whose printed numbers differ from its own, in a row and a metric: to which of
    them the other way round than printed, and whether to all of them as printed.
    """

    reversed_to: Sequence[str]
    as_printed: bool


NO_ORDER = Order((), False)
"""Of a method without others to compare with."""


def judge(
    claim: Printed, wanted: Metric, values: Seeds, rounds: int, order: Order = NO_ORDER
) -> Verdict:
    """The verdict on a printed number whose method stands to others of its row in this order."""
    if not values:
        return Verdict(NOT_RUN, "nothing was measured")
    found = _agreement(claim, wanted, values, rounds)
    if order.reversed_to:
        return Verdict(FAILED, f"the order to {', '.join(order.reversed_to)} is reversed")
    return Verdict(DIRECTION) if found.verdict == FAILED and order.as_printed else found


def _agreement(claim: Printed, wanted: Metric, values: Seeds, rounds: int) -> Verdict:
    """Whether the mean over seeds agrees with a number, whatever else its row holds."""
    missing = [value for value in values.values() if not math.isfinite(value)]
    if claim.value is None:  # all numbers of rounds above the last are one
        last = rounds + 1.0
        agreeing = AgreementRange(last - wanted.tolerance(last), math.inf)
    else:
        agreeing = AgreementRange.of(claim.relation, claim.value, wanted.tolerance(claim.value))
    if wanted.kind.unit == "rounds":
        reached = [counted(value, rounds) for value in values.values()]
        return agreeing.verdict(reached, at_least=claim.value is not None and bool(missing))
    if missing and claim.value is not None:
        why = "diverged" if wanted.kind.last else "did not get there"
        return Verdict(FAILED, f"{len(missing)} of {len(values)} seeds {why}")
    if claim.value is None:
        return Verdict(REPRODUCED if len(missing) == len(values) else FAILED)
    return agreeing.verdict(list(values.values()))


def counted(value: float, rounds: int) -> float:
    """A number of rounds; of a run that never got there, the last round plus one."""
    return value if math.isfinite(value) else rounds + 1.0


def order_of(
    method: str, numbers: Mapping[str, Printed], values: Mapping[str, Seeds], rounds: int
) -> Order:
    """How a method stands to each other whose printed number is exact and differs, by the differences
    paired by seed. The intervals hold together.
    """
    mine = numbers[method]
    others = [
        name
        for name, other in numbers.items()
        if name != method
        and {mine.relation, other.relation} <= {"=", "~"}
        and standing(mine, other) != 0
        and {method, name} <= values.keys()
    ]
    stands: dict[str, int] = {}
    for name in others:
        of, to = values[method], values[name]
        gaps = [counted(of[s], rounds) - counted(to[s], rounds) for s in of if s in to]
        low, high = interval(gaps, corrected(len(others)))
        sign = 0 if low is None or high is None else (low > 0) - (high < 0)
        stands[name] = sign * (1 if standing(mine, numbers[name]) > 0 else -1)
    wrong = [name for name, sign in stands.items() if sign < 0]
    return Order(wrong, bool(stands) and all(sign > 0 for sign in stands.values()))


def compare(
    wanted: Metric,
    relation: str,
    of: Seeds,
    to: Seeds,
    rounds: int,
    times: float = 1.0,
    by: float = 0.0,
) -> tuple[Verdict, VerdictSummary | None]:
    """The verdict on `of - times * to RELATION by`, paired by seed, and the difference's summary."""
    seeds = [seed for seed in of if seed in to]
    if wanted.kind.last and any(math.isinf(side[seed]) for side in (of, to) for seed in seeds):
        return _of_diverged(relation, [of[s] for s in seeds], [to[s] for s in seeds]), None
    if seeds and all(math.isinf(side[seed]) for side in (of, to) for seed in seeds):
        return Verdict(FAILED, "neither gets there"), None
    gaps = {s: counted(of[s], rounds) - times * counted(to[s], rounds) for s in seeds}
    found = summary(gaps, wanted, rounds)
    if found is None:
        return Verdict(NOT_RUN, "nothing was measured"), None
    size = fmean(times * counted(to[s], rounds) for s in seeds)
    allowed = AgreementRange.of(relation, by, wanted.apart(size))
    return allowed.verdict(list(gaps.values())), found


def _of_diverged(relation: str, of: Sequence[float], to: Sequence[float]) -> Verdict:
    """The verdict on a value at the end where runs of one of two methods, or of both, diverged: such a run is the
    worse one, and the pair decides only where it stands alike in every seed.
    """
    lost = {(math.isinf(a), math.isinf(b)) for a, b in zip(of, to, strict=True)}
    if len(of) < 2:
        return Verdict(NOISY, ONE_SEED)
    if lost == {(True, True)}:
        return Verdict(FAILED, "both diverge")
    if lost not in ({(True, False)}, {(False, True)}):
        return Verdict(NOISY, "runs diverge in some seeds")
    greater = ">" if lost == {(True, False)} else "<"
    return Verdict(REPRODUCED if relation[0] == greater else FAILED, "one of them diverges")


def standing(a: Printed, b: Printed) -> float:
    """A printed number less another; never is infinite, and equals itself."""
    left, right = (math.inf if p.value is None else p.value for p in (a, b))
    return 0.0 if left == right else left - right
