"""What the search found out: best so far against budget, and which hyperparameters mattered."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reports.page.data import Trial
from trials.lazy import Lazy

special, stats = Lazy("scipy.special"), Lazy("scipy.stats")

LOG = 20
"""Positive values that span more than this factor are taken as searched on a log scale."""
FEWEST = 6
"""Scored trials below which importance is not estimated."""
GOOD = 0.1
"""The share of trials that importance is about: what sets them apart from all."""
STEPS = 50
"""A range is looked at on a grid of at most so many values."""


def best_so_far(trials: Sequence[Trial], up: bool) -> list[float]:
    """The best validation score of the first 1, 2, ... trials; nan until one was scored at full
    rounds.
    """
    found, best = [], math.nan
    for trial in sorted(trials, key=lambda t: t.index):
        if trial.status == "finished" and trial.value is not None:
            values = [v for v in (best, trial.value) if not math.isnan(v)]
            best = max(values) if up else min(values)
        found.append(best)
    return found


def ranks_by_budget(cells: Mapping[Any, Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Average rank over cells after 1, 2, ... trials of `cells[cell][algorithm]`, where more is
    better; algorithms that have every cell. What is not scored yet is last.
    """
    names = [
        name
        for name in dict.fromkeys(name for cell in cells.values() for name in cell)
        if all(name in cell for cell in cells.values())
    ]
    if not names:
        return {}
    length = min(len(cell[name]) for cell in cells.values() for name in names)
    values = np.array([[cell[name][:length] for name in names] for cell in cells.values()])
    ranks = stats.rankdata(-np.nan_to_num(values, nan=-np.inf), axis=1).mean(0)
    return {name: row.tolist() for name, row in zip(names, ranks, strict=True)}


def importance(trials: Sequence[Trial], up: bool) -> dict[str, float]:
    """Share of each hyperparameter in what distinguishes good trials, of those that all trials have and
    that vary, largest first; empty with too few trials.

    PED-ANOVA (Watanabe et al., IJCAI 2023), as Optuna estimates it, without Optuna: a report need not wait
    for it. Ranges are those of the values tried, on a log scale where they span a factor of `LOG`.
    """
    done = [t for t in trials if t.status == "finished" and t.value is not None]
    shared = set.intersection(*(set(t.params) for t in done)) if done else set()
    columns = {name: [t.params[name] for t in done] for name in sorted(shared)}
    columns = {name: values for name, values in columns.items() if len(set(map(str, values))) > 1}
    losses = np.array([-t.value if up else t.value for t in done if t.value is not None])
    if len(done) < FEWEST or not columns or len(set(losses)) < 2:
        return {}
    good = losses <= np.sort(losses)[math.ceil(GOOD * len(losses)) - 1]
    found = {name: _divergence(values, good) for name, values in columns.items()}
    total = sum(found.values())
    shares = {name: value / total if total else 1 / len(found) for name, value in found.items()}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _divergence(values: Sequence[Any], good: npt.NDArray[np.bool_]) -> float:
    """Pearson's divergence of the good trials' values from those of all."""
    places, size, ordered = _gridded(values)
    near, everywhere = (_density(of, size, ordered) + 1e-12 for of in (places[good], places))
    return float(everywhere @ (near / everywhere - 1) ** 2)


def _gridded(values: Sequence[Any]) -> tuple[npt.NDArray[Any], int, bool]:
    """Each value's place on a grid of the range that they may have been drawn from, how many places
    there are, and whether they have an order.
    """
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        kinds = list(dict.fromkeys(values))
        return np.array([kinds.index(v) for v in values]), len(kinds), False
    low, high, size = min(values), max(values), STEPS
    log = low > 0 and high / low > LOG
    if all(isinstance(v, int) for v in values):
        size = min(size, math.ceil(math.log2(high - low + 1)) + 1 if log else high - low + 1)
    scaled = np.log(values) if log else np.array(values, float)
    step = (scaled.max() - scaled.min()) / (size - 1)
    return np.ceil((scaled - scaled.min()) / step - 0.5).astype(int), size, True


def _density(places: npt.NDArray[Any], size: int, ordered: bool) -> npt.NDArray[Any]:
    """Parzen's estimate on the grid, of bandwidth by Scott's rule, with one observation that is
    everywhere.
    """
    at, counts = np.unique(places, return_counts=True)
    weights = np.append(counts, 1) / (len(places) + 1)
    if not ordered:
        kernels = np.full((len(at) + 1, size), 1 / (len(at) + 1))
        kernels[np.arange(len(at)), at] += 1
        return np.asarray(weights @ (kernels / kernels.sum(1, keepdims=True)))
    total, passed = len(places), np.cumsum(counts)
    mean = at @ counts / total
    deviation = np.sqrt((at - mean) ** 2 @ counts / max(1, total - 1))
    first = int(np.searchsorted(passed, total // 4, side="left"))
    third = int(np.searchsorted(passed, total * 3 // 4, side="right"))
    quartiles = at[min(len(at) - 1, third)] - at[first]
    width = max(1.059 * min(quartiles / 1.34, deviation) * total**-0.2, 0.5 / 1.64)
    centres, widths = np.append(at, (size - 1) / 2), np.append(np.full(len(at), width), size)
    edges = np.arange(size + 1) - 0.5
    below = special.ndtr((edges - centres[:, None]) / widths[:, None])
    return np.asarray(weights @ (np.diff(below) / (below[:, -1:] - below[:, :1])))
