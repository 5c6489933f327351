"""Audits of searches: whether the ranges, the number of trials and the noise were fair to the method of a row.

An audit has facts about one search. *Findings* are those facts that may have lowered the method's score. All scores
are validation scores; no test metric is used.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, comb
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from reports.leaderboard.statistics import DIGITS
from trials.algorithm import Range
from trials.common.lazy import Lazy
from trials.run.outcome import Status

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")

EDGE = 0.05
"""A value is at an end of its range if it lies within this share of the range's width (on the range's own scale)."""
TAIL = 0.1
"""The share of the last trials in which a search that has converged should find nothing better."""
DIVERGED = 0.25
"""The smallest share of diverged trials that is a finding, since it wastes so much of the budget."""
PER_HYPERPARAMETER = 10
"""The number of trials per hyperparameter below which a search is too short, from the rule for computer experiments
(Loeppky, Sacks and Welch, Technometrics 51, 2009).
"""


@dataclass(frozen=True)
class Edge:
    """A hyperparameter whose winning `value` is at an `end` ("low" or "high") of its range from `low` to `high`. `wider` is
    the range to search next; it is None if values beyond that end have no meaning, so that nothing was missed.
    """

    name: str
    value: float
    low: float
    high: float
    end: str
    wider: tuple[float, float] | None


@dataclass(frozen=True)
class Finding:
    """A fact of a search that may have lowered the method's score: its kind (edge, rising, diverged, few) and its text."""

    kind: str
    text: str


@dataclass(frozen=True)
class Audit:
    """The facts of one row's search; a fact that was not recorded is None.

    `hyperparameters` and `trials` are the numbers of searched hyperparameters and of trials, `diverged_share` is the share of
    trials that diverged. `edges` lists the winner's values at an end of their range. `margin` is the winner's lead over the
    second best, `late_gain` the improvement of the best score by the last tenth of the trials. `noise` is the
    standard deviation of the winner's score over final seeds, `as_good` the number of other configurations within `noise`.
    """

    hyperparameters: int | None
    trials: int
    diverged_share: float
    edges: tuple[Edge, ...] | None
    late_gain: float | None
    margin: float | None
    noise: float | None
    as_good: int | None
    findings: tuple[Finding, ...] = ()


def audit(
    tried: "pd.DataFrame",
    winner: int | None,
    params: Mapping[str, Any],
    ranges: Mapping[str, Range] | None,
    seeds: Sequence[float],
    sign: int,
) -> Audit:
    """Return the measurements of one search, from which an audit's findings are derived. `tried` has a row per trial, with columns
    number, status and val_score. `winner` is the best trial's number, `params` its hyperparameters, and `seeds` its validation
    scores in final runs. `ranges` are the searched ranges. `sign` is -1 if less is better, else 1.
    """
    done = tried[tried["status"] == Status.FINISHED].dropna(subset="val_score")
    scores = (sign * done["val_score"].astype(float)).set_axis(done["number"])
    noise = stdev(seeds) if len(seeds) > 1 else None
    margin = as_good = late_gain = None
    if winner is not None and winner in scores:
        gaps = scores[winner] - scores.drop(winner)
        margin = float(gaps.min()) if len(gaps) else None
        if noise is not None:
            as_good = int(((gaps - noise).round(DIGITS) <= 0).sum())
    # The order of trials is that in which they were proposed, not that in which they ended.
    early = scores[scores.index < len(tried) - ceil(TAIL * len(tried))]
    if len(early):
        late_gain = round(float(scores.max() - early.max()), DIGITS)
    return Audit(
        hyperparameters=None if ranges is None else len(ranges),
        trials=len(tried),
        diverged_share=sum(tried["status"] == Status.DIVERGED) / max(1, len(tried)),
        edges=None if ranges is None else tuple(edges(params, ranges)),
        late_gain=late_gain,
        margin=margin,
        noise=noise,
        as_good=as_good,
    )


