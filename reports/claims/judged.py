"""A reproduction of a paper: the rows of its tables, with a verdict on each number and statement.

`suite reproduce` writes these models as JSON and makes its pages from them.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

from reports.claims.verdicts import (
    NOT_RUN,
    VERDICTS,
    Measured,
    Metric,
    Runs,
    Seeds,
    Verdict,
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
"""Reasons why a number or statement has no verdict although its row was run."""


class Statement(BaseModel):
    """A paper's statement about two methods: metric(`of`) - `times` * metric(`to`) is <, >, <=, >= or ~ (about) `by`.
    `of` and `to` each name a method, or the difference "A - B" of two methods. If one of them is None, the statement is not
    judged. The default of `metric` is the first metric of the row that the suite measures.
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
        """Return why no run can test the statement, or "" if a run can."""
        if self.of is None or self.to is None:
            return WORDS_ONLY
        return "" if self.metric is None or metric_or_none(self.metric) else UNMEASURED


class Judged(Measured):
    """A printed number of a `method`, or a statement that a paper `says`, with its verdict. For a statement, `measured` is the
    mean of the difference that it is about.
    """

    metric: str
    method: str = ""
    says: str = ""
    published: str = ""
    verdict: str
    reason: str = ""
    by_seed: dict[int, float | None] = {}  # JSON has null where a value is infinite

    @property
    def value(self) -> float | None:
        """Return the printed number, or None for a statement or if the paper prints "never"."""
        text = self.published.rpartition(" ")[2]
        return None if text in ("", "never") else float(text)


class JudgedRow(BaseModel):
    """A row of a paper's table with the verdicts from its runs. `note` says which runs are missing, or why there are none.
    Each of the `settings` has a `method` (None: for all), a `name`, a `value`, and the reason `chosen_because` (None: the
    paper states the value). `reduced` says what was made smaller than in the paper.
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
    numbers: list[Judged]
    claims: list[Judged]
    runs: int = 0
    seconds: float = 0.0
    note: str = ""


class Reproduction(BaseModel):
    """The result of `suite reproduce` on one paper."""

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
        """Return how many numbers and statements have each verdict."""
        counts = Counter(each.verdict for row in self.rows for each in (*row.numbers, *row.claims))
        return {verdict: counts[verdict] for verdict in VERDICTS}


def judge_numbers(
    numbers: Mapping[str, Mapping[str, Any]], runs: Runs, planned: int, why_not: str
) -> list[Judged]:
    """Return a verdict on each number that a paper prints in one row of a table, `numbers[metric][method]`. Verdicts also
    consider how these numbers order the methods. `planned` is the paper's number of rounds. If `why_not` gives a reason,
    all verdicts are "not run".
    """
    judged, rounds = [], _rounds(runs)
    for name, column in numbers.items():
        claims = {method: printed(number) for method, number in column.items()}
        if (wanted := metric_or_none(name)) is None or why_not:
            facts = {"metric": name, "verdict": NOT_RUN, "reason": why_not or UNMEASURED}
            judged += [Judged(method=m, published=str(c), **facts) for m, c in claims.items()]
            continue
        values, comparable = dict[str, Seeds](), dict[str, Seeds]()
        for method in claims:
            values[method] = measured(wanted, method, runs)
            # An infinite speed-up or accuracy says nothing about the order of methods.
            lost = wanted.kind.better == "more" and any(map(math.isinf, values[method].values()))
            if values[method] and not lost:
                comparable[method] = values[method]
        for method, claim in claims.items():
            seeds, order = values[method], order_of(method, claims, comparable, rounds)
            verdict = judge(claim, wanted, seeds, rounds, order)
            verdict = _cut(wanted, [seeds], rounds, planned) or verdict
            facts = verdict._asdict() | summary(seeds, wanted, rounds).model_dump()
            what = {"metric": name, "method": method, "published": str(claim)}
            judged.append(Judged(**what, **facts, by_seed=dict(seeds)))
    return judged


def judge_statements(
    statements: Sequence[Statement],
    numbers: Mapping[str, Any],
    runs: Runs,
    planned: int,
    why_not: str,
) -> list[Judged]:
    """Return verdicts on a paper's statements about one row of a table. All are "not run" if `why_not` gives a reason."""
    judged, rounds = [], _rounds(runs)
    for claim in statements:
        name = claim.metric or next(filter(metric_or_none, numbers), "")
        verdict, difference = Verdict(NOT_RUN, why_not or claim.why_not), Measured()
        if not verdict.reason and claim.of and claim.to:
            wanted = metric(name)
            left, right = (measured(wanted, side, runs) for side in (claim.of, claim.to))
            terms = (claim.times, claim.by)
            verdict, difference = compare(wanted, claim.relation, left, right, rounds, *terms)
            verdict = _cut(wanted, [left, right], rounds, planned) or verdict
        facts = verdict._asdict() | difference.model_dump()
        judged.append(Judged(says=claim.says, metric=name, **facts))
    return judged


def _cut(wanted: Metric, values: Sequence[Seeds], rounds: int, planned: int) -> Verdict | None:
    """Return the verdict "not run" if the runs had too few rounds to measure the metric, else None."""
    if rounds >= planned or (wanted.at is not None and wanted.at <= rounds) or not any(values):
        return None
    if wanted.kind.last or any(math.isinf(v) for seeds in values for v in seeds.values()):
        return Verdict(NOT_RUN, f"cut at round {rounds} of {planned}")
    return None


def _rounds(runs: Runs) -> int:
    return max((run.rounds for seeds in runs.values() for run in seeds.values()), default=0)
