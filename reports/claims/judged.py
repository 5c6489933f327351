"""A reproduction: a paper, its rows, their numbers and statements, each with its verdict.

These models are what `suite reproduce` writes as JSON and what its pages are made of.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

from reports.claims.verdicts import (
    NOT_RUN,
    VERDICTS,
    Metric,
    Runs,
    Seeds,
    Verdict,
    VerdictSummary,
    compare,
    judge,
    measured,
    metric,
    metric_or_none,
    order_of,
    printed,
    summary,
)

UNMEASURED, WORDS_ONLY = "the suite does not measure it", "not put into numbers"
"""Why a number or a statement of a row that ran has no verdict."""


class Statement(BaseModel):
    """A paper's statement about two methods: metric(of) - times * metric(to) is <, >, <=, >= `by`, or ~ 0.

    "A - B" is the difference of two methods. Without a metric it is the row's first. One without `of` is only shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    says: str
    metric: str | None = None
    of: str | None = None
    relation: Literal["<", ">", "<=", ">=", "~"] = Field("~", alias="is")
    to: str | None = None
    times: float = 1.0
    by: float = 0.0

    @property
    def why_not(self) -> str:
        """Why no run can judge it, "" where one can."""
        if self.of is None or self.to is None:
            return WORDS_ONLY
        return "" if self.metric is None or metric_or_none(self.metric) else UNMEASURED


class Judged(BaseModel):
    """What numbers and statements have alike: what was measured, and the verdict."""

    model_config = ConfigDict(frozen=True)

    metric: str
    measured: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    verdict: str
    reason: str = ""
    seeds_needed: int | None = None


class Number(Judged):
    """A published number beside the measured one."""

    method: str
    unit: str
    published: str
    reached_share: float | None = None
    seeds: int = 0
    difference: float | None = None
    by_seed: dict[int, float | None] = {}  # null where a run never got there


class Claim(Judged):
    """A statement; `measured` is the mean difference."""

    says: str


class JudgedRow(BaseModel):
    """A row of a paper's table, with what ran of it; `note` says why it is not whole. Each of `settings` has a `method` (None: all),
    a `name`, a `value`, and `chosen_because`: None for what the paper states.
    """

    table: str
    row: str
    source: str
    about: str
    dataset: str | None
    model: str | None
    heterogeneity: str | None
    seeds: int = 0
    reduced: list[str] = []
    settings: list[dict[str, Any]] = []
    readings: list[str] = []
    numbers: list[Number]
    claims: list[Claim]
    runs: int = 0
    seconds: float = 0.0
    note: str = ""


class Reproduction(BaseModel):
    """What `suite reproduce` found of a paper."""

    paper: str
    cites: str
    command: str
    made_with: list[dict[str, str]]
    rows: list[JudgedRow]
    runs_failed: int = 0
    interrupted: bool = False

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdicts(self) -> dict[str, int]:
        """How many numbers and statements got each verdict."""
        counts = Counter(each.verdict for row in self.rows for each in (*row.numbers, *row.claims))
        return {verdict: counts[verdict] for verdict in VERDICTS}


def judge_numbers(
    numbers: Mapping[str, Mapping[str, Any]], runs: Runs, planned: int, why_not: str
) -> list[Number]:
    """Judge all numbers of a row, metric -> method -> number. `planned`: the rounds the paper ran; `why_not`: why the row was
    not run.
    """
    judged: list[Number] = []
    for name, column in numbers.items():
        wanted = metric_or_none(name)
        if wanted is not None and not why_not:
            judged += _column(name, column, runs, planned)
            continue
        facts = {"metric": name, "unit": wanted.kind.unit if wanted else "", "verdict": NOT_RUN}
        for method, number in column.items():
            text, reason = str(printed(number)), why_not or UNMEASURED
            judged.append(Number(method=method, published=text, reason=reason, **facts))
    return judged


def _column(name: str, column: Mapping[str, Any], runs: Runs, planned: int) -> Iterator[Number]:
    """Yield the numbers of a metric, judged; the order of its methods counts too."""
    wanted, rounds = metric(name), _rounds(runs)
    claims = {method: printed(number) for method, number in column.items()}
    values = {method: measured(wanted, method, runs) for method in claims}
    # A speed-up that is infinite is none.
    ratio = wanted.kind.better == "more"
    comparable = {
        method: seeds
        for method, seeds in values.items()
        if seeds and not (ratio and any(map(math.isinf, seeds.values())))
    }
    for method, claim in claims.items():
        seeds = values[method]
        order = order_of(method, claims, comparable, rounds)
        cut = _cut(wanted, [seeds], rounds, planned)
        verdict = Verdict(NOT_RUN, cut) if cut else judge(claim, wanted, seeds, rounds, order)
        mean = summary(seeds, wanted, rounds)
        facts: dict[str, Any] = {}
        if mean is not None:
            facts = {"reached_share": mean.reached, "seeds": mean.seeds, "by_seed": dict(seeds)}
            if claim.value is not None and mean.reached == 1:
                facts["difference"] = mean.mean - claim.value
        yield Number(
            method=method,
            metric=name,
            unit=wanted.kind.unit,
            published=str(claim),
            **_shown(verdict, mean),
            **facts,
        )


def judge_statements(
    statements: Sequence[Statement],
    numbers: Mapping[str, Any],
    runs: Runs,
    planned: int,
    why_not: str,
) -> list[Claim]:
    """Judge all statements about a row; one that is only shown is not run."""
    judged, rounds = [], _rounds(runs)
    for claim in statements:
        name = claim.metric or next(filter(metric_or_none, numbers), "")
        verdict, difference = Verdict(NOT_RUN, why_not or claim.why_not), None
        if not verdict.reason and claim.of and claim.to:
            wanted = metric(name)
            of, to = measured(wanted, claim.of, runs), measured(wanted, claim.to, runs)
            terms = (claim.times, claim.by)
            verdict, difference = compare(wanted, claim.relation, of, to, rounds, *terms)
            if cut := _cut(wanted, [of, to], rounds, planned):
                verdict = Verdict(NOT_RUN, cut)
        judged.append(Claim(says=claim.says, metric=name, **_shown(verdict, difference)))
    return judged


def _shown(verdict: Verdict, mean: VerdictSummary | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"verdict": verdict.verdict, "reason": verdict.reason}
    facts["seeds_needed"] = verdict.seeds_needed
    if mean is not None:
        value = mean.mean if math.isfinite(mean.mean) else None
        facts |= {"measured": value, "ci_low": mean.low, "ci_high": mean.high}
    return facts


def _cut(wanted: Metric, values: Sequence[Seeds], rounds: int, planned: int) -> str:
    """Return why a metric says nothing of runs that were cut short; "" where it does."""
    if rounds >= planned or (wanted.at is not None and wanted.at <= rounds) or not any(values):
        return ""
    if wanted.kind.last or any(math.isinf(v) for seeds in values for v in seeds.values()):
        return f"cut at round {rounds} of {planned}"
    return ""


def _rounds(runs: Runs) -> int:
    return max((run.rounds for seeds in runs.values() for run in seeds.values()), default=0)
