"""The trials of a sweep that run at this moment, as the process that runs it knows them, and their pace."""

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

from suite.search.trial import TrialRequest
from trials.run.outcome import TrialResult

LEAST = 0.05
"""No pace is told before so much of a trial is done: of less, the time left is anything."""


class Seen(NamedTuple):
    """A trial that runs: its last evaluation's round, of how many, and its last score (None: it has none yet)."""

    round: int
    rounds: int
    score: float | None = None


class Running:
    """What the running trials of a sweep have reported. `entries` has the metric and the rounds of each.

    Their pace is counted from when the first of them said something: starting up is no trial.
    """

    def __init__(self, entries: Mapping[str, tuple[str, int]]) -> None:
        self.entries = entries
        self._trials: dict[str, Seen] = {}
        self._over = 0
        self._since, self._before = math.inf, 0.0

    def began(self, request: TrialRequest) -> None:
        """Note that a trial runs."""
        _, rounds = self.entries[request.entry_id]
        self._trials[request.trial_id] = Seen(0, rounds)

    def reported(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Note that a trial has said more."""
        metric, rounds = self.entries[request.entry_id]
        trial = Seen(outcome.last_round, rounds, outcome.last(f"val_{metric}"))
        self._trials[request.trial_id] = trial
        self._spoke(trial.round / rounds)

    def over(self, request: TrialRequest) -> None:
        """Note that a trial has ended."""
        self._spoke(1.0)
        self._over += 1
        self.stopped(request)

    def stopped(self, request: TrialRequest) -> None:
        """Note that a trial runs no more, and may start again."""
        self._trials.pop(request.trial_id, None)

    def _spoke(self, share: float) -> None:
        if self._since == math.inf:
            # Whatever runs is taken to be as far as the one that spoke: the pace does not begin with a machine full
            # of trials that all end at once.
            self._since, self._before = time.monotonic(), share * max(1, len(self._trials))

    def now(self) -> tuple[dict[str, Seen], float | None]:
        """Return the trials that run, and trials per second (None: nobody knows)."""
        trials = self._trials.copy()  # another thread may look while one begins or ends
        shares = sum(trial.round / trial.rounds for trial in trials.values())
        done, seconds = self._over + shares - self._before, time.monotonic() - self._since
        return trials, done / seconds if seconds > 0 and done >= LEAST else None
