"""The expected score of a tuned method as a function of the tuning budget, from the trials one has.

Of N trials of a search, n drawn without replacement hold the i-th best by validation as their best with
probability (C(i, n) - C(i - 1, n)) / C(N, n), i counted from the worst: the expected score of what n
trials choose is the mean of the scores with these weights, which is unbiased where configurations are
independent draws (Dodge et al. 2019, whose form (i/N)^n - ((i-1)/N)^n draws with replacement and is biased).
Suggestions of a sampler that models depend on those before, and a curve is then that of its trials shuffled.

A trial's score is the one that ranks: the mean of the last evaluations on test data, the untrained model's where it
diverged. The one that the search chose is first, with the mean of its final runs. So at the whole budget a curve is the
mean in the table.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from reports.leaderboard.replication import Draw, Mean, Scores, mean_of
from trials.run.scenario import Scenario

Trial = tuple[float, float]
"""The validation score of a search trial and the score that ranks, with the sign that more is better. Validation is
infinite for what was chosen, and minus infinite for what cannot be.
"""
Replicate = tuple[int, ...]
"""What an independent search was drawn by: split, partition and tuning."""


class Tuning(NamedTuple):
    """The search trials of a method by replicate, and its final runs."""

    trials: Mapping[Replicate, Sequence[Trial]]
    finals: Scores


@dataclass(frozen=True)
class Budgets:
    """The curves of a scenario's methods: entry n - 1 is the expected score of what n trials choose, the mean over
    final runs, between `low` and `high` (`mean_of`; None with fewer than three tunings). A search with fewer trials
    than others keeps its last score.
    """

    sweep: str
    scenario: Scenario
    expected: Mapping[str, tuple[float, ...]]
    low: Mapping[str, tuple[float | None, ...]]
    high: Mapping[str, tuple[float | None, ...]]


def expected_best(trials: Sequence[Trial]) -> list[float]:
    """The expected score of the best validated of n trials, n = 1..N; of equal ones their mean."""
    total, at = len(trials), defaultdict[float, list[float]](list)
    for validation, test in trials:
        at[validation].append(test)
    tests = [fmean(at[validation]) for validation, _ in sorted(trials)]
    n = np.arange(1, total + 1)
    chance, mean = n / total, np.zeros(total)
    for i in range(total, 0, -1):  # of the best; the one before has (i - n) / (i - 1) times as much
        mean[:i] += chance[:i] * tests[i - 1]
        chance[:i] *= (i - n[:i]) / max(1, i - 1)
    return [float(value) for value in mean]


def budgets(
    sweep: str, scenario: Scenario, methods: Mapping[str, Tuning], sign: int
) -> Budgets | None:
    """The curves of a scenario's methods; None where there is none."""
    if not methods:
        return None
    length = max(len(trials) for of in methods.values() for trials in of.trials.values())
    at = {name: _over_budgets(of, length) for name, of in methods.items()}
    mean = {name: [of.mean for of in found] for name, found in at.items()}
    between = {name: [of.interval() for of in found] for name, found in at.items()}
    ends = (0, 1) if sign > 0 else (1, 0)

    def signed(of: Mapping[str, Sequence[float | None]]) -> dict[str, tuple[float | None, ...]]:
        return {k: tuple(None if v is None else sign * v for v in vs) for k, vs in of.items()}

    low, high = ({k: [pair[end] for pair in of] for k, of in between.items()} for end in ends)
    expected = {name: tuple(sign * v for v in of) for name, of in mean.items()}
    return Budgets(sweep, scenario, expected, signed(low), signed(high))


def _over_budgets(of: Tuning, length: int) -> list[Mean]:
    """The mean of a method's final runs, had each repeated what 1, 2, ... `length` trials of its search choose."""
    curves = {replicate: expected_best(trials) for replicate, trials in of.trials.items()}

    def chosen(draw: Draw, n: int) -> float:
        curve = curves[draw[:-1]]
        return curve[min(n, len(curve) - 1)]

    return [mean_of({draw: chosen(draw, n) for draw in of.finals}) for n in range(length)]
