"""`suite reproduce --readings`: which readings of a paper its baselines leave, and what its own method
does under those. docs/reproduce.md tells the rules, `reports.claims.fit` applies them.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reports.claims.fit import ComparedNumber, compare
from reports.claims.judged import entries, samples, statements
from suite.console import say
from suite.reproduction.experiments import experiment, read_paper, reason_not_run, selected
from suite.reproduction.fit_report import Fit, fitted_row
from suite.reproduction.fit_rows import FitRow, TriedReading, of_methods
from suite.reproduction.fit_tables import FitTable
from suite.reproduction.paper import Paper
from suite.reproduction.plan import Effort, Planned, what_is_missing
from suite.reproduction.readings import check_open, otherwise
from suite.reproduction.reproduce import EXPERIMENT, runs_of, statements_of
from suite.runs.batch import Batch, Job
from suite.tracking.schema.tags import RunKind
from suite.tracking.store import Record, Store
from trials.common.errors import UserError

SHARES = {"screening": 0.5, "all seeds": 0.75, "the paper's own methods": 1.0}
"""By which share of the minutes each stage starts no more runs."""


def fit(
    path: str,
    effort: Effort,
    tracking_uri: str | None,
    storage: Path,
    data_root: str | None,
    resources: Any,
    command: str,
) -> Fit:
    """Run the readings of `PAPER[/TABLE[/ROW]]` that are not done, and say which the numbers leave.

    `effort.max_minutes` bounds all of it. Raises `UserError` on an unknown path or another value that
    cannot be, before anything starts.
    """
    places = selected(path)
    name = places[0][0]
    paper = read_paper(name)
    if effort.seeds < 2:
        raise UserError(
            "--readings needs --seeds of at least 2: with one nothing is known of the spread"
        )
    if paper.frozen != paper.candidates_hash:
        raise UserError(
            f"{name}: its candidates have the hash {paper.candidates_hash}, and its file says frozen: {paper.frozen}; "
            "write the hash before any run of the paper's own method, and mark what is added later as late"
        )
    rows, why_not = _rows(paper, places, effort, data_root)
    store, tune = Store(tracking_uri, storage), storage / EXPERIMENT / "tune"
    batch = Batch(store, RunKind.READING, EXPERIMENT, tune, shared=[RunKind.REPRODUCE])
    minutes = math.inf if effort.max_minutes is None else effort.max_minutes
    tables = {table: [row for (t, _), row in rows.items() if t == table] for table, _ in rows}
    weighed = [FitTable.of(of) for of in tables.values()]
    stages = _Stages(batch, weighed, data_root, resources, minutes)
    stages.screen()
    stages.all_seeds()
    stages.own_methods()
    found = [
        fitted_row(paper, table, row, rows.get((table, row)), why_not.get((table, row), ""))
        for _, table, row in places
    ]
    rates = [table.rates() for table in weighed]
    return Fit(paper.paper, paper.cites, command, rates, found, stages.failed, stages.interrupted)


def _rows(
    paper: Paper, places: Sequence[tuple[str, str, str]], effort: Effort, data_root: str | None
) -> tuple[dict[tuple[str, str], FitRow], dict[tuple[str, str], str]]:
    """The rows that are fitted, and why others are not, by (table, row)."""
    found = [made for place in places if (made := experiment(paper, *place)) is not None]
    experiments = {(made.table, made.row): made for made in otherwise(found, effort.other)}
    rows, why_not = {}, {}
    for _, table, row in places:
        made = experiments.get((table, row))
        why = reason_not_run(paper, table, row) or what_is_missing(made, data_root)
        if made is not None and not why:
            check_open(made)
            rows[table, row] = FitRow.of(paper, made, effort)
            why = rows[table, row].why_not
        if why:
            rows.pop((table, row), None)
            why_not[table, row] = why
    return rows, why_not


@dataclass
class _Stages:
    """Screening, all seeds, the paper's own methods: each stage is one batch over all tables."""

    batch: Batch
    tables: Sequence[FitTable]
    data_root: str | None
    resources: Any
    minutes: float
    failed: int = 0
    interrupted: bool = False
    _started: float = field(default_factory=time.monotonic)
    _counted: set[str] = field(default_factory=set)

    @property
    def rows(self) -> list[FitRow]:
        """Of all tables."""
        return [row for table in self.tables for row in table.rows]

    def screen(self) -> None:
        """The default reading with all seeds, and all readings with one: those of all rows in turn."""
        order = sorted((i, r) for r, row in enumerate(self.rows) for i in range(len(row.readings)))
        rows = self.rows
        first = [(row, i, row.full(i)) for row in rows for i in row.groups[0]]
        plans = [(rows[r], i, rows[r].screen(i)) for i, r in order]
        self._run("screening", [plan for _, _, plan in [*first, *plans]])
        for tried, found in self._compared(plans):
            tried.screened = found
        for tried, found in self._compared(first):
            tried.compared = found

    def all_seeds(self) -> None:
        """The readings that one seed does not refute with all seeds; all of them weighed."""
        kept = [pair for table in self.tables for pair in table.kept()]
        plans = [(row, i, row.full(i)) for row, i in kept]
        self._run("all seeds", [plan for _, _, plan in plans])
        for tried, found in self._compared(plans):
            tried.compared = found
        for table in self.tables:
            table.weigh()

    def _compared(
        self, plans: Sequence[tuple[FitRow, int, Planned]]
    ) -> Iterator[tuple[TriedReading, list[ComparedNumber]]]:
        """A stage's readings, as far as all of their runs are there, and what these say of the baselines."""
        done = self.batch.done()
        for row, i, plan in plans:
            if _whole(plan, done):
                runs = self._runs(row, plan, list(row.numbers), done)
                yield row.tried[i], compare(row.numbers, runs, plan.rounds)

    def own_methods(self) -> None:
        """The paper's own methods under the readings that are left, and its claims judged."""
        plans = [(row, i, row.method(i)) for row in self.rows for i in row.left]
        done = self._run("the paper's own methods", [plan for _, _, plan in plans])
        for row, i, plan in plans:
            if not _whole(plan, done):
                continue
            table = row.paper.tables[row.made.table]
            printed, claims = table.rows[row.made.row].numbers, statements_of(table)
            wanted = [*printed, *(c.metric for c in claims if c.metric)]
            runs = self._runs(row, row.full(i), wanted, done) | self._runs(row, plan, wanted, done)
            own = of_methods(printed, row.made.own)
            tried = row.tried[i]
            tried.numbers = entries(own, runs, plan.planned, None)
            tried.claims = statements(claims, printed, runs, plan.planned, None)
            tried.samples = samples(claims, printed, runs, plan.planned)

    def _run(self, stage: str, plans: Sequence[Planned]) -> dict[str, Record]:
        """Make a stage's runs, unless an earlier stage was interrupted; all that are recorded."""
        jobs: dict[str, Job] = {job.id: job for plan in plans for job in plan.jobs.values()}
        until = self._started + SHARES[stage] * 60 * self.minutes
        if jobs and not self.interrupted and time.monotonic() < until:
            say(f"{stage}: {len(jobs)} runs")
            failed, self.interrupted = self.batch.run(
                list(jobs.values()), self.data_root, self.resources, until
            )
            self.failed += failed
        return self.batch.done()

    def _runs(
        self, row: FitRow, plan: Planned, wanted: Sequence[str], done: Mapping[str, Record]
    ) -> dict[str, Any]:
        """The runs of a plan by method, their seconds counted once: readings share what is the same."""
        runs, _, seconds = runs_of(plan, wanted, done, self.batch.store)
        row.seconds += sum(s for job, s in seconds.items() if job not in self._counted)
        self._counted |= seconds.keys()
        return dict(runs)


def _whole(plan: Planned, done: Mapping[str, Record]) -> bool:
    return all(job.id in done for job in plan.jobs.values())
