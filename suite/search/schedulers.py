"""Early stopping: the schedulers there are, each entry with its own, none ever mixing entries.

A scheduler is shown (trial, round, validation score) at an entry's `stops` and says whether the trial
ends there. Rungs and curves are rebuilt from the journal: `record` takes what was seen before.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from typing import Protocol

import numpy as np

from suite.search.trial import TrialRequest
from suite.studies.entry import Entry
from trials.run.outcome import TrialKind
from trials.run.result import TrialResult

REDUCTION = 3
"""ASHA keeps the best third of the trials that reach a stop."""
CUTOFF = (1 - 1 / REDUCTION) * 100
"""The percentile of a stop's scores below which a trial ends."""
MEDIAN_OF = 3
"""The fewest other trials that a median is taken over."""


class Scheduler(Protocol):
    """Decides for the search trials of one entry."""

    def stops(self, index: int, trial_id: str, round_index: int, value: float) -> bool:
        """Record that trial `index` of the entry scored `value`; whether it ends here."""

    def record(self, index: int, trial_id: str, round_index: int, value: float) -> None:
        """Record a score whose decision was taken before a restart."""


class Halving:
    """Asynchronous successive halving (Li et al. 2020) in brackets, each as Ray's `ASHAScheduler` has it: a
    trial ends at a stop where its score is below the upper third, percentile 100 (1 - 1/3), of the scores of
    the trials that came there before it.

    A bracket is the stop that it first decides at. ASHA has one, the first stop. HyperBand
    (Li et al. 2018) has one for each of the k stops and one that never stops a trial, partitioned in
    HyperBand's proportions n_s = ceil((k + 1) / (s + 1) * 3^s), s the stops of the bracket, evenly
    over the trials' numbers: a trial's bracket depends on its number alone.
    """

    def __init__(self, entry: Entry, brackets: int) -> None:
        count = len(entry.stops)
        sizes = {
            first: -(-(count + 1) * REDUCTION ** (count - first) // (count - first + 1))
            for first in range(min(brackets, count + 1))
        }
        places = [((j + 0.5) / size, first) for first, size in sizes.items() for j in range(size)]
        self.partition = [first for _, first in sorted(places)]
        self.sign = entry.task.sign
        self.rungs: dict[int, dict[int, dict[str, float]]] = {
            first: {at: {} for at in entry.stops[first:]} for first in sizes
        }
        """By bracket and stop: the signed score of each trial that came there."""

    def stops(self, index: int, trial_id: str, round_index: int, value: float) -> bool:
        """Whether the trial is below the best third of those that came to this stop before it."""
        rungs = self.rungs[self.partition[index % len(self.partition)]]
        reached = [rung for at, rung in rungs.items() if at <= round_index]
        if not reached or trial_id in reached[-1]:
            return False
        rung, score = reached[-1], self.sign * value
        ends = bool(rung) and score < np.nanpercentile(list(rung.values()), CUTOFF)
        rung[trial_id] = score
        return bool(ends)

    def record(self, index: int, trial_id: str, round_index: int, value: float) -> None:
        """Give the trial its place on the rung."""
        self.stops(index, trial_id, round_index, value)


class Median:
    """The median stopping rule (Golovin et al. 2017, as Ray's `MedianStoppingRule` has it): a trial
    ends when its best score so far is worse than the median of the running means, up to the same
    round, of the other trials that came as far; with fewer than `MEDIAN_OF` of them it goes on.
    """

    def __init__(self, entry: Entry) -> None:
        self.sign = entry.task.sign
        self.curves: dict[str, dict[int, float]] = defaultdict(dict)

    def stops(self, index: int, trial_id: str, round_index: int, value: float) -> bool:
        """Whether the trial is worse than the median of the others."""
        self.record(index, trial_id, round_index, value)
        means = [
            fmean(v for at, v in curve.items() if at <= round_index)
            for other, curve in self.curves.items()
            if other != trial_id and max(curve) >= round_index
        ]
        if len(means) < MEDIAN_OF:
            return False
        best = max(self.sign * v for v in self.curves[trial_id].values())
        return best < self.sign * median(means)

    def record(self, index: int, trial_id: str, round_index: int, value: float) -> None:
        """Add the score to the trial's curve."""
        self.curves[trial_id][round_index] = value


SCHEDULERS: dict[str, Callable[[Entry], Scheduler] | None] = {
    "none": None,
    "asha": lambda entry: Halving(entry, brackets=1),
    "hyperband": lambda entry: Halving(entry, brackets=len(entry.stops) + 1),
    "median": Median,
}
"""What stops trials."""


class EntrySchedulers:
    """One scheduler per search of an entry; final and confirming runs are left alone."""

    def __init__(
        self, entries: Sequence[Entry], requests: Mapping[str, TrialRequest], scheduler: str
    ) -> None:
        make = SCHEDULERS[scheduler]
        self.requests = requests
        self.stops = {entry.id: set(entry.stops) for entry in entries}
        self._makes = {} if make is None else {c.id: partial(make, c) for c in entries if c.stops}
        self.entries = {entry_id: of() for entry_id, of in self._makes.items()}

    def decide(self, trial_id: str, round_index: int, value: float) -> bool:
        """Whether a trial that scored a finite `value` ends after this round."""
        request = self.requests[trial_id]
        if not self._decides(request, round_index):
            return False
        return self._of(request).stops(request.index, trial_id, round_index, value)

    def replay(self, ended: Mapping[str, TrialResult]) -> None:
        """Rebuild from what trials reported before a restart."""
        for trial_id, outcome in ended.items():
            # The last report of a trial that ended by itself was never shown to a scheduler.
            by_itself = outcome.status.ran_to_its_end
            last = outcome.history[-1]["round"] if by_itself and outcome.history else None
            request = self.requests[trial_id]
            for round_index, value in outcome.intermediates.items():
                if round_index != last and self._decides(request, round_index):
                    self._of(request).record(request.index, trial_id, round_index, value)

    def _decides(self, request: TrialRequest, round_index: int) -> bool:
        searches = request.kind == TrialKind.SEARCH and request.entry_id in self.entries
        return searches and round_index in self.stops[request.entry_id]

    def _of(self, request: TrialRequest) -> Scheduler:
        """The scheduler of the search that a trial is part of; of a further replicate made when first met."""
        if request.search not in self.entries:
            self.entries[request.search] = self._makes[request.entry_id]()
        return self.entries[request.search]
