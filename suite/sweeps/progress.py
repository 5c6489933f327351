"""Progress of a sweep: a live table on a terminal, plain lines elsewhere; always on stderr."""

import threading
import time
from collections import Counter
from collections.abc import Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reports.snapshot import spell
from suite.search.trial import TrialRequest
from suite.studies.entry import Entry
from suite.sweeps.eta import Eta
from trials.run.outcome import ENDINGS, Status, TrialKind
from trials.run.scenario import Scenario
from trials.scoring.metrics import best_of

LINE_SECONDS = 5.0
AROUND = 10
"""Lines of a screen that are no rows of the table."""


class Progress:
    """Counts per entry; `began`, `reported` and `ended` are called by the driver as things happen.

    `planned` is how many trials each entry will have.
    """

    def __init__(self, entries: list[Entry], planned: Mapping[str, int], name: str) -> None:
        self.entries, self.name = {entry.id: entry for entry in entries}, name
        self.plan(planned)
        self.running: dict[str, TrialRequest] = {}
        self.counts: dict[str, Counter[str]] = {entry.id: Counter() for entry in entries}
        self.best: dict[str, float] = {}
        self.waiting = ""
        self.unrecorded = 0
        self._counted: set[str] = set()
        self._shares: dict[str, float] = {}
        self._processes: dict[str, str] = {}
        self._pace, self._new = Eta(), 0
        self._console = Console(stderr=True, emoji=False)
        self._done = threading.Event()
        self._live: Live | None = None
        self._common, self._names = _names(entries)

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

    def plan(self, planned: Mapping[str, int]) -> None:
        """Count on so many trials of each entry from now on."""
        self.planned, self.expected = planned, sum(planned.values())

    def began(self, request: TrialRequest, process: str) -> None:
        """A trial runs, in a process that others of a pack may share."""
        self.running[request.trial_id] = request
        self._processes[request.trial_id] = process

    def reported(self, request: TrialRequest, at: int) -> None:
        """A running trial came to this round."""
        share = at / self.entries[request.entry_id].settings.rounds
        self._shares[request.trial_id] = share
        self._pace.begin(time.monotonic(), share, len(self.running))

    def ended(
        self, request: TrialRequest, status: Status, value: float | None, before: bool = False
    ) -> None:
        """A trial ended, which counts once; `before` says that it did so before it was told to count, in an
        earlier session of this sweep.
        """
        if request.trial_id in self._counted:
            return
        self._counted.add(request.trial_id)
        if not before:
            self._pace.begin(time.monotonic(), 1.0, len(self.running))
        self.stopped(request)
        self.counts[request.entry_id][status] += 1
        self._new += not before
        if request.kind == TrialKind.SEARCH and status == Status.FINISHED and value is not None:
            better = best_of(self.entries[request.entry_id].task.direction)
            self.best[request.entry_id] = better(value, self.best.get(request.entry_id, value))
        if not before:
            self._say_if_done(self.entries[request.entry_id].scenario)

    def stopped(self, request: TrialRequest) -> None:
        """A trial runs no more, be it that it waits for another start."""
        self.running.pop(request.trial_id, None)
        self._processes.pop(request.trial_id, None)
        self._shares.pop(request.trial_id, None)

    def note(self, text: str) -> None:
        """Say something that a person should know, and go on."""
        self._say(f"{self.name}: {text}")

    def _say_if_done(self, scenario: Scenario) -> None:
        """Say of a scenario whose last trial ended that it is done, and who validated best."""
        entries = [entry for entry in self.entries.values() if entry.scenario == scenario]
        if not all(self._is_done(entry) for entry in entries):
            return
        scored = [entry for entry in entries if entry.id in self.best]
        scored.sort(key=lambda entry: -entry.task.sign * self.best[entry.id])
        best = [f", best on validation: {e.label} {self.best[e.id]:.4f}" for e in scored[:1]]
        self.note(f"{scenario} is done{''.join(best)}")

    def _is_done(self, entry: Entry) -> bool:
        return sum(self.counts[entry.id].values()) >= self.planned[entry.id]

    def _total(self) -> Counter[str]:
        return sum(self.counts.values(), Counter())

    def _line(self) -> str:
        total = self._total()
        done = sum(total.values())
        shares = list(self._shares.values())
        rate = self._pace.rate(time.monotonic(), self._new + sum(shares))
        states = ", ".join(f"{total[s]} {s}" for s in ENDINGS if total[s])
        text = f"{self.name}: {done}/{self.expected} trials ({states or 'starting'})"
        text += f", {self._run()}, {(rate or 0) * 60:.0f} trials/min"
        if rate and done < self.expected:
            text += f", about {spell((self.expected - done - sum(shares)) / rate)} left"
        if done and self.unrecorded and not self.running:
            text += f", {self.unrecorded} still to be recorded"
        return text + (f" - {self.waiting}" if self.waiting else "")

    def _run(self) -> str:
        """How many trials run, and in how many processes where they share some."""
        trials, processes = len(self.running), len(set(self._processes.copy().values()))
        packed = f" in {processes} process{'es' * (processes > 1)}" if processes < trials else ""
        return f"{trials} running{packed}"

    def _table(self) -> Group:
        total, running = (
            self._total(),
            Counter(request.entry_id for request in list(self.running.values())),
        )
        states = [state for state in ENDINGS[1:] if total[state]]
        table = Table(expand=True)
        table.add_column(f"entry ({self._common})" if self._common else "entry", ratio=1)
        for name in ("done", "running", *states, "best val"):
            table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
        shown = list(self.entries.values())
        room = max(5, self._console.height - AROUND)
        if len(shown) > room:
            shown = sorted(shown, key=lambda entry: -running[entry.id])[:room]
        for entry in shown:
            count, best = self.counts[entry.id], self.best.get(entry.id)
            table.add_row(
                Text(self._names[entry.id], overflow="fold"),
                f"{sum(count.values())}/{self.planned[entry.id]}",
                str(running[entry.id] or ""),
                *(str(count[state] or "") for state in states),
                "" if best is None else f"{best:.4f}",
            )
        below = Table.grid(expand=True)
        if hidden := [entry for entry in self.entries.values() if entry not in shown]:
            over = sum(map(self._is_done, hidden))
            below.add_row(
                f"... and {len(hidden)} more entries" + f", {over} of them done" * (over > 0)
            )
        below.add_row(ProgressBar(total=self.expected, completed=sum(total.values())))
        below.add_row(Text(self._line(), overflow="fold"))
        return Group(table, below)

    def _lines(self) -> None:
        while not self._done.wait(LINE_SECONDS):
            self._say(self._line())

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)


def _names(entries: list[Entry]) -> tuple[str, dict[str, str]]:
    """What all entries have in common of data set, model and level, and each one's name without it."""
    scenarios = [entry.scenario for entry in entries]
    differ = [
        i for i in range(len(Scenario._fields)) if len({scenario[i] for scenario in scenarios}) > 1
    ]
    common = [part for i, part in enumerate(scenarios[0]) if i not in differ] if scenarios else []
    names = {e.id: " · ".join([e.label, *(e.scenario[i] for i in differ)]) for e in entries}
    return " · ".join(common), names
