"""A row of a paper's table, judged: its numbers and its statements with their verdicts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.claims.metrics import KINDS, Metric, Runs, measured, metric
from reports.claims.verdicts import (
    NOT_RUN,
    Printed,
    Seeds,
    Verdict,
    compare,
    judge,
    order_of,
    printed,
    summary,
)
from trials.common.errors import UserError


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
    seeds_needed: int | None = None
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
    seeds_needed: int | None = None


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
        stand = {m: v for m, v in values.items() if wanted and _stands(wanted, v)}
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
            order = order_of(method, claims, stand, rounds)
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
        said_of = (verdict.verdict, verdict.reason, verdict.seeds_needed)
        found.append(Said(claim.says, name, mean, low, high, *said_of))
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
        verdict.seeds_needed,
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


def _stands(wanted: Metric, values: Seeds) -> bool:
    """Whether a method can be compared: a speed-up that is infinite is none."""
    return bool(values) and (
        wanted.kind.better == "less" or all(map(math.isfinite, values.values()))
    )
