"""Early stopping of search trials by asynchronous successive halving (ASHA), separately in each search."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import Entry
from trials.run.outcome import Status, TrialKind

REDUCTION = 3
"""ASHA keeps the best third of the trials that reach a stop."""
CUTOFF = (1 - 1 / REDUCTION) * 100
"""The percentile of the scores at a stop below which a trial ends."""


class EntrySchedulers:
    """Asynchronous successive halving (ASHA, Li et al. 2020), with one bracket as in Ray's `ASHAScheduler`. A search trial ends
    at one of the `stops` of its entry if its score is below the upper third of the earlier scores there.
    """

    def __init__(
        self, entries: Sequence[Entry], requests: Mapping[str, TrialRequest], scheduler: str
    ) -> None:
        self.requests, self.scheduler = requests, scheduler
        self._entries = {entry.id: entry for entry in entries}
        self.rungs: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
        """For each (search, stop): the score of each trial that reached the stop, by trial id, the larger the better."""

    def stops(self, request: TrialRequest) -> tuple[int, ...]:
        """Return the rounds after which a run may be stopped early. Without a scheduler, and for confirming and final runs, return ()."""
        if self.scheduler == "none" or request.kind != TrialKind.SEARCH:
            return ()
        return self._entries[request.entry_id].stops

    def decide(self, trial_id: str, round_index: int, value: float) -> bool:
        """Record the finite validation score of a trial after a round, and return whether the trial must end."""
        request = self.requests[trial_id]
        if round_index not in self.stops(request):
            return False
        rung = self.rungs[request.search, round_index]
        if trial_id in rung:  # it was restarted from its checkpoint
            return False
        score = self._entries[request.entry_id].task.sign * value
        ends = bool(rung) and score < np.nanpercentile(list(rung.values()), CUTOFF, method="linear")
        rung[trial_id] = score
        return bool(ends)

    def replay(self, ended: Mapping[str, ValidationResult]) -> None:
        """Restore the scores of ended trials after a restart. Early stopping compares later trials with these scores."""
        for trial_id, end in ended.items():
            # The scheduler never sees the last report of a trial that ended by itself.
            last = end.at if end.status in (Status.FINISHED, Status.DIVERGED) else None
            for round_index, value in end.intermediates.items():
                if round_index != last:
                    self.decide(trial_id, round_index, value)
