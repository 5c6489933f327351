"""Early stopping: asynchronous successive halving, each entry with its own, none ever mixing entries.

It is shown (trial, round, validation score) at an entry's `stops` and says whether the trial ends there.
Rungs are rebuilt from the journal.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from suite.search.trial import TrialRequest
from suite.studies.entry import Entry
from trials.run.outcome import TrialKind, TrialResult

REDUCTION = 3
"""ASHA keeps the best third of the trials that reach a stop."""
CUTOFF = (1 - 1 / REDUCTION) * 100
"""The percentile of a stop's scores below which a trial ends."""


class Halving:
    """Asynchronous successive halving (Li et al. 2020), as Ray's `ASHAScheduler` has it in one bracket: a
    trial ends at a stop where its score is below the upper third, percentile 100 (1 - 1/3), of the scores of
    the trials that came there before it.
    """

    def __init__(self, entry: Entry) -> None:
        self.sign = entry.task.sign
        self.rungs: dict[int, dict[str, float]] = {at: {} for at in entry.stops}
        """By stop: the signed score of each trial that came there."""

    def stops(self, trial_id: str, round_index: int, value: float) -> bool:
        """Record that a trial of the entry scored `value`; return whether it ends here."""
        reached = [rung for at, rung in self.rungs.items() if at <= round_index]
        if not reached or trial_id in reached[-1]:
            return False
        rung, score = reached[-1], self.sign * value
        ends = bool(rung) and score < np.nanpercentile(list(rung.values()), CUTOFF)
        rung[trial_id] = score
        return bool(ends)


SCHEDULERS: dict[str, Callable[[Entry], Halving] | None] = {"none": None, "asha": Halving}
"""What stops trials."""


class EntrySchedulers:
    """One scheduler per search of an entry; final and confirming runs are left alone."""

    def __init__(
        self, entries: Sequence[Entry], requests: Mapping[str, TrialRequest], scheduler: str
    ) -> None:
        self.requests, self._make = requests, SCHEDULERS[scheduler]
        self._entries = {entry.id: entry for entry in entries}
        self.searches: dict[str, Halving] = {}

    def decide(self, trial_id: str, round_index: int, value: float) -> bool:
        """Return whether a trial that scored a finite `value` ends after this round."""
        request = self.requests[trial_id]
        if self._make is None or request.kind != TrialKind.SEARCH:
            return False
        entry = self._entries[request.entry_id]
        if round_index not in entry.stops:
            return False
        if request.search not in self.searches:
            self.searches[request.search] = self._make(entry)
        return self.searches[request.search].stops(trial_id, round_index, value)

    def replay(self, ended: Mapping[str, TrialResult]) -> None:
        """Rebuild from what trials reported before a restart."""
        for trial_id, outcome in ended.items():
            # The last report of a trial that ended by itself was never shown to a scheduler.
            by_itself = outcome.status.ran_to_its_end
            last = outcome.history[-1]["round"] if by_itself and outcome.history else None
            for round_index, value in outcome.intermediates.items():
                if round_index != last:
                    self.decide(trial_id, round_index, value)
