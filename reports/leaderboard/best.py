"""Comparisons with the best of a scenario: one rule gives marks, intervals and ties. No torch.

    P(all that is said of a scenario is true) >= 0.95,

whichever method is the best in expectation. For k methods, gap_ij is the mean of their paired differences, on
the draws they share, and

    error_ij = sqrt(max(own variance of the pair, variance pooled over all pairs) * weight_ij),
    w_ij = t_{f, 1 - 0.05 / (2 (k - 1))} error_ij,    f = 2 / k * (the freedoms of all pairs),

which is (k - 1)(n - 1) where n units are complete. Pooling keeps a pair whose few searches hold no failure from
looking certain: the others of the scenario show what a failure costs. Let b be the best. With
probability 0.95 all k - 1 true differences from b lie within gap_ib -+ w_ib (Bonferroni), and then (Hsu 1984; Edwards and
Hsu 1983)

- b is a candidate, a method that no other is ahead of by more than w;
- a method that is no candidate is not the best;
- a method i is behind the best by no more than max_j (gap_ji + w_ij) and, if it is no candidate, by no less than
  min_j (gap_ji - w_ij), j over the candidates other than i.

So marks, intervals and ties share one error, and cannot contradict each other. `benchmarks/calibration.py` simulates the
rule: docs/statistics.md has its error rates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from reports.leaderboard.replication import Gap, Scores, gap_of, pool
from reports.leaderboard.statistics import LEVEL, quantile


@dataclass(frozen=True)
class Behind:
    """How far a method is behind the best of its scenario, whichever that is: between `low` and `high`.

    `beaten_by` are the rivals that are shown to be ahead; where there are any, the method is shown not to be the
    best. `tie`: whether it may be the best, and is shown to be within the study's margin of it.
    """

    low: float
    high: float
    beaten_by: tuple[str, ...] = ()
    tie: bool = False


def behind_best(
    scenario: Mapping[str, Scores],
    sign: int = 1,
    margin: float | None = None,
    references: Mapping[str, Scores] | None = None,
) -> dict[str, Behind]:
    """What is shown of each method, `scenario[method][draw]`; `sign` is -1 where less is better. Empty where there is
    nothing to estimate an error from, unless all runs are equal. References are no candidates: a negative `low` says that one may be ahead.
    """
    gaps = {(a, b): gap_of(scenario[b], scenario[a], sign) for a, b in combinations(scenario, 2)}
    pooled = pool(gaps.values(), len(scenario))
    if pooled is None:
        same = any(gap.freedom for gap in gaps.values()) and not any(
            gap.mean for gap in gaps.values()
        )
        return {name: Behind(0.0, 0.0) for name in scenario} if same else {}
    tail = (1 - LEVEL) / (2 * (len(scenario) - 1))
    factor = quantile(1 - tail, pooled.freedom)

    def width(gap: Gap) -> float:
        return factor * pooled.error(gap)

    ahead: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in scenario}
    for (a, b), gap in gaps.items():
        if gap.weight:
            ahead[a][b] = gap.mean, width(gap)  # by how much b is ahead of a
            ahead[b][a] = -gap.mean, width(gap)
    beaten = {
        name: tuple(rival for rival, (mean, w) in rivals.items() if mean > w)
        for name, rivals in ahead.items()
    }
    candidates = [name for name in scenario if not beaten[name]]
    found = {}
    for name, rivals in ahead.items():
        ends = [rivals[other] for other in candidates if other in rivals]
        high = max((mean + w for mean, w in ends), default=0.0)
        low = min((mean - w for mean, w in ends), default=0.0) if beaten[name] else 0.0
        tie = margin is not None and bool(ends) and not beaten[name] and high <= margin
        found[name] = Behind(max(0.0, low), max(0.0, high), beaten[name], tie)
    for name, scores in (references or {}).items():
        against = [gap_of(scenario[other], scores, sign) for other in candidates]
        known = [gap for gap in against if gap.weight]
        if known:
            found[name] = Behind(
                min(gap.mean - width(gap) for gap in known),
                max(gap.mean + width(gap) for gap in known),
            )
    return found
