"""What the search found out: the best so far against budget."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from reports.charts.data import TrialPoint
from trials.common.lazy import Lazy

stats = Lazy("scipy.stats")


def best_so_far(trials: Sequence[TrialPoint], up: bool) -> list[float]:
    """The best validation score of the first 1, 2, ... trials; nan until one was scored at full
    rounds. Of an entry that was searched several times the mean of its searches.
    """
    searches: dict[str, list[TrialPoint]] = {}
    for trial in trials:
        searches.setdefault(trial.replicate, []).append(trial)
    curves = [_best_so_far(of, up) for of in searches.values()]
    return [fmean(values) for values in zip(*curves, strict=False)]


def _best_so_far(trials: Sequence[TrialPoint], up: bool) -> list[float]:
    found, best = [], math.nan
    for trial in sorted(trials, key=lambda t: t.index):
        if trial.status == "finished" and trial.value is not None:
            values = [v for v in (best, trial.value) if not math.isnan(v)]
            best = max(values) if up else min(values)
        found.append(best)
    return found


def ranks_by_budget(
    scenarios: Mapping[Any, Mapping[str, Sequence[float]]],
) -> dict[str, list[float]]:
    """Average rank over scenarios after 1, 2, ... trials of `scenarios[scenario][algorithm]`, where more is
    better; algorithms that have every scenario. What is not scored yet is last.
    """
    names = [
        name
        for name in dict.fromkeys(name for scenario in scenarios.values() for name in scenario)
        if all(name in scenario for scenario in scenarios.values())
    ]
    if not names:
        return {}
    length = min(len(scenario[name]) for scenario in scenarios.values() for name in names)
    values = np.array(
        [[scenario[name][:length] for name in names] for scenario in scenarios.values()]
    )
    ranks = stats.rankdata(-np.nan_to_num(values, nan=-np.inf), axis=1).mean(0)
    return {name: row.tolist() for name, row in zip(names, ranks, strict=True)}
