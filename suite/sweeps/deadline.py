"""A time by which a sweep is over: its search ends early enough for the runs that repeat its best."""

import time
from collections.abc import Collection

from suite.search.entry_search import EntrySearch
from trials.run.result import TrialResult

MARGIN = 1.25
"""By how much longer than the slowest trial so far those to come are taken to last."""


class Deadline:
    """`at`, in seconds of the monotonic clock, is when running trials are ended; `slots` run at once. `cut` is whether
    the search had fewer trials for it than were planned.

    The first trial of each slot starts a worker and compiles, so it counts only until another one has ended.
    """

    def __init__(self, at: float, slots: int) -> None:
        self.at, self.slots, self.cut = at, slots, False
        self._starting = slots
        self._first: dict[str, float] = {}
        self._later: dict[str, float] = {}

    def took(self, entry: str, outcome: TrialResult) -> None:
        """Note how long a trial of an entry took."""
        if outcome.last_round > 0:
            rates = self._first if self._starting > 0 else self._later
            rates[entry] = max(outcome.seconds / outcome.last_round, rates.get(entry, 0.0))
        self._starting -= 1

    def presses(self, searches: Collection[EntrySearch]) -> bool:
        """Whether a search trial that starts now, and after it all runs that repeat the best, would not end
        in time: max_e t_e + sum_e n_e t_e / slots, of n_e repeats of t_e seconds each, is more than is left.
        An entry of which nothing is known is taken for as slow as the slowest.
        """
        rates = self._later or self._first
        if not rates:
            return False
        slowest = max(rates.values())
        seconds, repeats = 0.0, 0.0
        for search in searches:
            rate = rates.get(search.entry.id, slowest)
            trial = MARGIN * rate * search.entry.settings.rounds
            seconds = max(seconds, trial)
            repeats += (search.planned - search.candidates.budget) * trial
        return time.monotonic() + seconds + repeats / self.slots >= self.at
