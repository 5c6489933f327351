"""The sampler `line`: it finds learning rates by halving gaps, and takes all other hyperparameters from a few settings.

The next configuration depends only on the earlier ones and their scores. Nothing is drawn at random.

1. The first setting is tried at the study's learning rate and in the middle of the widest gaps, all at once.
2. The most promising gap between rates is halved (`middle`), again and again.
3. Further rates of the algorithm, such as a server's, are searched in the same way, with two trials each.
4. Each other setting is tried once, at the best rates.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from statistics import fmean, median
from typing import Any

from suite.studies.space import Space
from trials.algorithm import existing

RATE = "lr"
"""The learning rate, a hyperparameter of every algorithm."""
SPREAD = 3
"""How many rates are tried before any result is known."""
FURTHER = 2
"""How many trials each further rate gets."""
SLOPE = 3.0
"""The rise of scores over the whole range that a gap may promise, in spreads (best - median) of the scores."""
FINEST = 1 / 64
"""A gap that is a smaller share of the range is halved only if no wider one is left."""
Score = float | None
"""The score of a trial, the larger the better, or None if it failed, diverged or broke a constraint."""
Ended = Sequence[tuple[Mapping[str, Any], Score]]
"""The configurations of ended trials in their order, each with its score."""


class RateLine:
    """A line search for an algorithm's learning rates. `settings` are values to try for all other hyperparameters. `budget` counts trials."""

    def __init__(self, space: Space, settings: Sequence[Mapping[str, Any]], budget: int) -> None:
        self.space, self.budget = space, budget
        self.settings = [*map(space.default, settings)]
        self.further: list[str] = []
        for name, spec in space.searched.items():
            if spec.rate and spec.choices is None and name != RATE:
                self.further.append(name)

    def others(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration `params` without its learning rates."""
        return {k: v for k, v in params.items() if k != RATE and k not in self.further}

    def opening(self) -> list[dict[str, Any]]:
        """Return the first configurations to try, which differ only in the learning rate. The first one has the default learning rate."""
        spec, default = self.space.ranges[RATE], self.space.default_values[RATE]
        scores: dict[float, Score] = {spec.share(default): None}
        opening = [{**self.settings[0], RATE: default}]
        while len(opening) < SPREAD:
            share = middle(scores)
            opening.append({**self.settings[0], RATE: spec.at(share)})
            scores[share] = None
        return opening

    def next(self, ended: Ended) -> dict[str, Any]:
        """Return the configuration to try next, chosen by the results of the ended trials."""
        left = self.budget - len(ended)
        others = self.settings[1:]
        best = dict(max(ended, key=_score)[0])  # among equals the earliest
        if 0 < left <= len(others):
            rates = {name: best[name] for name in (RATE, *self.further) if name in best}
            other = existing({**others[-left], **rates}, self.space.ranges)
            # An extended sweep may have tried this setting at the end of its former budget.
            if other not in map(itemgetter(0), ended):
                return other
        turn = max(0, left - len(others) - 1) // FURTHER
        # The best configuration may lack a conditional rate.
        if turn < len(self.further) and self.further[-1 - turn] in best:
            return self._halved(self.further[-1 - turn], best, ended)
        return self._halved(RATE, self.settings[0], ended)

    def _halved(self, name: str, params: Mapping[str, Any], ended: Ended) -> dict[str, Any]:
        """Return `params` with a new value of learning rate `name`: the middle of the most promising gap between tried values."""
        spec = self.space.ranges[name]
        scores: dict[float, Score] = {}
        for tried, score in ended:
            if name in tried and {**tried, name: 0} == {**params, name: 0}:
                scores[spec.share(tried[name])] = score
        return {**params, name: spec.at(middle(scores))}


def _score(trial: tuple[Mapping[str, Any], Score]) -> float:
    return -math.inf if trial[1] is None else trial[1]


def middle(scores: Mapping[float, Score]) -> float:
    """Return the middle of the most promising gap between neighbours among 0, the keys of `scores`, and 1. The promise of a gap
    is the mean score of its tried ends + `SLOPE` * its width * (best - median of all scores).
    """
    valid = sorted(score for score in scores.values() if score is not None) or [0.0]
    # A failed or diverged trial counts as the worst one: how bad it was says nothing.
    filled = {share: valid[0] if score is None else score for share, score in scores.items()}
    spread = valid[-1] - median(valid)
    shares = sorted(scores)
    gaps = []
    # Among equally promising gaps take the widest, then the lowest: small rates seldom diverge.
    for low, high in [(0.0, shares[0]), *pairwise(shares), (shares[-1], 1.0)]:
        width = high - low
        beside = fmean(filled[share] for share in (low, high) if share in filled)
        gaps.append((width > FINEST, beside + SLOPE * spread * width, width, -low))
    *_, width, minus_low = max(gaps)
    return width / 2 - minus_low
