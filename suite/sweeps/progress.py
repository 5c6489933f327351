"""The deadline and the progress of a sweep: a line on stderr that rewrites itself on a terminal, elsewhere a line per change."""

import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from reports.wording.words import spell
from suite.console import say
from trials.run.outcome import ENDINGS, Status, TrialResult

if TYPE_CHECKING:
    from suite.search.sweep_search import SweepSearch  # which loads Optuna

SECONDS = 1.0
"""How often, in seconds, progress is read, drawn and kept."""
LINES = 5
"""One look in so many prints a line, where nothing can be drawn."""
MARGIN = 1.25
"""Future trials are taken to last this many times as long as those so far."""
END, SHARE = 5.0, 0.05
"""Seconds, and a share of the time, reserved for the records and the leaderboard."""


class Deadline:
    """The end of a sweep, `minutes` from now. At `at` (seconds of the monotonic clock) running trials are ended. At least
    `slots` run at once, more where several share a process. Trials begun before the first end also start workers and
    compile, so they count only until another has ended.
    """

    def __init__(self, minutes: float, slots: int) -> None:
        self.minutes, self.slots = minutes, slots
        self.at = time.monotonic() + 60 * minutes * (1 - SHARE) - END
        self._begun = self._first_end = math.inf
        self._busy = 0.0
        # By entry, the seconds and rounds of all its trials, of the first and of the later ones.
        self._first, self._later = dict[str, list[float]](), dict[str, list[float]]()

    def took(self, entry: str, outcome: TrialResult) -> None:
        """Note that a trial of an entry has ended, and how long it took."""
        now = time.monotonic()
        self._begun = min(self._begun, now - outcome.seconds)
        self._busy += outcome.seconds
        # One that diverges in its first rounds has mostly waited for those beside it.
        if outcome.status in (Status.FINISHED, Status.PRUNED) and outcome.last_round:
            late = now - outcome.seconds >= self._first_end
            spent = (self._later if late else self._first).setdefault(entry, [0.0, 0.0])
            spent[0] += outcome.seconds
            spent[1] += outcome.last_round
            self._first_end = min(self._first_end, now)

    def presses(self, search: "SweepSearch") -> bool:
        """Return whether one more trial of each entry, and then all runs that repeat the best, would end too late.

        With t_e seconds a trial of entry e, n_e such trials that have not ended and c trials at once they take
        phases * max_e t_e + sum_e n_e t_e / c seconds: at the end of each phase some slots are idle. An entry without
        ended trials counts as slow as the slowest.
        """
        spent = self._later or self._first
        if not spent:
            return False
        now = time.monotonic()
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


class Progress:
    """A display of a sweep's progress; `look` returns it as `standing` does. `waiting` says what its records wait for,
    `cluster` what its trials wait for.
    """

    def __init__(self, look: Callable[[], Mapping[str, Any]]) -> None:
        self.look = look
        self.waiting = self.cluster = ""
        self._live: Live | None = None
        self._done = threading.Event()
        self._told: tuple[int, int, str] | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Progress":
        """Start showing."""
        if sys.stderr.isatty():
            # Whatever else is said there meanwhile goes above the line.
            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Show the last state and stop."""
        self._done.set()
        self._thread.join()
        self._show()
        if self._live:
            self._live.stop()

    def line(self, seen: Mapping[str, Any]) -> str:
        """Return the sweep's progress in words."""
        done, running = seen["ended"] - seen["superseded"], seen["running_trials"]
        states = ", ".join(f"{seen[state]} {state}" for state in ENDINGS if seen[state])
        text = f"{seen['name']}: {done}/{seen['expected']} runs ({states or 'starting'})"
        text += f", {self.cluster}" if self.cluster and not running else f", {running} running"
        text += f", {seen['per_minute'] or 0:.0f} runs/min"
        if seen["seconds_left"] is not None:
            text += f", about {spell(seen['seconds_left'])} left"
        if (unrecorded := seen["ended"] - seen["recorded"]) and not running:
            text += f", {unrecorded} still to be recorded"
        return text + (f" - {self.waiting}" if self.waiting else "")

    def _watch(self) -> None:
        looks = 0
        while not self._done.wait(SECONDS):
            looks += 1
            self._show(in_log=looks % LINES == 0)

    def _show(self, in_log: bool = True) -> None:
        seen = self.look()
        now = seen["ended"], seen["running_trials"], self.waiting
        if self._live:
            self._live.update(Text(self.line(seen)), refresh=True)
        elif in_log and now != self._told:
            self._told = now  # a log has a line a change, not a line a moment
            say(self.line(seen))
