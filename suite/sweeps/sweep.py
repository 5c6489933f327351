"""A sweep: from a study to recorded runs, a leaderboard and tuned files; resumable at any moment."""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.leaderboard.board import Leaderboard
from reports.table import frame
from suite.configurations.configuration import NEAREST, tuned_files
from suite.configurations.library import (
    TunedList,
    list_tuned,
    select_tuned,
    tuned_in,
    warm_start,
)
from suite.console import say
from suite.environment import default, kept
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
from suite.sweeps.progress import Deadline, Progress, Running
from suite.sweeps.recording import RECORD_SECONDS, Records, SweepRecording
from suite.sweeps.status import keep, standing
from suite.sweeps.tables import earlier, open_tables, table_of
from suite.tracking import StoreError, is_local
from suite.tracking.store import Store
from suite.tracking.tags import versions
from suite.yaml_files import writing
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.run.checkpoint import CheckpointFolder
from trials.run.outcome import ENDINGS, Status, TrialKind, TrialResult, reason

if TYPE_CHECKING:
    import pandas as pd

    from reports.page.notebook import Plot
    from suite.execution.resources import Resources

RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
SECONDS = 300.0
"""How long the table of a running sweep is left as it is."""


@dataclass(frozen=True)
class Summary:
    """What a sweep did, in counts; the JSON document of `suite sweep`. `storage` is its own folder."""

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
    """What came out of a sweep. `ending` is how it ended before its work was done: interrupted, stopped or
    cancelled, else ""; then `leaderboard` is None.
    """

    summary: Summary
    leaderboard: Leaderboard | None
    ending: str

    def __repr__(self) -> str:
        did = self.summary
        ended = f"; {self.ending}" if self.ending else ""
        return (
            f"Sweep {did.name} of {did.study}: {did.trials_finished} search trials finished, {did.trials_pruned} "
            f"pruned, {did.final_runs} final runs, {did.seconds:.0f} s{ended}\n{self.leaderboard or 'no leaderboard'}"
        )

    def _repr_html_(self) -> str | None:
        from reports.page.notebook import board_html

        return board_html(self.leaderboard) if self.leaderboard else None

    def plot(self, *kinds: str) -> "Plot":
        """Return the charts of its report, which a notebook shows: `dots`, `rounds`, `bytes`, `ranks` and
        `budget`; all, or those kinds.
        """
        from reports.page.notebook import board_plot
        from suite.results.report import read

        return board_plot(read(self._tables, Query(), ""), kinds)

    @property
    def tuned(self) -> TunedList:
        """Return the best configuration of each entry, ordered as `select_tuned` does."""
        return select_tuned(tuned_in(self._tables.tables))

    @property
    def _tables(self) -> Tables:
        return open_tables(Path(self.summary.storage).parent, names=[self.summary.name])

    def to_pandas(self) -> "pd.DataFrame":
        """Return the leaderboard's rows; none where the sweep did not end."""
        return self.leaderboard.to_pandas() if self.leaderboard else frame([])


