"""What the search found out: best so far against budget, and which hyperparameters mattered."""

import math
import warnings
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from reports.charts.data import TrialPoint
from trials.common.lazy import Lazy

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

stats = Lazy("scipy.stats")

LOG = 20
"""Positive values that span more than this factor are taken as searched on a log scale."""
FEWEST = 6
"""Scored trials below which importance is not estimated."""
Scored = tuple[Mapping[str, Any], float]
"""The params of a search trial that ran to its end, and its validation score."""


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


def importance(trials: Sequence[Scored], up: bool) -> dict[str, float]:
    """Share of each hyperparameter in what distinguishes good trials (Optuna's default estimator,
    PED-ANOVA), of those that all trials have and that vary; empty with too few trials.

    Ranges are those of the values tried, on a log scale where they span a factor of `LOG`. Sweeps
    record what comes out, so that readers need no Optuna.
    """
    import optuna

    shared = set.intersection(*(set(params) for params, _ in trials)) if trials else set()
    ranges = {name: _range([params[name] for params, _ in trials]) for name in sorted(shared)}
    known = {name: found for name, found in ranges.items() if found is not None}
    values = {value for _, value in trials}
    if len(trials) < FEWEST or not known or len(values) < 2:
        return {}
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize" if up else "minimize")
    for params, value in trials:
        own = {name: params[name] for name in known}
        study.add_trial(optuna.create_trial(params=own, distributions=dict(known), value=value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = optuna.importance.get_param_importances(study)
    optuna.logging.set_verbosity(before)
    return {name: float(share) for name, share in found.items() if math.isfinite(share)}


def _range(values: Sequence[Any]) -> "BaseDistribution | None":
    """The distribution that these values may have been drawn from; None when they are all equal."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if len({str(value) for value in values}) < 2:
        return None
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return CategoricalDistribution(list(dict.fromkeys(values)))
    low, high = min(values), max(values)
    log = low > 0 and high / low > LOG
    if all(isinstance(v, int) for v in values):
        return IntDistribution(low, high, log=log)
    return FloatDistribution(float(low), float(high), log=log)