def combined(searches: Sequence[Audit]) -> Audit:
    """Combine the audits of a row's searches into one. Numbers become means; `trials` becomes the maximum. An edge is a
    hyperparameter whose best value is at an end of its range. Keep an edge only if more searches have it than chance
    explains, such as 2 of 7 or 3 of 16. (A binomial test at level 5 %: by chance, a search has an edge with probability 5 %.)
    """
    if len(searches) == 1:
        return searches[0]
    facts = pd.DataFrame(map(vars, searches), columns=[*Audit.__dataclass_fields__])
    by_end = defaultdict[tuple[str, str], list[Edge]](list)
    for search in searches:
        for edge in search.edges or ():
            by_end[edge.name, edge.end].append(edge)
    n, often = len(searches), []
    for edges_there in by_end.values():
        tail = 0.0
        for i in range(len(edges_there), n + 1):
            tail += comb(n, i) * EDGE**i * (1 - EDGE) ** (n - i)
        if tail <= EDGE:
            often.append(edges_there[-1])
    as_good = _mean(facts["as_good"])
    return Audit(
        hyperparameters=searches[0].hyperparameters if searches else None,
        trials=max(facts["trials"], default=0),
        diverged_share=_mean(facts["diverged_share"]) or 0.0,
        edges=None if facts["edges"].isna().any() else tuple(often),
        late_gain=_mean(facts["late_gain"]),
        margin=_mean(facts["margin"]),
        noise=_mean(facts["noise"]),
        as_good=None if as_good is None else round(as_good),
    )


def findings(facts: Audit) -> tuple[Finding, ...]:
    """Return the facts that may have lowered the method's score, such as too few trials, or many that diverged."""
    costly = []
    for edge in facts.edges or ():
        if edge.wider is not None:
            low, high = edge.wider
            at = f"at the {edge.end} end of {edge.low:g}..{edge.high:g}, wider: {low:g}..{high:g}"
            costly.append(Finding("edge", f"{edge.name}={edge.value:.4g} {at}"))
    if facts.late_gain and facts.late_gain > (facts.noise or 0.0):
        text = f"its last tenth of the trials still improved the best by {facts.late_gain:.4f}"
        costly.append(Finding("rising", text))
    if facts.diverged_share >= DIVERGED:
        costly.append(Finding("diverged", f"{facts.diverged_share:.0%} of its trials diverged"))
    if facts.hyperparameters and facts.trials < PER_HYPERPARAMETER * facts.hyperparameters:
        text = f"{facts.hyperparameters} hyperparameters in {facts.trials} trials"
        costly.append(Finding("few", text))
    return tuple(costly)


def wider(spec: Range, end: str) -> tuple[float, float] | None:
    """Return a wider range, with its "low" or "high" end moved outward. On a log scale an end moves by a factor of 10. On a
    linear scale it moves by the width of the range, but a low end above 0 is halved. An end that would reach the limit of
    meaningful values moves halfway to this limit. Return None for an end at the limit.
    """
    assert spec.low is not None
    assert spec.high is not None
    low, high, limit = spec.low, spec.high, spec.limits[end == "high"]
    if end == "high":
        moved = high * 10 if spec.log else 2 * high - low
        if limit is not None and moved >= limit:
            moved = (high + limit) / 2
        return None if limit == high else (low, moved)
    moved = low / 10 if spec.log else low / 2 if low > 0 else 2 * low - high
    if limit is not None and moved <= limit:
        moved = (low + limit) / 2
    return None if limit == low else (moved, high)


def _mean(values: "pd.Series[float]") -> float | None:
    numbers = values.dropna()
    return fmean(numbers) if len(numbers) else None


def edges(params: Mapping[str, Any], ranges: Mapping[str, Range]) -> list[Edge]:
    """Return each hyperparameter in `params` whose numeric value is at an end of its range."""
    at_end = []
    for name, spec in ranges.items():
        value = params.get(name)
        if not isinstance(value, int | float) or spec.low is None or spec.high is None:
            continue
        # The share is on the range's own scale: 0.5 of a log range is the geometric mean of its ends.
        share = spec.share(value)
        if EDGE < share < 1 - EDGE:
            continue
        end = "low" if share <= EDGE else "high"
        at_end.append(Edge(name, value, spec.low, spec.high, end, wider(spec, end)))
    return at_end
