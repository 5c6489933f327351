"""Progress of a sweep: a live table on a terminal, a bar in a notebook, plain lines elsewhere, on stderr."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reports.durations import spell
from trials.run.outcome import ENDINGS
from trials.run.spec import Scenario
from trials.scoring.metrics import TASKS

SECONDS = 1.0
"""How often it is looked, and what is seen is drawn and kept."""
LINES = 5
"""Of so many looks one makes a line, where nothing can be drawn."""
AROUND = 10
"""Lines of a screen that are no rows of the table."""
Standing = Mapping[str, Any]
"""How far a sweep is, as `suite.sweeps.status.standing` says it."""
Rows = Sequence[Mapping[str, Any]]


class Progress:
    """A display of how far a sweep is, which `look` tells, drawn again and again from a thread of its own, which hands
    it to `keep` as well.

    `waiting` says what the sweep waits for, `cluster` what its trials wait for, and `unrecorded` is how many records are
    still to be written.
    """

    def __init__(
        self, look: Callable[[], Standing], keep: Callable[[Standing], object] = lambda seen: None
    ) -> None:
        self.look, self.keep, self.waiting, self.unrecorded = look, keep, "", 0
        self.cluster = ""
        first = look()
        self.name = first["name"]
        self._said = {place for place, rows in _scenarios(first["best"]).items() if _over(rows)}
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
        looks = 0
        while not self._done.wait(SECONDS):
            looks += 1
            self._show(line=looks % LINES == 0)

    def _show(self, line: bool = True) -> None:
        seen = self.look()
        self.keep(seen)
        for place, rows in _scenarios(seen["best"]).items():
            if place not in self._said and _over(rows):
                self._said.add(place)
                sign = TASKS[rows[0]["metric"]].sign
                ranked = sorted(
                    (-sign * row["best"], row["name"]) for row in rows if row["best"] is not None
                )
                leader = [f", best on validation: {name} {abs(best):.4f}" for best, name in ranked]
                self.note(f"{place} is done{''.join(leader[:1])}")
        if self._live:
            self._live.update(self._table(seen), refresh=True)
        elif self._bar:
            self._bar.update(self._drawn(seen), raw=True)
        elif line:
            self._say(self._line(seen))

    def _drawn(self, seen: Standing) -> dict[str, str]:
        """Return the bar that a notebook shows."""
        line, done = self._line(seen), _done(seen)
        bar = f'<progress value="{done}" max="{seen["expected"]}"></progress> {escape(line)}'
        return {"text/html": bar, "text/plain": line}

    def _line(self, seen: Standing) -> str:
        done, running = _done(seen), seen["running_trials"]
        states = ", ".join(f"{seen[state]} {state}" for state in ENDINGS if seen[state])
        text = f"{seen['name']}: {done}/{seen['expected']} trials ({states or 'starting'})"
        text += f", {self.cluster}" if self.cluster and not running else f", {running} running"
        text += f", {seen['per_minute'] or 0:.0f} trials/min"
        if seen["seconds_left"] is not None:
            text += f", about {spell(seen['seconds_left'])} left"
        if done and self.unrecorded and not running:
            text += f", {self.unrecorded} still to be recorded"
        return text + (f" - {self.waiting}" if self.waiting else "")

    def _table(self, seen: Standing) -> Group:
        rows: Rows = seen["best"]
        states = ["running", *(state for state in ENDINGS[1:] if seen[state])]
        common, names = _names(rows)
        table = Table(expand=True)
        table.add_column(f"entry ({common})" if common else "entry", ratio=1)
        for head in ("done", *states, "best val"):
            table.add_column(head, justify="right", no_wrap=True, min_width=len(head))
        room = max(5, self._console.height - AROUND)
        shown = rows
        if len(rows) > room:
            shown = sorted(rows, key=lambda row: -row["running"])[:room]
        for row in shown:
            table.add_row(
                Text(names[row["entry_id"]], overflow="fold"),
                f"{row['done']}/{row['planned']}",
                *(str(row[state] or "") for state in states),
                "" if row["best"] is None else f"{row['best']:.4f}",
            )
        below = Table.grid(expand=True)
        if hidden := [row for row in rows if row not in shown]:
            over = sum(row["done"] >= row["planned"] for row in hidden)
            done = f", {over} of them done" * (over > 0)
            below.add_row(f"... and {len(hidden)} more entries{done}")
        below.add_row(ProgressBar(total=seen["expected"], completed=_done(seen)))
        below.add_row(Text(self._line(seen), overflow="fold"))
        return Group(table, below)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)


def _done(seen: Standing) -> int:
    return int(seen["ended"] - seen["superseded"])


def _over(rows: Rows) -> bool:
    return all(row["done"] >= row["planned"] for row in rows)


def _scenarios(rows: Rows) -> dict[str, Rows]:
    """Return the entries of each scenario, in the order of the study."""
    scenarios: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        scenarios[" · ".join(row[part] for part in Scenario._fields)].append(row)
    return dict(scenarios)


def _names(rows: Rows) -> tuple[str, dict[str, str]]:
    """Return what all entries have in common of data set, model and level, and each one's name without it."""
    differ = [part for part in Scenario._fields if len({row[part] for row in rows}) > 1]
    common = [rows[0][part] for part in Scenario._fields if part not in differ]
    names = {row["entry_id"]: " · ".join(row[part] for part in ("name", *differ)) for row in rows}
    return " · ".join(common), names
