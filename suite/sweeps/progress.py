"""The deadline of a sweep, and its progress on standard error: one line that is rewritten on a terminal, else a line per change."""

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
"""The seconds between two updates of the displayed progress and of the status file."""
LINES = 5
"""The number of updates between printed lines where standard error is no terminal."""
MARGIN = 1.25
"""The factor by which further trials are assumed to take longer than the trials so far."""
END, SHARE = 5.0, 0.05
"""Seconds, and a share of the allowed time, that are reserved for the records and the leaderboard."""


class Deadline:
    """The end of a sweep, `minutes` from now. At `at` (monotonic clock, seconds) running trials are ended. At least `slots`
    trials run at once, more if several share a process.

    Trials that begin before any trial has ended also start workers and compile code. Their durations are used only until
    a later trial has ended.
    """

    def __init__(self, minutes: float, slots: int) -> None:
        self.minutes, self.slots = minutes, slots
        self.at = time.monotonic() + 60 * minutes * (1 - SHARE) - END
        self._begun = self._first_end = math.inf
        self._busy = 0.0
        # Seconds and rounds of trials by entry: of those begun before any trial had ended, and of later ones.
        self._first, self._later = dict[str, list[float]](), dict[str, list[float]]()

    def took(self, entry: str, outcome: TrialResult) -> None:
        """Add the duration of an ended trial to the measurements of the entry with the id `entry`."""
        now = time.monotonic()
        self._begun = min(self._begun, now - outcome.seconds)
        self._busy += outcome.seconds
        # A trial that diverges in its first rounds has mostly waited for the other trials of its process.
        if outcome.status in (Status.FINISHED, Status.PRUNED) and outcome.last_round:
            late = now - outcome.seconds >= self._first_end
            spent = (self._later if late else self._first).setdefault(entry, [0.0, 0.0])
            spent[0] += outcome.seconds
            spent[1] += outcome.last_round
            self._first_end = min(self._first_end, now)

    def presses(self, search: "SweepSearch") -> bool:
        """Return whether the search must end now, so that the sweep meets its deadline.

        Suppose each entry ran search trials up to one more than any has begun in its scenario, then repeats and final runs. The
        search must end if this would miss the deadline. Let n_e be the trials that entry e would still run, t_e the seconds of
        one, and c the number of trials at once. The time needed is sum_e n_e t_e / c, plus max_e t_e for each phase (search,
        repeats if any, final runs), since it ends with idle slots. Without ended trials, an entry counts as slow as the slowest.
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
    """A display of the progress that `look` returns. `waiting` says why records have to wait, and `cluster` why trials do."""

    def __init__(self, look: Callable[[], Mapping[str, Any]]) -> None:
        self.look = look
        self.waiting = self.cluster = ""
        self._live: Live | None = None
        self._done = threading.Event()
        self._printed: tuple[int, int, str] | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            # Other output to standard error appears above the line.
            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Show the final state, and stop the display."""
        self._done.set()
        self._thread.join()
        self._show()
        if self._live:
            self._live.stop()

    def line(self, progress: Mapping[str, Any]) -> str:
        """Return the progress as one line, such as `night: 12/40 runs (12 finished), 2 running, 6 runs/min, about 5 min left`."""
        done, running = progress["ended"] - progress["superseded"], progress["running_trials"]
        states = ", ".join(f"{progress[state]} {state}" for state in ENDINGS if progress[state])
        text = f"{progress['name']}: {done}/{progress['expected']} runs ({states or 'starting'})"
        text += f", {self.cluster}" if self.cluster and not running else f", {running} running"
        text += f", {progress['per_minute'] or 0:.0f} runs/min"
        if progress["seconds_left"] is not None:
            text += f", about {spell(progress['seconds_left'])} left"
        if (unrecorded := progress["ended"] - progress["recorded"]) and not running:
            text += f", {unrecorded} still to be recorded"
        return text + (f" - {self.waiting}" if self.waiting else "")

    def _watch(self) -> None:
        updates = 0
        while not self._done.wait(SECONDS):
            updates += 1
            self._show(in_log=updates % LINES == 0)

    def _show(self, in_log: bool = True) -> None:
        progress = self.look()
        counts = progress["ended"], progress["running_trials"], self.waiting
        if self._live:
            self._live.update(Text(self.line(progress)), refresh=True)
        elif in_log and counts != self._printed:
            self._printed = counts  # a log gets a line only if something has changed
            say(self.line(progress))
