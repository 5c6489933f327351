"""Progress of a sweep: a live table on a terminal, a bar in a notebook, plain lines elsewhere, on stderr."""

import threading
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reports.snapshot import EntrySnapshot, Snapshot, spell
from trials.run.outcome import ENDINGS
from trials.run.scenario import Scenario

LINE_SECONDS, TABLE_SECONDS = 5.0, 0.5
"""How often a line is said, and a table drawn."""
AROUND = 10
"""Lines of a screen that are no rows of the table."""


class Progress:
    """A display of the snapshot that `look` takes, drawn again and again from a thread of its own.

    `waiting` says what the sweep waits for, `cluster` what its trials wait for, and `unrecorded` is how many records are
    still to be written.
    """

    def __init__(self, look: Callable[[], Snapshot]) -> None:
        self.look, self.waiting, self.unrecorded = look, "", 0
        self.cluster = ""
        first = look()
        self.name = first.name
        self._said = _over(first)
        self._console = Console(stderr=True, emoji=False)
        self._done = threading.Event()
        self._live: Live | None = None
        self._bar: Any = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Progress":
        """Start showing."""
        if self._console.is_jupyter:
            from IPython.display import display  # any notebook has it

            self._bar = display(self._drawn(self.look()), raw=True, display_id=True)
        elif self._console.is_terminal:
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
        drawn = self._live or self._bar
        while not self._done.wait(TABLE_SECONDS if drawn else LINE_SECONDS):
            self._show()

    def _show(self) -> None:
        seen = self.look()
        over = _over(seen)
        for scenario, entries in seen.scenarios.items():
            if scenario in over - self._said:
                ranked = sorted((-e.sign * e.best, e.name) for e in entries if e.best is not None)
                leader = [f", best on validation: {name} {abs(best):.4f}" for best, name in ranked]
                self.note(f"{scenario} is done{''.join(leader[:1])}")
        self._said |= over
        if self._live:
            self._live.update(self._table(seen), refresh=True)
        elif self._bar:
            self._bar.update(self._drawn(seen), raw=True)
        else:
            self._say(self._line(seen))

    def _drawn(self, seen: Snapshot) -> dict[str, str]:
        """Return the bar that a notebook shows."""
        line = self._line(seen)
        bar = f'<progress value="{seen.done}" max="{seen.planned}"></progress> {escape(line)}'
        return {"text/html": bar, "text/plain": line}

    def _line(self, seen: Snapshot) -> str:
        counts = seen.counts
        states = ", ".join(f"{counts[s]} {s}" for s in ENDINGS if counts[s])
        text = f"{seen.name}: {seen.done}/{seen.planned} trials ({states or 'starting'})"
        waits = self.cluster and not counts["running"]
        text += f", {self.cluster}" if waits else f", {counts['running']} running"
        if (processes := seen.processes) < counts["running"]:
            text += f" in {processes} process{'es' * (processes > 1)}"
        text += f", {60 * (seen.per_second or 0):.0f} trials/min"
        if seen.seconds_left is not None:
            text += f", about {spell(seen.seconds_left)} left"
        if seen.done and self.unrecorded and not counts["running"]:
            text += f", {self.unrecorded} still to be recorded"
        return text + (f" - {self.waiting}" if self.waiting else "")

    def _table(self, seen: Snapshot) -> Group:
        counts = seen.counts
        states = [state for state in ENDINGS[1:] if counts[state]]
        common, names = _names(seen.entries)
        table = Table(expand=True)
        table.add_column(f"entry ({common})" if common else "entry", ratio=1)
        for name in ("done", "running", *states, "best val"):
            table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
        shown = list(seen.entries)
        room = max(5, self._console.height - AROUND)
        if len(shown) > room:
            shown = sorted(shown, key=lambda entry: -len(entry.running))[:room]
        for entry in shown:
            count, best = entry.counts, entry.best
            table.add_row(
                Text(names[entry.entry_id], overflow="fold"),
                f"{entry.done}/{entry.planned}",
                *(str(count[state] or "") for state in ("running", *states)),
                "" if best is None else f"{best:.4f}",
            )
        below = Table.grid(expand=True)
        if hidden := [entry for entry in seen.entries if entry not in shown]:
            over = sum(entry.over for entry in hidden)
            done = f", {over} of them done" * (over > 0)
            below.add_row(f"... and {len(hidden)} more entries{done}")
        below.add_row(ProgressBar(total=seen.planned, completed=seen.done))
        below.add_row(Text(self._line(seen), overflow="fold"))
        return Group(table, below)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)


def _over(seen: Snapshot) -> set[Scenario]:
    """Return the scenarios of which all trials have ended."""
    return {place for place, entries in seen.scenarios.items() if all(e.over for e in entries)}


def _names(entries: Sequence[EntrySnapshot]) -> tuple[str, dict[str, str]]:
    """Return what all entries have in common of data set, model and level, and each one's name without it."""
    columns = list(zip(*(entry.scenario for entry in entries), strict=True))
    differ = [at for at, values in enumerate(columns) if len(set(values)) > 1]
    common = [values[0] for at, values in enumerate(columns) if at not in differ]
    names = {e.entry_id: " · ".join([e.name, *(e.scenario[i] for i in differ)]) for e in entries}
    return " · ".join(common), names
