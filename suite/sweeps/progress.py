"""Progress of a sweep: a live table on a terminal, plain lines elsewhere; always on stderr."""

import threading
import time
from collections import Counter

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from suite.search.trial import Ask
from suite.studies.entry import Entry
from trials.metrics import best_of
from trials.outcome import ENDINGS, Kind, Status

LINE_SECONDS = 5.0


class Progress:
    """Counts per entry; `asked`, `reported` and `ended` are called by the driver as things happen."""

    def __init__(self, entries: list[Entry], expected: int, name: str) -> None:
        self.entries, self.name = {entry.id: entry for entry in entries}, name
        self.expected = expected
        self.running: dict[str, Ask] = {}
        self.counts: dict[str, Counter[str]] = {entry.id: Counter() for entry in entries}
        self.best: dict[str, float] = {}
        self.waiting = ""
        self._started, self._new = time.monotonic(), 0
        self._console = Console(stderr=True)
        self._done = threading.Event()
        self._live: Live | None = None

    def __enter__(self) -> "Progress":
        """Start showing."""
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._table, console=self._console, refresh_per_second=4
            )
            self._live.start()
        else:
            threading.Thread(target=self._lines, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Show the last state and stop."""
        self._done.set()
        if self._live:
            self._live.stop()
        else:
            self._say(self._line())

    def asked(self, ask: Ask) -> None:
        """A trial was handed out."""
        self.running[ask.trial_id] = ask

    def ended(self, ask: Ask, status: Status, value: float | None, before: bool = False) -> None:
        """A trial ended; `before` says that it did so in an earlier session of this sweep."""
        self.running.pop(ask.trial_id, None)
        self.counts[ask.cell][status] += 1
        self._new += not before
        if ask.kind == Kind.SEARCH and status == Status.FINISHED and value is not None:
            better = best_of(self.entries[ask.cell].task.direction)
            self.best[ask.cell] = better(value, self.best.get(ask.cell, value))

    def stands(self, ask: Ask) -> None:
        """A member of a population waits for the others."""
        self.running.pop(ask.trial_id, None)

    def note(self, text: str) -> None:
        """Say something that a person should know, and go on."""
        self._say(f"{self.name}: {text}")

    def _total(self) -> Counter[str]:
        return sum(self.counts.values(), Counter())

    def _line(self) -> str:
        total = self._total()
        done = sum(total.values())
        rate = self._new / max(1e-9, time.monotonic() - self._started)
        left = (self.expected - done) / rate if rate else 0.0
        states = ", ".join(f"{total[s]} {s}" for s in ENDINGS if total[s])
        text = f"{self.name}: {done}/{self.expected} trials ({states or 'starting'})"
        text += f", {len(self.running)} running, {rate * 60:.0f} trials/min"
        if rate and done < self.expected:
            text += f", about {left:.0f} s left"
        return text + (f" - {self.waiting}" if self.waiting else "")

    def _table(self) -> Group:
        table = Table(expand=True)
        table.add_column("entry", no_wrap=True, ratio=1)
        for name in ("done", "running", "pruned", "diverged", "failed", "best val"):
            table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
        running = Counter(ask.cell for ask in list(self.running.values()))
        shown = list(self.entries.values())
        room = max(5, self._console.height - 8)
        if len(shown) > room:
            shown = sorted(shown, key=lambda entry: -running[entry.id])[:room]
        for entry in shown:
            count, best = self.counts[entry.id], self.best.get(entry.id)
            table.add_row(
                entry.name,
                str(sum(count.values())),
                str(running[entry.id] or ""),
                *(str(count[state] or "") for state in ENDINGS[1:]),
                "" if best is None else f"{best:.4f}",
            )
        done = sum(self._total().values())
        hidden = len(self.entries) - len(shown)
        below = Table.grid(expand=True)
        if hidden:
            below.add_row(f"... and {hidden} more entries")
        below.add_row(ProgressBar(total=self.expected, completed=done))
        below.add_row(Text(self._line(), overflow="fold"))
        return Group(table, below)

    def _lines(self) -> None:
        while not self._done.wait(LINE_SECONDS):
            self._say(self._line())

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)
