"""The sampler `line`: rates are found by halving gaps on a line, everything else is taken from a few settings.

What is tried next is a function of the configurations so far and how they ended, and of nothing else: no number is drawn.

1. The first setting with the study's own rate, and with rates in the middle of the widest gaps: all at once.
2. The gap that promises most is halved (`middle`).
3. Further rates of the algorithm, such as a server's, are halved in the same way, two trials each.
4. The other settings, at the rates found.
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
"""The hyperparameter that all algorithms have."""
SPREAD = 3
"""Rates that are tried before any result is in."""
FURTHER = 2
"""Trials for each further rate."""
SLOPE = 3.0
"""By how many times the scores' spread a score may rise from one end of the range to the other: it makes wide gaps promising."""
FINEST = 1 / 64
"""The share of the range below which a gap is halved only where no wider one is left."""
Score = float | None
"""How good a trial was, the larger the better; None of one that did not end well."""
Ended = Sequence[tuple[Mapping[str, Any], Score]]
"""Configurations in the order of their trials, with how good they were."""


class RateLine:
    """What to try of a space with these settings, in a budget of trials, the known configurations among them."""

    def __init__(self, space: Space, settings: Sequence[Mapping[str, Any]], budget: int) -> None:
        self.space, self.budget = space, budget
        self.settings = [*map(space.default, settings)]
        self.further: list[str] = []
        for name, spec in space.searched.items():
            if spec.rate and spec.choices is None and name != RATE:
                self.further.append(name)

    def others(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of a configuration is no rate."""
        return {k: v for k, v in params.items() if k != RATE and k not in self.further}

    def opening(self) -> list[dict[str, Any]]:
        """Return what is tried whatever comes out: the first setting at the study's rate and at rates spread from it."""
        spec, own = self.space.ranges[RATE], self.space.default_values[RATE]
        scores: dict[float, Score] = {spec.share(own): None}
        opening = [{**self.settings[0], RATE: own}]
        while len(opening) < SPREAD:
            share = middle(scores)
            opening.append({**self.settings[0], RATE: spec.at(share)})
            scores[share] = None
        return opening

    def next(self, ended: Ended) -> dict[str, Any]:
        """Return the configuration to try after these."""
        left = self.budget - len(ended)
        others = self.settings[1:]
        best = dict(max(ended, key=_score)[0])  # of equal ones the earliest
        if 0 < left <= len(others):
            rates = {name: best[name] for name in (RATE, *self.further) if name in best}
            other = existing({**others[-left], **rates}, self.space.ranges)
            # A sweep that was extended may have tried it at the end of its former budget.
            if other not in map(itemgetter(0), ended):
                return other
        turn = max(0, left - len(others) - 1) // FURTHER
        # The best may lack a rate that only some configurations have.
        if turn < len(self.further) and self.further[-1 - turn] in best:
            return self._halved(self.further[-1 - turn], best, ended)
        return self._halved(RATE, self.settings[0], ended)

    def _halved(self, name: str, params: Mapping[str, Any], ended: Ended) -> dict[str, Any]:
        """Return the configuration in the middle of the gap to look into, of those that differ in one rate alone."""
        spec = self.space.ranges[name]
        scores: dict[float, Score] = {}
        for tried, score in ended:
            if name in tried and {**tried, name: 0} == {**params, name: 0}:
                scores[spec.share(tried[name])] = score
        return {**params, name: spec.at(middle(scores))}


def _score(trial: tuple[Mapping[str, Any], Score]) -> float:
    return -math.inf if trial[1] is None else trial[1]


def middle(scores: Mapping[float, Score]) -> float:
    """Return the middle of the gap that promises most, of those between shares of a range with a score each and its ends: the mean
    of the scores beside it, and the more the wider it is. Beyond the outermost share scores count as that one's.
    """
    known = sorted(score for score in scores.values() if score is not None) or [0.0]
    # What diverged says where not to look; how far off its score is says nothing.
    filled = {share: known[0] if score is None else score for share, score in scores.items()}
    spread = known[-1] - median(known)
    shares = sorted(scores)
    gaps = []
    # Of gaps that promise alike the widest is halved, and of these the lowest: small rates seldom diverge.
    for low, high in [(0.0, shares[0]), *pairwise(shares), (shares[-1], 1.0)]:
        width = high - low
        beside = fmean(filled[share] for share in (low, high) if share in filled)
        gaps.append((width > FINEST, beside + SLOPE * spread * width, width, -low))
    *_, width, below = max(gaps)
    return width / 2 - below
