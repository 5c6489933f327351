"""How fast a sweep goes, and how long what is left of it takes."""

from dataclasses import dataclass

LEAST = 0.05
"""No pace is told before so much of a trial is done: of less, the time left is anything."""


@dataclass
class Eta:
    """Trials per second since the first of them said something: starting up is no trial.

    Whatever runs at that moment is taken to be as far as the one that spoke, so the rate does not begin with
    a machine full of trials that all end at once.
    """

    since: float | None = None
    done: float = 0.0

    def begin(self, now: float, share: float, running: int) -> None:
        """A trial has done this share of its rounds while so many run; only the first call counts."""
        if self.since is None:
            self.since, self.done = now, share * max(1, running)

    def rate(self, now: float, done: float) -> float | None:
        """Trials per second, where `done` counts running trials by their share; None while nobody knows."""
        if self.since is None or now <= self.since or done - self.done < LEAST:
            return None
        return (done - self.done) / (now - self.since)
