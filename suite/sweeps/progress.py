"""Progress of a sweep on stderr: a live table on a terminal, plain lines elsewhere."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reports.durations import spell
from reports.wording.words import scored
from trials.run.outcome import ENDINGS
from trials.run.spec import Scenario

SECONDS = 1.0
"""How often it is looked, and what is seen is drawn and kept."""
LINES = 5
"""Of so many looks one makes a line, where nothing can be drawn."""
Standing = Mapping[str, Any]
"""How far a sweep is, as `suite.sweeps.status.standing` says it."""


class Progress:
    """A display of how far a sweep is, which `look` tells, drawn again and again from a thread of its own, which hands
    it to `keep` as well.

    `waiting` says what the sweep waits for, `cluster` what its trials wait for, and `unrecorded` is how many records are
    still to be written.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], Standing],
        keep: Callable[[Standing], object] = lambda seen: None,
    ) -> None:
        self.name, self.look, self.keep = name, look, keep
        self.waiting, self.unrecorded, self.cluster = "", 0, ""
        self._console = Console(stderr=True, emoji=False)
        self._done = threading.Event()
        self._told: tuple[int, int, str] | None = None
        self._live: Live | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Progress":
        """Start showing."""
        if self._console.is_terminal and not self._console.is_jupyter:
            self._live = Live(self._table(self.look()), console=self._console, auto_refresh=False)
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

    def note(self, text: str) -> None:
        """Say something that a person should know, and go on."""
        self._say(f"{self.name}: {text}")

    def _watch(self) -> None:
        looks = 0
        while not self._done.wait(SECONDS):
            looks += 1
            self._show(line=looks % LINES == 0)

    def _show(self, line: bool = True) -> None:
        seen = self.look()
        self.keep(seen)
        if self._live:
            self._live.update(self._table(seen), refresh=True)
        elif line and (now := (_done(seen), seen["running_trials"], self.waiting)) != self._told:
            self._told = now  # a log has a line a change, not a line a moment
            self._say(self._line(seen))

    def _line(self, seen: Standing) -> str:
        done, running = _done(seen), seen["running_trials"]
        states = ", ".join(f"{seen[state]} {state}" for state in ENDINGS if seen[state])
        text = f"{seen['name']}: {done}/{seen['expected']} runs ({states or 'starting'})"
        text += f", {self.cluster}" if self.cluster and not running else f", {running} running"
        text += f", {seen['per_minute'] or 0:.0f} runs/min"
        if seen["seconds_left"] is not None:
            text += f", about {spell(seen['seconds_left'])} left"
        if done and self.unrecorded and not running:
            text += f", {self.unrecorded} still to be recorded"
        return text + (f" - {self.waiting}" if self.waiting else "")

    def _table(self, seen: Standing) -> Group:
        """Return what a terminal shows: what is said of the whole first, since a small screen has no room for the last rows."""
        rows: Sequence[Mapping[str, Any]] = seen["best"]
        states = ["running", *(state for state in ENDINGS[1:] if seen[state])]
        differ = [part for part in Scenario._fields if len({row[part] for row in rows}) > 1]
        common = " · ".join(rows[0][part] for part in Scenario._fields if part not in differ)
        table = Table(expand=True)
        table.add_column(f"entry ({common})" if common else "entry", ratio=1)
        for head in ("done", *states, "best val"):
            table.add_column(head, justify="right", no_wrap=True, min_width=len(head))
        for row in rows:
            table.add_row(
                Text(" · ".join(row[part] for part in ("name", *differ)), overflow="fold"),
                f"{row['done']}/{row['planned']}",
                *(str(row[state] or "") for state in states),
                scored(row["best"], row["metric"]),
            )
        bar = ProgressBar(total=seen["expected"], completed=_done(seen))
        return Group(Text(self._line(seen), overflow="fold"), bar, table)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)


def _done(seen: Standing) -> int:
    return int(seen["ended"] - seen["superseded"])
