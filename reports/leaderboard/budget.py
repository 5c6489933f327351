"""The expected score of a tuned method as a function of the tuning budget, from the trials one has.

Of N trials of a search, n drawn without replacement hold the i-th best by validation as their best with
probability (C(i, n) - C(i - 1, n)) / C(N, n), i counted from the worst: the expected test score of what n
trials choose is the mean of the test scores with these weights, which is unbiased where configurations are
independent draws (Dodge et al. 2019, whose form (i/N)^n - ((i-1)/N)^n draws with replacement and is biased).
Suggestions of a sampler that models depend on those before, and a curve is then that of its trials shuffled.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from reports.leaderboard.statistics import DIGITS, interval
from trials.run.scenario import Scenario

Trial = tuple[float, float]
"""The validation and the test score of a search trial, with the sign that more is better."""


@dataclass(frozen=True)
class Budgets:
    """The curves of a scenario's methods: entry n - 1 is the expected test score of what n trials choose, the
    mean over tunings, between `low` and `high` (None with one tuning).

    `leads` has (n, method) wherever another method begins to lead, and `settled` is the least n from which
    the order of the methods is that of the whole budget.
    """

    sweep: str
    scenario: Scenario
    expected: Mapping[str, tuple[float, ...]]
    low: Mapping[str, tuple[float | None, ...]]
    high: Mapping[str, tuple[float | None, ...]]
    leads: tuple[tuple[int, str], ...]
    settled: int


def expected_best(trials: Sequence[Trial]) -> list[float]:
    """The expected test score of the best validated of n trials, n = 1..N; of equal ones their mean."""
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
    sweep: str, scenario: Scenario, searches: Mapping[str, Sequence[Sequence[Trial]]], sign: int
) -> Budgets | None:
    """The curves of a scenario, from each method's trials by tuning; None where there is none."""
    curves = {
        name: [expected_best(tuning) for tuning in tunings if tuning]
        for name, tunings in searches.items()
    }
    curves = {name: found for name, found in curves.items() if found}
    if not curves:
        return None
    length = min(len(curve) for found in curves.values() for curve in found)
    at = {
        name: [[curve[n] for curve in found] for n in range(length)]
        for name, found in curves.items()
    }
    mean = {name: [fmean(values) for values in of] for name, of in at.items()}
    between = {name: [interval(values) for values in of] for name, of in at.items()}
    orders = [
        sorted(mean, key=lambda name, n=n: (-round(mean[name][n], DIGITS), name))  # type: ignore[misc]
        for n in range(length)
    ]
    leads = [
        (n + 1, order[0])
        for n, order in enumerate(orders)
        if n == 0 or order[0] != orders[n - 1][0]
    ]
    others = (n for n in reversed(range(length)) if orders[n] != orders[-1])
    settled = next(others, -1) + 1
    ends = (0, 1) if sign > 0 else (1, 0)

    def signed(of: Mapping[str, Sequence[float | None]]) -> dict[str, tuple[float | None, ...]]:
        return {k: tuple(None if v is None else sign * v for v in vs) for k, vs in of.items()}

    low, high = ({k: [pair[end] for pair in of] for k, of in between.items()} for end in ends)
    expected = {name: tuple(sign * v for v in of) for name, of in mean.items()}
    return Budgets(sweep, scenario, expected, signed(low), signed(high), tuple(leads), settled + 1)