class Sweep:
    """One sweep as its study and its journal have it. Nothing is written, locked or started before it runs.

        sweep = Sweep("mine", study, SweepPaths(storage, "night"), resume=True)
        result = sweep.run(resources)

    Raises `UserError` when the sweep exists and `resume` is not given, when its files are others' or damaged, or when
    entries are not to be had.
    """

    def __init__(
        self,
        study_name: str,
        study: Study,
        paths: SweepPaths,
        *,
        resume: bool = False,
    ) -> None:
        self.study_name, self.study, self.paths = study_name, study, paths
        if paths.begun and not resume:
            raise UserError(
                f"sweep {paths.name!r} exists in {paths.storage}: continue it with --resume, "
                "or choose another --name"
            )
        paths.check(study.warm_start)
        self.entries = make_entries(study, f"study {study_name}")
        self.state = paths.state()
        self.data: dict[str, Dataset] = {}
        self.id = self.state.id or uuid.uuid4().hex
        self.control = Control(paths.folder)
        self.deadline: Deadline | None = None
        self.board: Leaderboard | None = None
        self.cut, self.set_aside, self.due, self._looking = "", 0, 0.0, threading.Lock()

    def load(self) -> None:
        """Load the data of all entries. Raises `UserError` where they are not to be had."""
        names = ", ".join(sorted({entry.scenario.dataset for entry in self.entries}))
        say(f"{len(self.entries)} entries; loading {names}")
        study, root = f"study {self.study_name}", self.paths.data_root
        self.data = load_data(self.entries, root, study, self.study.replicates)

    def run(self, resources: "Resources", deadline: Deadline | None = None) -> Result:
        """Run what is left, record it, and draw the leaderboard: once. By a `deadline` the search is cut short where it has to be.

        Raises `UserError` before the first trial, and then nothing is left of a new sweep, when data, the storage or the
        tracking store cannot be used; `HaltedError` when a fault around the sweep ends it: it can be resumed.
        """
        started = time.monotonic()
        say("opening the store")
        self.store = Store(self.paths.tracking_uri, self.paths.storage)
        warm = self._warm()
        with writing(self.paths.folder):
            self.journal = events.Journal(self.paths.journal)
            (self.paths.folder / STATUS).unlink(missing_ok=True)  # it is of an earlier session
        try:
            self._begin(warm)
            if deadline is not None:
                self.deadline, self.control.deadline = deadline, deadline.at
                self.search.pressed = self._pressed
            # A write that fails is tried again as a whole here; MLflow's own retries could make two runs.
            with kept(RETRIES), interruptible(self.control), self.progress:
                default(**{RETRIES: "0"})
                complete, written = self._run(resources)
        except UserError:
            if not self.state.requests:  # it was refused before its first trial
                self.paths.forget(self.id)
            raise
        finally:
            self.journal.close()
        keep(self.paths.folder, standing(self.paths.name, self.state, False))
        return self._result(complete, written, time.monotonic() - started)

    def _result(self, complete: bool, written: bool, seconds: float) -> Result:
        """Say what the store lacks, and return what came out; `complete` says whether the search is at its end, `written` whether
        all is recorded. Raises `HaltedError` where a fault ended the sweep before that.
        """
        refused = [f"{text}. The sweep's table has all of it." for text in self.records.refusals]
        if self.board is not None:
            self.board = replace(self.board, notes=(*self.board.notes, *refused))
            refused = []
        for line in refused:
            say(line)
        fault = self.control.fault
        if not (fault or written or self.control.ending == INTERRUPTED):
            fault = f"{self.store.uri} did not take all records ({self.progress.waiting})"
        if fault and not (complete and written):
            raise HaltedError(fault)
        if not written:
            left = len(self.state.ended.keys() - self.state.recorded.keys())
            what = f"{left} of the trials that have ended" if left else "all of the leaderboard"
            say(
                f"{self.store.uri} has not {what} yet: the journal has all, and --resume records it"
            )
        elif complete:
            self.paths.clear_checkpoints(self.id, self.search.requests)
        ending = "" if complete and written else self.control.ending
        from reports.page.notebook import ShownBoard  # what draws takes time to come

        board = self.board and ShownBoard.of(self.board)
        return Result(self._summary(seconds), board, ending)

    def _warm(self) -> dict[str, list[InitialConfiguration]]:
        """Return what the entries start from: as journaled, and looked up for those that are new."""
        where, warm = self.study.warm_start, dict(self.state.begun.warm) if self.state.begun else {}
        new = [entry for entry in self.entries if entry.id not in warm]
        if where is None or not new:
            return warm
        if where == NEAREST:
            tuned = list_tuned(self.paths.storage, self.paths.tracking_uri)
            tuned = [t for t in tuned if t.provenance.get("sweep") != self.paths.name]
        else:
            tuned = tuned_files(Path(where))
        warm |= warm_start(new, tuned)
        if not any(warm.values()):
            raise UserError(f"warm_start {where}: holds no configuration of these algorithms")
        return warm

    def _begin(self, warm: Mapping[str, list[InitialConfiguration]]) -> None:
        """Replay the search as far as the journal has it, and journal that a session begins."""
        # Another process may have written on before the lock was ours.
        state = self.state.read(self.paths.journal)
        self.control.clear()
        self.id = state.id or self.id
        lag = state.begun.lag if state.begun else LAG
        self.search = SweepSearch(self.entries, self.study, lag, warm)
        self.search.replay([*state.requests.values()], state.ended)
        for warning in self.search.warnings:
            say(warning)
        self._note(
            events.Begun(
                study_name=self.study_name,
                study=self.study.model_dump(mode="json"),
                lag=self.search.lag,
                warm=warm,
                planned=dict(self.search.planned_by_entry),
                id=self.id,
                entries={entry.id: entry.about() for entry in self.entries},
                versions=versions(),
            )
        )
        self.recording = SweepRecording(
            self.store, self.paths.name, self.study_name, self.search, state.recorded, self.id
        )
        # The thread that records needs what is imported here, and only this one may import it.
        rows_table([]).to_pandas()
        rounds = {entry.id: (entry.task.metric, entry.settings.rounds) for entry in self.entries}
        self.running = Running(rounds)
        self.progress = Progress(self._look, partial(keep, self.paths.folder))

    def _run(self, resources: "Resources") -> tuple[bool, bool]:
        """Run and record what is left; return whether the search is at its end, and whether all is recorded."""
        self._record_former()
        records = self.records
        complete = False
        last: Callable[[], None] = partial(self.recording.close, "KILLED")
        try:
            if not self.search.exhausted:
                self._drive(resources)
            complete = self.search.exhausted
        except UserError:
            if not self.search.requests:
                last = partial(self.store.delete, self.recording.sweep_run)
            raise
        finally:
            records.put(self._finish if complete else last)
            written = records.end()
        return complete, written

    def _record_former(self) -> None:
        """Record what earlier sessions have not, and write the table, which may lack their last trials. A server that does not
        answer is waited for; raises `HaltedError` where that is no use.
        """
        before, until = earlier(self.paths), time.monotonic() + RECORD_SECONDS
        former = [*filter(None, before.columns(["run_id"])["run_id"])] if before else []
        while True:
            try:
                self.recording.open()
                missing = self.recording.missing(self.state.ended, former)
                break
            except StoreError as error:
                late = self.control.ending or is_local(self.store.uri) or time.monotonic() > until
                if late or not error.passes:
                    why = f"tracking store {self.store.uri} cannot be written: {error.reason}"
                    raise HaltedError(why) from None
                self.progress.waiting = f"{error.reason}: trying again"
                time.sleep(1)
        self.records = Records(self.recording, self.control, self.progress)
        self.records.put(self._write_table)
        for trial_id, outcome in events.outcomes(self.paths.journal, set(missing)):
            self.records.put(partial(self._record, self.search.requests[trial_id], outcome))

    def _drive(self, resources: "Resources") -> None:
        from suite.execution.dispatch import ExecutionPlan, Hooks
        from suite.execution.driver import drive
        from suite.execution.estimate import Estimates

        if not self.data:  # one that is resumed may need none
            self.load()
        CheckpointFolder(self.paths.checkpoint_folder(self.id)).make()
        estimates = Estimates(self.study, self.data, resources)
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
                    reported=self.running.reported,
                    began=lambda request, process: self.running.began(request),
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
            self._note(events.Requested(request=request))

    def _ended(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Journal the end of a trial, then tell the search, and let it be recorded. One that failed is handed out once more, to
        go on from its checkpoint, `retries` times; attempts that raised without getting further than those before count.
        """
        trial_id = request.trial_id
        self._took(request, outcome)
        if outcome.status == Status.FAILED:
            died = [*self.state.deaths.get(trial_id, []), outcome.last_round]
            if len(died) - died.index(max(died)) <= self.study.retries:
                self._note_death(request, outcome, False, "starts again")
                self.search.again.append(request)
                return
        self.running.stopped(request, over=True)
        self._note(*events.ended(trial_id, outcome))
        self.search.end(trial_id, self.state.ended[trial_id])
        self.records.put(partial(self._record, request, outcome))

    def _died(self, request: TrialRequest, outcome: TrialResult, again: bool) -> None:
        """Note that a trial's process died. One that dies too often has no end, so that `--resume` has it again; until
        then the search takes it as failed.
        """
        self._took(request, outcome)
        then = "starts again" if again else "is set aside: --resume has it again"
        self._note_death(request, outcome, True, then)
        if not again:
            self.set_aside += 1
            self.search.end(request.trial_id, ValidationResult.of(outcome))

    def _took(self, request: TrialRequest, outcome: TrialResult) -> None:
        # A text with half of a surrogate pair has no JSON.
        outcome.error = outcome.error.encode(errors="replace").decode()
        if self.deadline is not None:
            self.deadline.took(request.entry_id, outcome)

    def _note_death(
        self, request: TrialRequest, outcome: TrialResult, killed: bool, then: str
    ) -> None:
        name, at, error = request.trial_id, outcome.last_round, outcome.error
        self._note(events.Died(trial_id=name, round=at, error=error, killed=killed))
        self.running.stopped(request, over=False)
        why = reason(error)[:200] or "no reason given"
        say(f"{self.paths.name}: trial {name} died at round {at} and {then}: {why}")

    def _pressed(self) -> bool:
        """Return whether the search is cut, since a further trial would leave too little time for the final runs."""
        assert self.deadline is not None
        if not self.deadline.presses(self.search):
            return False
        self.search.cut()
        self._note(events.Cut(planned=self.search.planned_by_entry))
        budgets = {search.budget for search in self.search.entries.values()}
        count = " to ".join(map(str, sorted({min(budgets), max(budgets)})))
        self.cut = f"cut by --minutes {self.deadline.minutes:g}: {count} of {self.study.trials} search trials of each entry"
        return True

    def _note(self, *news: events.Event) -> None:
        """Write events to the journal, then apply them."""
        self.journal.write(*news)
        # Two threads note trials' ends and their records, and a third one looks.
        with self._looking:
            for event in news:
                self.state.add(event)

    def _look(self) -> dict[str, Any]:
        with self._looking:
            return standing(self.paths.name, self.state, True, *self.running.now())

    def _record(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Write the run and the row of a trial that has ended; `outcome` has its whole history."""

        def note(run_id: str) -> None:
            self._note(events.Recorded(trial_id=request.trial_id, run_id=run_id))

        self.recording.record(request, outcome, note)
        group = self.state.finals.get(request.search, [])
        there = sum(final.trial_id in self.state.recorded for final in group)
        last = request.kind == TrialKind.FINAL and there == self.study.seeds
        if last or time.monotonic() >= self.due:
            self.records.put(self._write_table)

    def _table(self, ended: float | None = None) -> TrialTable:
        """Return the table as it is now."""
        about = {
            "cut": self.cut,
            "code": self.recording.code,
            "experiment": self.recording.experiment,
            "run_id": self.recording.sweep_run,
        }
        with self._looking:
            finals = self.state.current_finals if ended is None else self.search.current_finals
            there, recorded = dict(self.state.ended), dict(self.state.recorded)
            state = replace(self.state, ended=there, recorded=recorded)
        return table_of(self.paths, state, self.entries, finals, ended, about)

    def _write_table(self, table: TrialTable | None = None) -> None:
        """Write the table, as it is now where none is given, and upload it."""
        write(self.paths.table, table or self._table())
        self.store.keep_table(self.recording.sweep_run, self.paths.table)
        self.due = time.monotonic() + SECONDS

    def _finish(self) -> None:
        """Draw the leaderboard, bring in what is tuned, and close the records."""
        if self.cut:
            self.store.log(self.recording.sweep_run, tags={"cut": self.cut})
        before, table = earlier(self.paths), self._table(time.time())
        former = [entry.row for entry in before.facts.entries if entry.row] if before else []
        self.board, facts = self.recording.bring_in(
            table,
            self.search.current_finals,
            self.paths.folder / "tuned",
            former,
            self.records.refuse,
        )
        self._write_table(TrialTable(facts, table.source))
        self.recording.close("FINISHED", [entry.row for entry in facts.entries if entry.row])

    def _summary(self, seconds: float) -> Summary:
        searched, final = Counter[str](), Counter[str]()
        for tally in self.state.tallies.values():
            for (_, status), count in tally.items():
                searched[status] += count
        for trial_id in self.search.current_finals & self.state.ended.keys():
            final[self.state.ended[trial_id].status] += 1
        searched[Status.FAILED] += final[Status.FAILED] + self.set_aside
        return Summary(
            study=self.study_name,
            name=self.paths.name,
            entries=len(self.entries),
            **{f"trials_{status}": searched[status] for status in ENDINGS},
            final_runs=final.total(),
            final_runs_diverged=final[Status.DIVERGED],
            seconds=round(seconds, 3),
            tracking_uri=self.store.uri,
            experiment_id=self.recording.experiment,
            storage=str(self.paths.folder.resolve()),
        )
