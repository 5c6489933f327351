"""A sweep: from a study to recorded runs, a leaderboard and tuned files; resumable at any moment."""

import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.leaderboard.board import Leaderboard
from reports.table import frame
from suite.configurations.companions import COMPANIONS, SOME, starts
from suite.configurations.configuration import NEAREST, tuned_files
from suite.configurations.library import TunedList, list_tuned, select_tuned, tuned_in, warm_start
from suite.console import say
from suite.environment import kept
from suite.execution.stop_signal import INTERRUPTED, Control, HaltedError, interruptible
from suite.results.leaderboards import Query
from suite.results.table import Tables, TrialTable, rows_table, write
from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from suite.studies.entries import load_data, make_entries
from suite.studies.samplers import LAG
from suite.studies.study import Study
from suite.sweeps.journal import events
from suite.sweeps.journal.paths import STATUS, SweepPaths
from suite.sweeps.progress import Deadline, Progress
from suite.sweeps.recording import SweepRecording
from suite.sweeps.status import keep, standing
from suite.sweeps.tables import earlier, open_tables, table_of
from suite.tracking.store import Store
from suite.tracking.tags import versions
from suite.yaml_files import writing
from trials.common import plugins
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.run.checkpoint import CheckpointFolder
from trials.run.outcome import ENDINGS, Status, TrialKind, TrialResult, reason

if TYPE_CHECKING:
    import pandas as pd

    from reports.page.notebook import Plot
    from suite.execution.estimate import Estimates
    from suite.execution.resources import Resources

RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
SECONDS = 300.0
"""The seconds between two writes of the table of a running sweep."""


@dataclass(frozen=True)
class Summary:
    """The counts and addresses of a sweep that ended; the JSON document of `suite sweep`. `storage` is the sweep's folder."""

    study: str
    name: str
    entries: int
    trials_finished: int
    trials_pruned: int
    trials_diverged: int
    trials_failed: int
    final_runs: int
    final_runs_diverged: int
    seconds: float
    tracking_uri: str
    experiment_id: str
    storage: str


@dataclass(frozen=True)
class Result:
    """The result of a sweep. `ending` is "" or, if the sweep ended before its work was done, `interrupted`, `stopped`,
    `cancelled` or `out of time`. `leaderboard` is None if the entries were not ranked, or no final run succeeded.
    """

    summary: Summary
    leaderboard: Leaderboard | None
    ending: str

    def __repr__(self) -> str:
        did, ended = self.summary, f"; {self.ending}" if self.ending else ""
        searched = f"{did.trials_finished} search trials finished, {did.trials_pruned} pruned"
        counts = f"{searched}, {did.final_runs} final runs, {did.seconds:.0f} s{ended}"
        return f"Sweep {did.name} of {did.study}: {counts}\n{self.leaderboard or 'no leaderboard'}"

    def _repr_html_(self) -> str | None:
        from reports.page.notebook import board_html

        return board_html(self.leaderboard) if self.leaderboard else None

    def plot(self, *kinds: str) -> "Plot":
        """Return charts from the sweep's report: all, or those of `kinds` (`dots`, `rounds`, `bytes`, `ranks`, `budget`)."""
        from reports.page.notebook import board_plot
        from suite.results.report import read

        return board_plot(read(self._tables, Query(), ""), kinds)

    @property
    def tuned(self) -> TunedList:
        """Return the best configuration of each entry, sorted by data set, heterogeneity level, and validation score."""
        return select_tuned(tuned_in(self._tables.tables[0].facts))

    @property
    def _tables(self) -> Tables:
        return open_tables(Path(self.summary.storage).parent, names=[self.summary.name])

    def to_pandas(self) -> "pd.DataFrame":
        """Return the leaderboard's rows as a data frame. The data frame is empty if the sweep has no leaderboard."""
        return self.leaderboard.to_pandas() if self.leaderboard else frame([])


