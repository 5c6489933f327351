"""How probable a statement is under a reading: Student's t on what our runs say of the difference that it is about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from reports.claims.verdicts import (
    FAILED,
    REPRODUCED,
    AgreementRange,
    Verdict,
    VerdictSummary,
)
from reports.claims.weights import pooled, tails
from reports.leaderboard.statistics import half_width


@dataclass(frozen=True)
class Sample:
    """What runs under a reading say of a statement: the mean, the variance of a run, how many ran, and the means that agree.
    `certain`: the probability where runs have no mean, since they diverge or never get there.
    """

    range: AgreementRange
    mean: float
    variance: float
    runs: int
    certain: float | None = None

    @classmethod
    def of(cls, range_: AgreementRange, said: Verdict, gap: VerdictSummary | None) -> Self:
        """From what `reports.claims.verdicts.compare` says of it."""
        if gap is None:
            certain = {REPRODUCED: 1.0, FAILED: 0.0}.get(said.verdict, 0.5)
            return cls(range_, 0.0, 0.0, 0, certain)
        spread = gap.half / half_width(1.0, gap.seeds) if gap.seeds > 1 else 0.0
        return cls(range_, gap.mean, spread**2, gap.seeds)


class Chance(NamedTuple):
    """The probabilities that a mean lies below, within or above what agrees with a statement."""

    below: float
    within: float
    above: float


def chances(samples: Mapping[int, Sample]) -> dict[int, Chance]:
    """A statement under each reading, by number; readings with one run say nothing."""
    found = {
        n: Chance(0.0, one.certain, 1 - one.certain)
        for n, one in samples.items()
        if one.certain is not None
    }
    known = {n: one for n, one in samples.items() if n not in found and one.runs > 1}
    if known:
        facts = np.array(
            [
                (s.range.low - s.mean, s.range.high - s.mean, s.variance, s.runs)
                for s in known.values()
            ]
        )
        low, high, variances, runs = facts.T
        spread = pooled(variances[:, None], runs)[:, 0]
        columns = tails(low, high, spread, runs).T.tolist()
        found |= {n: Chance(*column) for n, column in zip(known, columns, strict=True)}
    return found
