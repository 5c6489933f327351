"""Verdicts on the numbers and statements that papers print, from measurements over seeds.

Two methods are compared seed by seed. docs/reproduce.md explains the rules. A run's history has one dict per evaluation.
A measured value is infinite if a run never reached its target, if one run of a speed-up never did, or if a loss diverged.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from reports.leaderboard.statistics import corrected, half_width, interval
from trials.common.errors import UserError, unknown


@dataclass(frozen=True)
class MetricKind:
    """A metric that papers print: its unit, and whether "more" or "less" of it is better.

    A measured mean agrees with a printed number if they differ by at most `points` (in the metric's unit), or by at most the
    fraction `share` of the printed number. The metric is the last value that a run records as `key`, or the function `over`
    of the values of all rounds. `last` is False for the time to a target. `arguments` is the number of the metric's arguments.
    """

    unit: str
    better: str
    points: float = 0.0
    share: float = 0.0
    key: str = "test_accuracy"
    last: bool = True
    over: Callable[[Sequence[float]], float] | None = None
    arguments: int = 0


def largest_drop(values: Sequence[float]) -> float:
    """Return the largest decrease between two successive values of a curve; 0 if it never falls."""
    return max((before - after for before, after in pairwise(values)), default=0.0)


KINDS = {
    "test_accuracy": MetricKind("%", "more", points=1.0),
    "best_test_accuracy": MetricKind("%", "more", points=1.0, over=max),
    "mean_accuracy": MetricKind("%", "more", points=1.0, over=fmean),
    "largest_drop": MetricKind("%", "less", points=1.0, over=largest_drop),
    "train_accuracy": MetricKind("%", "more", points=1.0, key="train_accuracy"),
    "mean_train_accuracy": MetricKind("%", "more", points=1.0, key="train_accuracy", over=fmean),
    "top5_accuracy": MetricKind("%", "more", points=1.0, key="test_top5_accuracy"),
    "test_loss": MetricKind("", "less", share=0.1, key="test_loss"),
    "test_mse": MetricKind("", "less", share=0.1, key="test_mse"),
    "train_mse": MetricKind("", "less", share=0.1, key="train_mse"),
    "train_loss": MetricKind("", "less", share=0.1, key="train_loss"),
    "mean_train_loss": MetricKind("", "less", share=0.1, key="train_loss", over=fmean),
    "global_train_loss": MetricKind("", "less", share=0.1, key="global_train_loss"),
    "mean_global_train_loss": MetricKind(
        "", "less", share=0.1, key="global_train_loss", over=fmean
    ),
    "uploads": MetricKind("uploads", "less", share=0.05, key="clients_uploaded"),
    "rounds_to": MetricKind("rounds", "less", points=2.0, share=0.2, last=False, arguments=1),
    "speedup": MetricKind("x", "more", share=0.2, last=False, arguments=2),
    "gain": MetricKind("points", "more", points=2.0, arguments=1),
}


@dataclass(frozen=True)
class Metric:
    """A metric with its arguments, as in `rounds_to(95)`; `gain(fedavg)@56` is the value at round 56."""

    name: str
    arguments: tuple[str, ...] = ()
    at: int | None = None

    @property
    def kind(self) -> MetricKind:
        """The metric's kind, which has its unit, tolerances and recorded key."""
        return KINDS[self.name]

    def tolerance(self, printed: float) -> float:
        """Return the largest difference at which a measured mean still agrees with the number `printed`."""
        return max(self.kind.points, self.kind.share * abs(printed))


def metric(text: str) -> Metric:
    """Parse a metric such as `rounds_to(95)`; raise `UserError` if it is unknown, or has a wrong form or number of arguments."""
    match = re.fullmatch(r"(\w+)(?:\(([^)]*)\))?(?:@(\d+))?", text)
    if match is None:
        raise UserError(f"metric {text!r}: the form is NAME, NAME(ARGUMENT,...) or NAME@ROUND")
    if match[1] not in KINDS:
        raise unknown("metric", match[1], KINDS)
    arguments = tuple(map(str.strip, match[2].split(","))) if match[2] else ()
    count = KINDS[match[1]].arguments
    if len(arguments) != count:
        raise UserError(f"metric {text!r}: {match[1]} takes {count} arguments")
    return Metric(match[1], arguments, int(match[3]) if match[3] else None)


def metric_or_none(text: str) -> Metric | None:
    """Parse a metric, or return None if the text is malformed or the metric unknown."""
    try:
        return metric(text)
    except UserError:
        return None


@dataclass(frozen=True)
class ClaimRun:
    """A recorded run: its evaluations, first that of the untrained model at round 0, and the planned number of rounds."""

    history: Sequence[Mapping[str, float]]
    rounds: int
    diverged: bool = False

    def at(self, key: str, round_index: int | None) -> float:
        """Return a recorded value at a round (None: the last evaluation), or NaN if it was not recorded. If the run diverged
        earlier, return the untrained model's accuracy, and infinity for other metrics.
        """
        if self.diverged and (round_index is None or round_index > self.history[-1]["round"]):
            accuracy = key.endswith("accuracy")
            return float(self.history[0].get(key, math.nan)) if accuracy else math.inf
        rows = [e for e in self.history if round_index is None or e["round"] == round_index]
        return float(rows[-1].get(key, math.nan)) if rows else math.nan


Runs = Mapping[str, Mapping[int, ClaimRun]]
"""The runs of one row of a paper's table, by method and seed."""


def measured(wanted: Metric, method: str, runs: Runs) -> dict[int, float]:
    """Return a metric's values by seed for a method, or for a difference of two, "A - B". Leave out seeds without a value."""
    method, _, other = method.partition(" - ")
    theirs = measured(wanted, other, runs) if other else {}
    values: dict[int, float] = {}
    for seed in runs.get(method, {}):
        value = _value(wanted, method, seed, runs)
        value -= theirs.get(seed, math.nan) if other else 0.0
        if not math.isnan(value):
            values[seed] = value
    return values


def _value(wanted: Metric, method: str, seed: int, runs: Runs) -> float:
    run, name = runs[method][seed], wanted.name
    if name in ("gain", "speedup"):
        inner = "test_accuracy" if name == "gain" else "rounds_to"
        simpler = Metric(inner, wanted.arguments[:-1], wanted.at)
        theirs = measured(simpler, wanted.arguments[-1], runs).get(seed, math.nan)
        ours = _value(simpler, method, seed, runs)
        if name == "gain":
            return ours - theirs
        return theirs / ours if math.isfinite(theirs) and math.isfinite(ours) else theirs + ours
    kind, scale = wanted.kind, 100 if wanted.kind.unit == "%" else 1
    if name == "rounds_to" and kind.key in run.history[0]:  # a regression has no accuracy
        target = float(wanted.arguments[0]) / 100
        trained = (e for e in run.history if e["round"] > 0)  # not the untrained model's
        return float(next((e["round"] for e in trained if e[kind.key] >= target), math.inf))
    if kind.over is largest_drop and run.diverged:
        return math.inf
    if kind.over is None or run.diverged:
        return scale * run.at(kind.key, wanted.at)
    values = [e[kind.key] for e in run.history if kind.key in e and e["round"] > 0]
    return scale * kind.over(values) if values else math.nan


REPRODUCED, DIRECTION, FAILED, NOISY, NOT_RUN = (
    "reproduced",
    "direction only",
    "not under these settings",
    "too noisy to say",
    "not run",
)
VERDICTS = (REPRODUCED, DIRECTION, FAILED, NOISY, NOT_RUN)
Seeds = Mapping[int, float]
"""Measured values by seed."""
MOST_SEEDS = 1000
"""The largest number of seeds that a verdict suggests."""


class Measured(BaseModel):
    """The mean of a metric over seeds with the ends of its 95 % interval; `reached_share` is the share of finite values. If
    that is below 1 there is no interval. A mean of rounds is then a lower bound, in which a seed that never reached the
    target counts as the last round plus one. The mean of any other metric leaves out infinite values.
    """

    model_config = ConfigDict(frozen=True)

    measured: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    seeds: int = 0
    reached_share: float | None = None


def summary(values: Seeds, wanted: Metric, rounds: int) -> Measured:
    """Return the mean and 95 % interval of a metric over seeds, for runs of `rounds` rounds. Both are None without values."""
    if not values:
        return Measured()
    finite = [*filter(math.isfinite, values.values())]
    reached, counts = len(finite) / len(values), list(finite)
    if wanted.kind.unit == "rounds":
        counts += [rounds + 1.0] * (len(values) - len(finite))
    low, high = interval(finite) if reached == 1 else (None, None)
    mean = fmean(counts) if counts else None
    return Measured(
        measured=mean, ci_low=low, ci_high=high, seeds=len(values), reached_share=reached
    )


@dataclass(frozen=True)
class Printed:
    """A published number and its relation: `=`, `~` (about), or a bound such as `<`. A `value` of None means "never reached"."""

    relation: str
    value: float | None

    def __str__(self) -> str:
        if self.value is None:
            return "never"
        return f"{self.relation} {self.value:g}".removeprefix("= ")

    def less(self, other: "Printed") -> float:
        """Return this number minus `other`. "Never reached" counts as infinity, and two infinities have difference 0."""
        left, right = (math.inf if p.value is None else p.value for p in (self, other))
        return 0.0 if left == right else left - right


def printed(number: float | str | None) -> Printed:
    """Parse a number such as 95.2, "< 30" or None (never reached); raise `UserError` for a text in another form."""
    if not isinstance(number, str):
        return Printed("=", number)
    relation, _, value = number.partition(" ")
    if relation not in ("<", ">", "<=", ">=", "~"):
        raise UserError(f"number {number!r}: the form is a number, or one after <, >, <=, >= or ~")
    return Printed(relation, float(value))


class Verdict(NamedTuple):
    """A verdict on a claim, such as "reproduced", and its reason, or "" where the numbers themselves show the reason."""

    verdict: str
    reason: str = ""


NOTHING = Verdict(NOT_RUN, "nothing was measured")


def agreeing(relation: str, bound: float, tolerance: float) -> tuple[float, float]:
    """Return the smallest and largest measured mean that agree with a printed bound such as "< 50" (`relation`, then `bound`).
    With "=" or "~", all means within `tolerance` of `bound` agree.
    """
    ends = {
        "<": (-math.inf, math.nextafter(bound, -math.inf)),
        "<=": (-math.inf, bound),
        ">": (math.nextafter(bound, math.inf), math.inf),
        ">=": (bound, math.inf),
    }
    return ends.get(relation, (bound - tolerance, bound + tolerance))


def of_sample(
    agrees: tuple[float, float], values: Sequence[float], at_least: bool = False
) -> Verdict:
    """Judge whether the mean of `values` is in the range `agrees`. With `at_least`, some values are lower bounds, so a low mean does not fail."""
    (least, most), (low, high) = agrees, interval(values)
    if low is None or high is None:
        return Verdict(NOISY, "one seed")
    if low > most or (high < least and not at_least):
        return Verdict(FAILED)
    if at_least and most < math.inf:
        return Verdict(NOISY, "not all seeds got there")
    if least <= low and high <= most:
        return Verdict(REPRODUCED)
    # Find the fewest seeds whose interval would no longer cross an end, if mean and spread stayed the same.
    mean, spread = fmean(values), stdev(values)
    room = min(abs(mean - least), abs(mean - most))
    enough = range(len(values) + 1, MOST_SEEDS + 1)
    needed = next((n for n in enough if half_width(spread, n) <= room), None)
    return Verdict(NOISY, f"about {needed or f'over {MOST_SEEDS}'} seeds would say")


Order = tuple[Sequence[str], bool]
"""How a method compares with the others of its row in one metric: the methods for which the printed order is reversed, and
whether the printed order holds for all others.
"""


def order_of(
    method: str, numbers: Mapping[str, Printed], values: Mapping[str, Seeds], rounds: int
) -> Order:
    """Compare `method` with each other method. Return the methods for which the measured order reverses the printed one, and
    whether all orders are as printed. Skip pairs with equal printed numbers or with a bound such as "< 30". A measured order
    is the sign of the mean difference over seeds. It counts if the 95 % interval, corrected for all comparisons, leaves out 0.
    """
    mine = numbers[method]
    others = [
        name
        for name, other in numbers.items()
        if {mine.relation, other.relation} <= {"=", "~"}
        and mine.less(other) != 0
        and {method, name} <= values.keys()
    ]
    wrong, right = list[str](), 0
    for name in others:
        theirs, gaps = values[name], list[float]()
        for seed, ours in values[method].items():
            if seed in theirs:
                gaps.append(counted(ours, rounds) - counted(theirs[seed], rounds))
        low, high = interval(gaps, corrected(len(others)))
        sign = 0 if low is None or high is None else (low > 0) - (high < 0)
        sign *= 1 if mine.less(numbers[name]) > 0 else -1
        wrong += [name] if sign < 0 else []
        right += sign > 0
    return wrong, 0 < right == len(others)


def judge(claim: Printed, wanted: Metric, values: Seeds, rounds: int, order: Order) -> Verdict:
    """Judge a printed number (`claim`) by measured values of runs with `rounds` rounds. `order`, from `order_of`, compares
    the method with all others. The claim fails if any comparison comes out opposite to the paper. If all come out as
    printed, a wrong number is still "direction only".
    """
    reversed_to, as_printed = order
    if not values:
        return NOTHING
    if reversed_to:
        return Verdict(FAILED, f"the order to {', '.join(reversed_to)} is reversed")
    sample, number, last = list(values.values()), claim.value, rounds + 1.0
    missing, in_rounds = sum(map(math.isinf, sample)), wanted.kind.unit == "rounds"
    if number is None and not in_rounds:
        verdict = Verdict(REPRODUCED if missing == len(values) else FAILED)
    elif missing and not in_rounds:
        why = "diverged" if wanted.kind.last else "did not get there"
        verdict = Verdict(FAILED, f"{missing} of {len(values)} seeds {why}")
    else:
        sample = [counted(value, rounds) for value in sample] if in_rounds else sample
        # "Never" is any number of rounds above the last.
        agrees, at_least = (last - wanted.tolerance(last), math.inf), False
        if number is not None:
            agrees = agreeing(claim.relation, number, wanted.tolerance(number))
            at_least = bool(missing)
        verdict = of_sample(agrees, sample, at_least)
    return Verdict(DIRECTION) if verdict.verdict == FAILED and as_printed else verdict


def counted(value: float, rounds: int) -> float:
    """Return the value, or `rounds` + 1 if the value is infinite, such as the time to a target that was never reached."""
    return value if math.isfinite(value) else rounds + 1.0


def compare(
    wanted: Metric,
    relation: str,
    left: Seeds,
    right: Seeds,
    rounds: int,
    times: float = 1.0,
    by: float = 0.0,
) -> tuple[Verdict, Measured]:
    """Judge a claim such as `left - times * right < by`, and return the verdict and the mean difference. Runs are paired by
    seed, and `relation` is the claim's sign, such as "<". With two or more pairs, a side that always diverged is worse than one
    that never did; if both always did, the claim fails. Any other divergence gives the verdict "too noisy to say".
    """
    lost, gaps, subtracted = list[tuple[bool, bool]](), dict[int, float](), list[float]()
    for seed in filter(right.__contains__, left):
        lost.append((math.isinf(left[seed]), math.isinf(right[seed])))
        subtracted.append(times * counted(right[seed], rounds))
        gaps[seed] = counted(left[seed], rounds) - subtracted[-1]
    if lost and all(map(all, lost)) and (len(lost) > 1 or not wanted.kind.last):
        why = "both diverge" if wanted.kind.last else "neither gets there"
        return Verdict(FAILED, why), Measured()
    if wanted.kind.last and any(map(any, lost)):
        worse, alike = ">" if lost[0][0] else "<", len(lost) > 1 and len(set(lost)) == 1
        word = (REPRODUCED if relation[0] == worse else FAILED) if alike else NOISY
        return Verdict(word, "runs diverge"), Measured()
    if not gaps:
        return NOTHING, Measured()
    size = fmean(subtracted)
    apart = KINDS["gain"].points if wanted.kind.unit == "%" else wanted.tolerance(size)
    agrees = agreeing(relation, by, apart)
    return of_sample(agrees, list(gaps.values())), summary(gaps, wanted, rounds)
