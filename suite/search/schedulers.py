"""Early stopping: asynchronous successive halving, each search of an entry with its own, none ever mixing entries."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import Entry
from trials.run.outcome import Status, TrialKind

REDUCTION = 3
"""ASHA keeps the best third of the trials that reach a stop."""
CUTOFF = (1 - 1 / REDUCTION) * 100
"""The percentile of a stop's scores below which a trial ends."""


class EntrySchedulers:
    """Asynchronous successive halving (Li et al. 2020), as Ray's `ASHAScheduler` has it in one bracket: a search trial ends at
    one of its entry's `stops` where its score is below the upper third of those that came there before it.
    """

    def __init__(
        self, entries: Sequence[Entry], requests: Mapping[str, TrialRequest], scheduler: str
    ) -> None:
        self.requests, self.scheduler = requests, scheduler
        self._entries = {entry.id: entry for entry in entries}
        self.rungs: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
        """By search and stop: the signed score of each trial that came there."""

    def stops(self, request: TrialRequest) -> tuple[int, ...]:
        """Return the rounds after which a run may be stopped."""
        if self.scheduler == "none" or request.kind != TrialKind.SEARCH:
            return ()
        return self._entries[request.entry_id].stops

    def decide(self, trial_id: str, round_index: int, value: float) -> bool:
        """Return whether a trial that scored a finite `value` ends after this round."""
        request = self.requests[trial_id]
        if round_index not in self.stops(request):
            return False
        rung = self.rungs[request.search, round_index]
        if trial_id in rung:  # it goes on from its checkpoint
            return False
        score = self._entries[request.entry_id].task.sign * value
        ends = bool(rung) and score < np.nanpercentile(list(rung.values()), CUTOFF, method="linear")
        rung[trial_id] = score
        return bool(ends)

    def replay(self, ended: Mapping[str, ValidationResult]) -> None:
        """Rebuild from what trials reported before a restart."""
        for trial_id, end in ended.items():
            # The last report of a trial that ended by itself was never shown to a scheduler.
            last = end.at if end.status in (Status.FINISHED, Status.DIVERGED) else None
            for round_index, value in end.intermediates.items():
                if round_index != last:
                    self.decide(trial_id, round_index, value)
