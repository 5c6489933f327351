"""The trials of a sweep that run at this moment, as the process that runs it knows them, and their pace."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from suite.search.trial import TrialRequest
from trials.run.result import TrialResult

LEAST = 0.05
"""No pace is told before so much of a trial is done: of less, the time left is anything."""


class RunningTrial(NamedTuple):
    """A trial that runs: its last evaluation's round, of how many, and its last score (None: it has none yet)."""

    round: int
    rounds: int
    score: float | None = None


@dataclass
class Pace:
    """Trials per second since the first of them said something: starting up is no trial.

    Whatever runs at that moment is taken to be as far as the one that spoke, so the rate does not begin with
    a machine full of trials that all end at once.
    """

    since: float | None = None
    done: float = 0.0

    def begin(self, now: float, share: float, running: int) -> None:
        """Note that a trial has done this share of its rounds while so many run; only the first call counts."""
        if self.since is None:
            self.since, self.done = now, share * max(1, running)

    def rate(self, now: float, done: float) -> float | None:
        """Return trials per second, where `done` counts running trials by their share; None while nobody knows."""
        if self.since is None or now <= self.since or done - self.done < LEAST:
            return None
        return (done - self.done) / (now - self.since)


class Running:
    """What the running trials of a sweep have reported. `entries` has the metric and the rounds of each."""

    def __init__(self, entries: Mapping[str, tuple[str, int]]) -> None:
        self.entries = entries
        self._trials: dict[str, RunningTrial] = {}
        self._pace, self._over = Pace(), 0

    def began(self, request: TrialRequest) -> None:
        """Note that a trial runs."""
        _, rounds = self.entries[request.entry_id]
        self._trials[request.trial_id] = RunningTrial(0, rounds)

    def reported(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Note that a trial has said more."""
        metric, rounds = self.entries[request.entry_id]
        trial = RunningTrial(outcome.last_round, rounds, outcome.last(f"val_{metric}"))
        self._trials[request.trial_id] = trial
        self._pace.begin(time.monotonic(), trial.round / rounds, len(self._trials))

    def over(self, request: TrialRequest) -> None:
        """Note that a trial has ended."""
        self._pace.begin(time.monotonic(), 1.0, len(self._trials))
        self._over += 1
        self.stopped(request)

    def stopped(self, request: TrialRequest) -> None:
        """Note that a trial runs no more, and may start again."""
        self._trials.pop(request.trial_id, None)

    def now(self) -> tuple[dict[str, RunningTrial], float | None]:
        """Return the trials that run, and trials per second (None: nobody knows)."""
        trials = self._trials.copy()  # another thread may look while one begins or ends
        shares = sum(trial.round / trial.rounds for trial in trials.values())
        return trials, self._pace.rate(time.monotonic(), self._over + shares)
