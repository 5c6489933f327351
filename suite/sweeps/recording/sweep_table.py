"""The table that a sweep writes as it goes, and keeps with its run in MLflow."""

import os
import time
from collections.abc import Collection
from typing import Any

from suite.results.table import FILE, TableFacts, TrialTable, write
from suite.results.tables import Source, Tables
from suite.search.trial import TrialRequest
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording.rows import TrialRows, entry_facts
from suite.sweeps.recording.runs import SweepRecording
from suite.tracking.schema.tags import versions
from suite.tracking.tables import upload
from trials.common import plugins
from trials.run.result import TrialResult

SECONDS = 300.0
"""How long the table of a running sweep is left as it is."""


class SweepTable:
    """The rows of a sweep, of which `recording` writes the runs; `before` is the table that it wrote last, `ended` are the trials of
    the journal that have ended.
    """

    def __init__(
        self,
        paths: SweepPaths,
        recording: SweepRecording,
        before: TrialTable | None,
        ended: Collection[str],
    ) -> None:
        if before is not None and before.facts.id != recording.sweep_id:
            before = None
        self.paths, self.recording, self.before = paths, recording, before
        self.cut = ""
        runs = before.columns(["run_id"])["run_id"] if before else ()
        self.former_runs = [run_id for run_id in runs if run_id]
        self.brought_in: dict[str, dict[str, Any]] = {}
        """Of each entry its leaderboard row's run in MLflow, and its tuned file, once the sweep has ended."""
        self._began = before.facts.began if before else time.time()
        self._next = 0.0
        names = recording.name, recording.study_name
        entries = recording.entries.values()
        self.rows = TrialRows(
            names, recording.study, entries, recording.warm, versions(), before, ended
        )

    @property
    def due(self) -> bool:
        """Whether it is time to write it."""
        return time.monotonic() >= self._next

    def add(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Add a trial that has ended, with its whole history, unless it is there."""
        if request.trial_id not in self.rows.there:
            self.rows.there.add(request.trial_id)
            self.rows.add(request, outcome)

    def now(self, finals: Collection[str], ended: float | None = None) -> TrialTable:
        """Return it as it is; `finals` are the final runs of what is best now, `ended` is when the sweep did."""
        of, before = self.recording, self.before
        names = of.study.sampler, *sorted(of.search.code)
        entries = entry_facts(of.entries.values(), before)
        for place, entry in enumerate(entries):
            if ended is not None:
                now = self.brought_in.get(entry.id, {"row": "", "tuned": ""})
                entries[place] = entry.model_copy(update=now)
        facts = TableFacts(
            name=of.name,
            id=of.sweep_id,
            study_name=of.study_name,
            study=of.study.model_dump(mode="json"),
            study_file=of.study_file or (before.facts.study_file if before else None),
            entries=entries,
            began=self._began,
            ended=ended,
            cut=self.cut,
            code=plugins.hashes(*names),
            versions=versions(),
            journal=os.path.getsize(self.paths.journal),
            experiment=of.experiment,
            run_id=of.sweep_run,
        )
        return TrialTable(facts, self.rows.table(of.recorded, finals))

    def tables(self, finals: Collection[str]) -> Tables:
        """Return it as leaderboards read it."""
        source = Source(
            self.recording.name, self.recording.study_name, lambda: self.now(finals, self._began)
        )
        return Tables([source], "", self.recording.store.options, named=True)

    def write(self, finals: Collection[str], ended: float | None = None) -> None:
        """Write it, and keep it with the sweep's run."""
        path = self.paths.folder / FILE
        write(path, self.now(finals, ended))
        upload(self.recording.store, self.recording.sweep_run, path)
        self._next = time.monotonic() + SECONDS
