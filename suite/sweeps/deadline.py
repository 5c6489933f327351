"""A time by which a sweep is over: its search ends early enough for the runs that repeat its best."""

import math
import time
from collections import defaultdict

from suite.search.sweep_search import SweepSearch
from trials.run.outcome import Status, TrialResult

MARGIN = 1.25
"""By how much longer than those so far the trials to come are taken to last."""
END, SHARE = 5.0, 0.05
"""Seconds, and a share of the time, that are kept for the records and the leaderboard."""


class Deadline:
    """So many `minutes` from now on. At `at`, in seconds of the monotonic clock, running trials are ended; `slots` run at once
    at least, more where several share a process.

    Trials that were begun before the first one had ended start workers and compile, so they count only until another has ended.
    """

    def __init__(self, minutes: float, slots: int) -> None:
        self.minutes, self.slots = minutes, slots
        self.at = time.monotonic() + 60 * minutes * (1 - SHARE) - END
        # How many trials run, since when, and the seconds of all before.
        self._running, self._since, self._busy = 0, math.inf, 0.0
        self._begun = self._first_end = math.inf
        # By entry, the seconds and rounds of all its trials.
        self._first: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._later: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def began(self) -> None:
        """Note that a trial runs now."""
        self._count(1)

    def took(self, entry: str, outcome: TrialResult) -> None:
        """Note that a trial of an entry has ended, and how long it took."""
        now = self._count(-1)
        # One that diverges in its first rounds has mostly waited for those beside it.
        if outcome.status in (Status.FINISHED, Status.PRUNED) and outcome.last_round:
            late = now - outcome.seconds >= self._first_end
            spent = (self._later if late else self._first)[entry]
            spent[0] += outcome.seconds
            spent[1] += outcome.last_round
            self._first_end = min(self._first_end, now)

    def _count(self, change: int) -> float:
        """Change how many trials run; return the time."""
        now = time.monotonic()
        self._begun = min(self._begun, now)
        self._busy += self._running * max(0.0, now - self._since)
        self._since, self._running = now, self._running + change
        return now

    def presses(self, search: SweepSearch) -> bool:
        """Return whether one more trial of each entry, and after it all runs that repeat the best, would not end in time.

        With t_e seconds a trial of entry e, n_e such trials that have not ended and c trials at once they take
        phases * max_e t_e + sum_e n_e t_e / c seconds: at the end of each phase some slots are idle. An entry of which
        nothing is known is taken for as slow as the slowest.
        """
        spent = self._later or self._first
        if not spent:
            return False
        now = self._count(0)
        at_once = max(self.slots, self._busy / max(now - self._begun, 1e-9))
        rates = {entry: seconds / rounds for entry, (seconds, rounds) in spent.items()}
        longest = work = 0.0
        for entry in search.entries.values():
            rate = rates.get(entry.entry.id, max(rates.values()))
            trial = MARGIN * rate * entry.entry.settings.rounds
            budget = entry.budget
            further = min(search.begun(entry) + 1, budget) - len(entry.requests)
            work += (further + entry.open + entry.planned - budget) * trial
            longest = max(longest, trial)
        phases = 3 if search.study.confirm else 2
        return now + phases * longest + work / at_once >= self.at