class Sweep:
    """A sweep of a study, new or resumed from its journal. Before `run` it writes, locks and starts nothing.

        sweep = Sweep("mine", study, SweepPaths(storage, "night"), resume=True)
        result = sweep.run(resources)

    `state` is read from the journal if it is not given. Raises `UserError` if the sweep exists and `resume` is false, if its
    folder holds other files or a damaged journal, or if entries or warm starts cannot be loaded.
    """

    def __init__(
        self,
        study_name: str,
        study: Study,
        paths: SweepPaths,
        *,
        resume: bool = False,
        state: events.SweepState | None = None,
    ) -> None:
        self.study_name, self.study, self.paths = study_name, study, paths
        paths.check(resume)
        self.entries = make_entries(study, f"study {study_name}")
        self.state = state or paths.state()
        self.id = self.state.begun.id if self.state.begun else uuid.uuid4().hex
        self.warm = self._warm()
        self.data: dict[str, Dataset] = {}
        self.control = Control(paths.folder)
        self.deadline: Deadline | None = None
        self.board: Leaderboard | None = None
        self.set_aside, self.due = 0, 0.0

    def _warm(self) -> dict[str, list[InitialConfiguration]]:
        """Return each entry's first configurations. They come from the journal or, for new entries, from `study.warm_start`."""
        where, warm = self.study.warm_start, dict(self.state.begun.warm) if self.state.begun else {}
        new = [entry for entry in self.entries if entry.id not in warm]
        if where is None or not new:
            return warm
        if where.partition(":")[0] in (COMPANIONS, SOME):
            return starts(self.entries, where) | warm
        if where == NEAREST:
            tuned = list_tuned(self.paths.storage, self.paths.tracking_uri)
            tuned = [t for t in tuned if t.provenance.get("sweep") != self.paths.name]
        else:
            tuned = tuned_files(Path(where))
        warm |= warm_start(new, tuned)
        if not any(warm.values()):
            raise UserError(f"warm_start {where}: has no configuration of these algorithms")
        return warm

    def estimates(self, resources: "Resources") -> "Estimates":
        """Load all data sets, and return an estimator of the trials' time and memory. Raise `UserError` if loading fails."""
        from suite.execution.estimate import Estimates

        if not self.data:
            names = ", ".join(sorted({entry.scenario.dataset for entry in self.entries}))
            say(f"{len(self.entries)} entries; loading {names}")
            study, root = f"study {self.study_name}", self.paths.data_root
            self.data = load_data(self.entries, root, study, self.study.replicates)
        return Estimates(self.study, self.data, resources)

    def run(self, resources: "Resources", deadline: Deadline | None = None) -> Result:
        """Run and record the remaining trials, and return the result. Call this once. A `deadline` may shorten the search.

        Raise `UserError` before the first trial if data, the storage or the tracking store cannot be used. The files of a new
        sweep are then removed. Raise `HaltedError` if a fault of the machine or cluster ends the sweep, which can be resumed.
        """
        started = time.monotonic()
        say("opening the store")
        self.store = Store(self.paths.tracking_uri, self.paths.storage)
        with writing(self.paths.folder):
            self.journal = events.Journal(self.paths.journal, self.state)
            (self.paths.folder / STATUS).unlink(missing_ok=True)  # an earlier session wrote it
        try:
            self._begin()
            if deadline is not None:
                self.deadline, self.control.deadline = deadline, deadline.at
                self.search.pressed = self._pressed
            # A retry by MLflow could create a run twice; `SweepRecording` repeats the whole write.
            with kept(RETRIES, **{RETRIES: "0"}), interruptible(self.control), self.progress:
                complete, written = self._run(resources)
        except UserError:
            if not self.state.requests:  # no trial has been handed out
                self.paths.forget(self.id)
            raise
        finally:
            self.journal.close()
        self._look(active=False)
        return self._result(complete, written, time.monotonic() - started)

    def _result(self, complete: bool, written: bool, seconds: float) -> Result:
        """Return the sweep's result. Print a message if MLflow lacks records. Raise `HaltedError` if a fault ended the sweep."""
        refused = [f"{text}. The sweep's table has all of it." for text in self.recording.refusals]
        board, whole, fault = self.board, complete and written, self.control.fault
        if board is not None:
            from reports.page.notebook import ShownBoard  # importing it takes time

            board = ShownBoard.of(replace(board, notes=(*board.notes, *refused)))
        else:
            for line in refused:
                say(line)
        if not (fault or written or self.control.ending == INTERRUPTED):
            fault = f"{self.store.uri} did not take all records ({self.progress.waiting})"
        if fault and not whole:
            raise HaltedError(fault)
        if whole:
            CheckpointFolder(self.paths.checkpoint_folder(self.id)).clear(self.search.requests)
        elif not written:
            left = len(self.state.ended.keys() - self.state.recorded.keys())
            lacks = f"{self.store.uri} lacks {left} of the trials that have ended"
            say(f"{lacks}, or its leaderboard: the journal has everything, and --resume records it")
        return Result(self._summary(seconds), board, "" if whole else self.control.ending)

    def _begin(self) -> None:
        """Restore the search from the journal, and record a new session there. Raise `UserError` if third-party code has changed."""
        state, lag = self.state, LAG
        self.control.clear()
        if state.begun is not None:
            self.id, lag = state.begun.id, state.begun.lag
            plugins.refuse_changed(state.begun.code, f"sweep {self.paths.name}")
        self.search = SweepSearch(self.entries, self.study, lag, self.warm)
        self.search.replay([*state.requests.values()], state.ended)
        for warning in self.search.warnings:
            say(warning)
        self.journal.write(
            events.Begun(
                study_name=self.study_name,
                study=self.study.model_dump(mode="json"),
                lag=lag,
                warm=self.warm,
                planned=dict(self.search.planned_by_entry),
                id=self.id,
                entries={entry.id: entry.about() for entry in self.entries},
                code=plugins.hashes(self.study.sampler, *sorted(self.search.code)),
                versions=versions(),
            )
        )
        # This loads pandas and Arrow, which the thread that writes to MLflow must not be the first to import.
        rows_table([]).to_pandas()
        self.progress = Progress(self._look)

    def _run(self, resources: "Resources") -> tuple[bool, bool]:
        """Run the remaining trials, and write missing records to MLflow. Return two flags: all trials ended, and all records written."""
        former, complete = list[str](), False
        if before := earlier(self.paths):
            rows = (entry.row for entry in before.facts.entries)
            former = [*before.columns(["run_id"])["run_id"], *rows]
        records = SweepRecording(self.store, self.search, self.journal, self.control, self.progress)
        self.recording, unrecorded = records, set(records.open(former))
        self._queue_table()  # it may lack the last trials of an earlier session
        for trial_id, outcome in events.outcomes(self.paths.journal, unrecorded):
            records.put(partial(self._record, self.search.requests[trial_id], outcome))
        try:
            if not self.search.exhausted:
                self._drive(resources)
            complete = self.search.exhausted
        finally:
            last: Callable[[], None] = partial(self.store.set_status, records.sweep_run, "KILLED")
            if not self.search.requests:
                last = partial(self.store.delete, records.sweep_run)
            records.put(self._finish if complete else last)
            written = records.end()
        return complete, written

    def _drive(self, resources: "Resources") -> None:
        from suite.execution.dispatch import ExecutionPlan, Hooks
        from suite.execution.driver import drive

        estimates = self.estimates(resources)
        CheckpointFolder(self.paths.checkpoint_folder(self.id)).make()
        drive(
            ExecutionPlan(
                source=self.search,
                data=self.data,
                resources=resources,
                hooks=Hooks(
                    asked=self._requested,
                    ended=self._ended,
                    control=self.control,
                    died=self._died,
                    waits=partial(setattr, self.progress, "cluster"),
                    reported=self.state.report,
                    began=lambda request, process: self.state.report(request, TrialResult()),
                ),
                folder=self.paths.folder / "tune",
                checkpoints=self.paths.checkpoint_folder(self.id),
                entries=self.entries,
                scheduler=self.study.scheduler,
                ended=self.state.ended,
                memory=estimates.memory(self.entries),
                packs=estimates.packs(self.entries),
            )
        )

    def _requested(self, request: TrialRequest, new: bool) -> None:
        if new:
            self.journal.write(events.Requested(request=request))

    def _ended(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Write a trial's end to the journal, pass the result to the search, and queue the MLflow record. A failed trial
        continues from its checkpoint instead, at most `retries` times in a row without progress.
        """
        trial_id = request.trial_id
        if outcome.status == Status.FAILED:
            died = [*self.state.deaths.get(trial_id, []), outcome.last_round]
            if len(died) - died.index(max(died)) <= self.study.retries:
                self._died(request, outcome, again=True, killed=False)
                self.search.again.append(request)
                return
        if self.deadline is not None:
            self.deadline.took(request.entry_id, outcome)
        self.journal.write(*events.ended(trial_id, outcome))
        self.search.end(trial_id, self.state.ended[trial_id])
        self.recording.put(partial(self._record, request, outcome))

    def _died(
        self, request: TrialRequest, outcome: TrialResult, again: bool, killed: bool = True
    ) -> None:
        """Write to the journal that a trial failed, or that its process died (`killed`). Without `again`, the search counts
        the trial as failed, and only `--resume` repeats it.
        """
        if self.deadline is not None:
            self.deadline.took(request.entry_id, outcome)
        name, at, error = request.trial_id, outcome.last_round, outcome.error
        self.journal.write(events.Died(trial_id=name, round=at, error=error, killed=killed))
        then = "starts again" if again else "is set aside: --resume runs it again"
        died = f"trial {name} died at round {at} and {then}"
        say(f"{self.paths.name}: {died}: {reason(error)[:200] or 'no reason given'}")
        if not again:
            self.set_aside += 1
            self.search.end(name, ValidationResult.of(outcome))

    def _pressed(self) -> bool:
        """End the search early if one more trial would leave too little time for the final runs. Return whether the search ended."""
        assert self.deadline is not None
        if not self.deadline.presses(self.search):
            return False
        self.search.cut()
        budgets = {search.budget for search in self.search.entries.values()}
        count = " to ".join(map(str, sorted({min(budgets), max(budgets)})))
        why = f"cut by --minutes {self.deadline.minutes:g}: {count} of {self.study.trials} search trials of each entry"
        self.journal.write(events.Cut(planned=self.search.planned_by_entry, why=why))
        return True

    def _look(self, active: bool = True) -> dict[str, Any]:
        """Return the sweep's progress, and write it to the status file for other processes."""
        with self.journal.lock:
            progress = standing(self.paths.name, self.state, active)
        keep(self.paths.folder, progress)
        return progress

    def _record(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Write an ended trial to MLflow. Queue a table update after a search's last final run, or if none was queued for 300 seconds."""
        self.recording.record(request, outcome)
        group = self.state.finals.get(request.search, [])
        recorded = sum(final.trial_id in self.state.recorded for final in group)
        complete = request.kind == TrialKind.FINAL and recorded == self.study.seeds
        if complete or time.monotonic() >= self.due:
            self._queue_table()

    def _queue_table(self) -> None:
        self.due = time.monotonic() + SECONDS
        self.recording.put(self._write_table)

    def _table(self, ended: float | None = None) -> TrialTable:
        """Return the table of all trials that have ended so far. `ended` is the Unix time of the sweep's end, if it has ended."""
        with self.journal.lock:
            finals = self.state.current_finals if ended is None else self.search.current_finals
            state = replace(self.state, ended=dict(self.state.ended))
        mlflow = {"experiment": self.recording.experiment, "run_id": self.recording.sweep_run}
        return table_of(self.paths, state, self.entries, finals, ended=ended, **mlflow)

    def _write_table(self, table: TrialTable | None = None) -> None:
        """Write `table` (by default the current one) to the sweep's file and to MLflow."""
        write(self.paths.table, table or self._table())
        self.store.keep_table(self.recording.sweep_run, self.paths.table)

    def _finish(self) -> None:
        """Rank the entries, write the tuned configurations and the final table, and end the sweep's MLflow run."""
        run_id = self.recording.sweep_run
        if self.state.cut:
            self.store.log(run_id, tags={"cut": self.state.cut})
        table = self._table(time.time())
        self.board, facts = self.recording.bring_in(table, self.paths.folder / "tuned")
        self._write_table(TrialTable(facts, table.source))
        self.store.set_status(run_id, "FINISHED")

    def _summary(self, seconds: float) -> Summary:
        # Final runs of former best trials are not counted.
        ended, statuses = self.state.ended, Counter[str]()
        for tally in self.state.tallies.values():
            for (_, status), count in tally.items():
                statuses[status] += count
        final = Counter(ended[i].status for i in self.search.current_finals & ended.keys())
        statuses[Status.FAILED] += final[Status.FAILED] + self.set_aside
        return Summary(
            study=self.study_name,
            name=self.paths.name,
            entries=len(self.entries),
            **{f"trials_{status}": statuses[status] for status in ENDINGS},
            final_runs=final.total(),
            final_runs_diverged=final[Status.DIVERGED],
            seconds=round(seconds, 3),
            tracking_uri=self.store.uri,
            experiment_id=self.recording.experiment,
            storage=str(self.paths.folder.resolve()),
        )
