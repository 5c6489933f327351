"""Published against measured: what runs measured, and the verdict on a number or a statement.

Seeds are paired. The rules (`RULES`) are shown with every result and explained in docs/reproduce.md.
Nothing here knows what ran; `suite.reproduction.reproduce` gives it records.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from reports.claims.metrics import KINDS, Metric, Runs, measured, metric
from reports.leaderboard.statistics import interval
from trials.common.errors import UserError

REPRODUCED, DIRECTION, FAILED, NOT_RUN = (
    "reproduced",
    "direction only",
    "not reproduced",
    "not run",
)
VERDICTS = (REPRODUCED, DIRECTION, FAILED, NOT_RUN)
Seeds = Mapping[int, float]
"""A value for each seed."""


RULES = (
    "A number is **reproduced** when it is no farther from the mean over seeds than the tolerance plus "
    "half the width of the mean's 95 % Student-t interval, of which no more than another tolerance "
    "counts. A bound (> 50) is reproduced when the whole interval keeps it, and on rounds to a target "
    "only when all seeds reached it or none did. A printed 'never within the rounds' counts as the last "
    "round plus one, as a seed does that never gets there, and is reproduced when the mean is within the "
    "tolerance of that; any other number of rounds only when every seed reached it.",
    "**Direction only**: the number is not reproduced, but its method stands to every other method of "
    "the row as printed (better or worse in the mean); a bound holds in the mean alone.",
    "A statement that compares two methods is **reproduced** when the whole interval of the difference, "
    "paired by seed, is on its side; **direction only** when just the mean is, or there is one seed. "
    "'As good as' is judged as a printed difference of 0. A seed that never reaches a target counts "
    "as the last round plus one, and where no run of either method gets there, it is not reproduced; a "
    "run that diverges loses to one that does not. A speed-up needs a "
    "number of rounds of both methods; a seed without it counts as one that did not reach the target.",
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

    @property
    def half(self) -> float:
        """Half the width of the interval, 0 without one."""
        return 0.0 if self.low is None or self.high is None else (self.high - self.low) / 2


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
    """One of `VERDICTS`, and why where that is not plain from the numbers."""

    verdict: str
    reason: str = ""


def judge(
    claim: Printed, wanted: Metric, values: Seeds, rounds: int, ordered: bool | None
) -> Verdict:
    """The verdict on a printed number. `ordered`: whether the method stands to all others of the row
    as printed, None where there is no other.
    """
    found = summary(values, wanted, rounds)
    if found is None:
        return Verdict(NOT_RUN, "nothing was measured")
    fallback = Verdict(DIRECTION if ordered else FAILED)
    if claim.value is None:
        return Verdict(REPRODUCED) if short_of_never(wanted, found, rounds) <= 1 else fallback
    if claim.relation in ("=", "~"):
        if found.reached < 1:
            return fallback
        return Verdict(REPRODUCED) if _near(wanted, claim.value, found) else fallback
    ends = (found.mean,) if found.low is None or found.high is None else (found.low, found.high)
    if found.reached in (0, 1) and all(_holds(claim.relation, end, claim.value) for end in ends):
        return Verdict(REPRODUCED)
    return Verdict(DIRECTION if _holds(claim.relation, found.mean, claim.value) else FAILED)


def short_of_never(wanted: Metric, found: VerdictSummary, rounds: int) -> float:
    """How many tolerances the mean is short of a printed "never within the rounds", which counts as the last
    round plus one, as a seed does that never got there; infinite where it is no number of rounds.
    """
    if found.reached == 0:
        return 0.0
    if wanted.kind.unit != "rounds":
        return math.inf
    return (rounds + 1.0 - found.mean) / wanted.tolerance(rounds + 1.0)


def in_order(
    method: str, numbers: Mapping[str, Printed], means: Mapping[str, float]
) -> bool | None:
    """Whether a method is better or worse than each other as printed; None without another one whose
    number is exact and differs.
    """
    mine = numbers[method]
    verdicts = [
        (_order(mine, other) > 0) == (means[method] > means[name]) and means[method] != means[name]
        for name, other in numbers.items()
        if name != method
        and {mine.relation, other.relation} <= {"=", "~"}
        and _order(mine, other) != 0
        and {method, name} <= means.keys()
    ]
    return all(verdicts) if verdicts else None


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

    def counted(value: float) -> float:
        return value if math.isfinite(value) else rounds + 1.0

    seeds = [seed for seed in of if seed in to]
    if wanted.kind.last and any(math.isinf(side[seed]) for side in (of, to) for seed in seeds):
        lead = {math.isinf(of[s]) - math.isinf(to[s]) for s in seeds}  # -1: only `to` diverged
        won = relation != "~" and all(_holds(relation, of[s] - times * to[s], by) for s in seeds)
        verdict = (REPRODUCED if len(lead) == 1 else DIRECTION) if won else FAILED
        reason = "both diverge" if lead == {0} else "one of them diverges"
        return Verdict(verdict, reason), None
    if seeds and all(math.isinf(side[seed]) for side in (of, to) for seed in seeds):
        return Verdict(FAILED, "neither gets there"), None
    gaps = {s: counted(of[s]) - times * counted(to[s]) for s in seeds}
    found = summary(gaps, wanted, rounds)
    if found is None:
        return Verdict(NOT_RUN, "nothing was measured"), None
    if relation == "~":
        size = fmean(times * counted(to[s]) for s in gaps)
        tolerance = wanted.apart(size)
        near = abs(found.mean - by) <= tolerance + min(found.half, tolerance)
        return Verdict(REPRODUCED if near else FAILED), found
    if not _holds(relation, found.mean, by):
        return Verdict(FAILED), found
    if found.low is None or found.high is None:
        return Verdict(DIRECTION, "one seed"), found
    whole = _holds(relation, found.low, by) and _holds(relation, found.high, by)
    return Verdict(REPRODUCED if whole else DIRECTION), found


def _mean(values: Seeds, wanted: Metric, rounds: int) -> float:
    """Infinite where any seed is."""
    found = summary(values, wanted, rounds)
    assert found is not None
    return found.mean if found.reached == 1 else math.inf


def _near(wanted: Metric, value: float, found: VerdictSummary) -> bool:
    tolerance = wanted.tolerance(value)
    return abs(value - found.mean) <= tolerance + min(found.half, tolerance)


def _holds(relation: str, value: float, bound: float) -> bool:
    return {
        "<": value < bound,
        ">": value > bound,
        "<=": value <= bound,
        ">=": value >= bound,
    }[relation]


def _order(a: Printed, b: Printed) -> float:
    left, right = (math.inf if p.value is None else p.value for p in (a, b))
    return 0.0 if left == right else left - right


@dataclass(frozen=True)
class JudgedEntry:
    """A published number beside the measured one."""

    method: str
    metric: str
    unit: str
    published: str
    measured: float | None
    ci_low: float | None
    ci_high: float | None
    reached_share: float | None
    seeds: int
    difference: float | None
    verdict: str
    reason: str
    by_seed: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Said:
    """A qualitative statement with its verdict; `measured` is the mean difference."""

    says: str
    metric: str
    measured: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: str
    reason: str


@dataclass(frozen=True)
class Statement:
    """A statement to be judged: metric(of) - times * metric(to) `relation` by."""

    says: str
    metric: str | None
    of: str | None
    relation: str
    to: str | None
    times: float
    by: float


def entries(
    numbers: Mapping[str, Mapping[str, Any]], runs: Runs, planned: int, why_not: str | None
) -> list[JudgedEntry]:
    """All numbers of a row, judged. `planned`: the rounds the paper ran; `why_not`: why the row was
    not run.
    """
    found = []
    for name, column in numbers.items():
        claims = {method: printed(number) for method, number in column.items()}
        wanted, reason = None, why_not
        if reason is None:
            try:
                wanted = metric(name)
            except UserError:
                reason = "the suite does not measure it"
        rounds = _rounds(runs)
        values = {m: measured(wanted, m, runs) for m in claims} if wanted else {}
        means = {m: _mean(v, wanted, rounds) for m, v in values.items() if v and wanted}
        if wanted is not None and wanted.name == "speedup":
            means = {m: mean for m, mean in means.items() if math.isfinite(mean)}
        for method, claim in claims.items():
            unit = KINDS[name.split("(")[0].split("@")[0]].unit if _known(name) else ""
            if wanted is None:
                nothing = (None, None, None, None, 0, None)
                found.append(
                    JudgedEntry(method, name, unit, str(claim), *nothing, NOT_RUN, reason or "")
                )
                continue
            mine = values[method]
            cut = _cut(wanted, [mine], rounds, planned)
            order = in_order(method, claims, means)
            verdict = Verdict(NOT_RUN, cut) if cut else judge(claim, wanted, mine, rounds, order)
            found.append(_entry(method, name, unit, claim, mine, rounds, verdict))
    return found


def statements(
    said: Sequence[Statement],
    numbers: Mapping[str, Any],
    runs: Runs,
    planned: int,
    why_not: str | None,
) -> list[Said]:
    """All statements about a row, judged; one that is only shown is not run."""
    found = []
    for claim in said:
        name = claim.metric or next(filter(_known, numbers), "")
        if why_not or claim.of is None or claim.to is None:
            reason = why_not or "not put into numbers"
            found.append(Said(claim.says, name, None, None, None, NOT_RUN, reason))
            continue
        wanted, rounds = metric(name), _rounds(runs)
        of, to = measured(wanted, claim.of, runs), measured(wanted, claim.to, runs)
        verdict, gap = compare(wanted, claim.relation, of, to, rounds, claim.times, claim.by)
        if cut := _cut(wanted, [of, to], rounds, planned):
            verdict = Verdict(NOT_RUN, cut)
        mean, low, high = (gap.mean, gap.low, gap.high) if gap else (None, None, None)
        found.append(Said(claim.says, name, mean, low, high, verdict.verdict, verdict.reason))
    return found


def _entry(
    method: str,
    name: str,
    unit: str,
    claim: Printed,
    mine: Seeds,
    rounds: int,
    verdict: Verdict,
) -> JudgedEntry:
    shown = summary(mine, metric(name), rounds)
    if shown is None:
        nothing = (None, None, None, None, 0, None)
        return JudgedEntry(
            method, name, unit, str(claim), *nothing, verdict.verdict, verdict.reason
        )
    return JudgedEntry(
        method,
        name,
        unit,
        str(claim),
        shown.mean if math.isfinite(shown.mean) else None,
        shown.low,
        shown.high,
        shown.reached,
        shown.seeds,
        shown.mean - claim.value if claim.value is not None and shown.reached == 1 else None,
        verdict.verdict,
        verdict.reason,
        dict(mine),
    )


def _cut(wanted: Metric, values: Sequence[Seeds], rounds: int, planned: int) -> str:
    """Why a metric says nothing of runs that were cut short; "" where it does."""
    if rounds >= planned or (wanted.at is not None and wanted.at <= rounds) or not any(values):
        return ""
    if wanted.kind.last or any(math.isinf(v) for seeds in values for v in seeds.values()):
        return f"cut at round {rounds} of {planned}"
    return ""


def _rounds(runs: Runs) -> int:
    return max((run.rounds for seeds in runs.values() for run in seeds.values()), default=0)


def _known(name: str) -> bool:
    return name.split("(")[0].split("@")[0] in KINDS
