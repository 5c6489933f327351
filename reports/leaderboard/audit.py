"""How fair a row's search was: what its winner says of the ranges, of the budget and of the noise.

An audit is facts of one search. Those that may have cost the method something are its *findings*. All scores are
validation scores: no test metric takes part.
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
"""A winner is at an edge within this share of a range, on the range's scale."""
TAIL = 0.1
"""The last share of the trials, in which a search that has converged finds nothing better."""
DIVERGED = 0.25
"""The share of diverged trials from which on too much of the budget was wasted."""
PER_HYPERPARAMETER = 10
"""The fewest trials per hyperparameter that cover a search space: the usual size of a design
(Loeppky, Sacks and Welch, Technometrics 51, 2009).
"""


@dataclass(frozen=True)
class Edge:
    """A hyperparameter whose winning value is at the `low` or `high` end of its range. `wider` is the range to search next;
    None where values beyond that end have no meaning: nothing was missed there.
    """

    name: str
    value: float
    low: float
    high: float
    end: str
    wider: tuple[float, float] | None


@dataclass(frozen=True)
class Finding:
    """A fact that may have cost a method something: its `kind` (edge, rising, diverged, few) and its text."""

    kind: str
    text: str


@dataclass(frozen=True)
class Audit:
    """The facts of one row's search; what was not recorded is None.

    `hyperparameters` counts those searched, `trials` the trials, of which `diverged_share` diverged. The winner is at the
    `edges`, and ahead of the next configuration by `margin`. `late_gain` is what the last tenth of the trials improved.
    `noise` is the standard deviation of the winner's score over final seeds, `as_good` the number of other configurations
    within it.
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
    """Return the facts of a search. `tried` are its trials (number, status, val_score), `winner` is the chosen one, with
    `params` from `ranges`. `seeds` are its scores over final seeds. `sign` is -1 where less is better.
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
    # Trials are late by the order in which they were asked, not by that in which they ended.
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
    """Return the facts of a row with several searches: means over them, the `trials` of one, and the edges at which more
    winners are than by chance.

    If an end makes no difference, a winner is within `EDGE` of it with probability `EDGE`. The binomial tail is the
    probability of k or more of n. An edge counts where the tail is at most `EDGE`: 1 of 1, 2 of 2 to 7, 3 of 8.
    """
    if len(searches) == 1:
        return searches[0]
    facts = pd.DataFrame(map(vars, searches), columns=[*Audit.__dataclass_fields__])
    at = defaultdict[tuple[str, str], list[Edge]](list)
    for search in searches:
        for edge in search.edges or ():
            at[edge.name, edge.end].append(edge)
    n, often = len(searches), []
    for same in at.values():
        tail = 0.0
        for i in range(len(same), n + 1):
            tail += comb(n, i) * EDGE**i * (1 - EDGE) ** (n - i)
        if tail <= EDGE:
            often.append(same[-1])
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
    """Return the facts of an audit that may have cost the method something. An improvement in the last trials counts where
    it is larger than the seeds' noise.
    """
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
    """Return a range with one end moved out: by a factor of 10 on a log scale, by its own width on a linear one (a low
    end above 0 is halved), but at most halfway to the limit of meaningful values. None where the end is at that limit.
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
    """Return the ends of ranges at which a configuration's numbers are."""
    at = []
    for name, spec in ranges.items():
        value = params.get(name)
        if not isinstance(value, int | float) or spec.low is None or spec.high is None:
            continue
        # On the range's own scale: in the middle of a log range lies the geometric mean.
        share = spec.share(value)
        if EDGE < share < 1 - EDGE:
            continue
        end = "low" if share <= EDGE else "high"
        at.append(Edge(name, value, spec.low, spec.high, end, wider(spec, end)))
    return at
