"""A sweep: from a study to recorded runs, a leaderboard and tuned files; resumable at any moment."""

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mlflow.exceptions import MlflowException

from reports.leaderboard.board import Leaderboard
from reports.snapshot import Snapshot
from suite.console import say
from suite.environment import default, kept
from suite.execution.stop_signal import INTERRUPTED, Control, HaltedError, interruptible
from suite.results.table import FILE
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import load_data, make_entries
from suite.studies.samplers import LAG
from suite.studies.study import Study
from suite.sweeps.deadline import Deadline
from suite.sweeps.journal import events
from suite.sweeps.journal.file import Journal
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.progress import Progress
from suite.sweeps.recording.finish import Finish
from suite.sweeps.recording.live import LiveRuns
from suite.sweeps.recording.runs import SweepRecording
from suite.sweeps.recording.sweep_table import SweepTable
from suite.sweeps.recording.writer import Records
from suite.sweeps.result import Result, Summary, counts
from suite.sweeps.running import Running
from suite.sweeps.snapshot import snapshot
from suite.sweeps.starting import open_store, starts
from suite.sweeps.tables import earlier, open_tables
from suite.tracking.schema.tags import versions
from suite.tracking.store import UnreadableError
from suite.yaml_files import writable
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind, reason
from trials.run.result import TrialResult

if TYPE_CHECKING:
    from suite.execution.resources import Resources

RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


class Sweep:
    """One sweep, opened: the journal locked and replayed, no trial started yet.

    `begin` is called with a new sweep whose form and data are sound, before anything is written. It may
    refuse it.

    Raises `UserError` when the sweep exists and `resume` is not given, when entries or data are not to
    be had, or when the storage or the tracking store cannot be used.
    """

    def __init__(
        self,
        study_name: str,
        study: Study,
        paths: SweepPaths,
        resume: bool,
        begin: Callable[["Sweep"], object] = lambda sweep: None,
        study_file: str | None = None,
    ) -> None:
        self.study_name, self.study, self.paths = study_name, study, paths
        if paths.begun and not resume:
            raise UserError(
                f"sweep {paths.name!r} exists in {paths.storage}: continue it with --resume, "
                "or choose another --name"
            )
        paths.check(study.warm_start)
        self.entries = make_entries(study, f"study {study_name}")
        datasets = sorted({entry.scenario.dataset for entry in self.entries})
        say(f"{len(self.entries)} entries; loading {', '.join(datasets)}")
        self.data = load_data(
            self.entries, paths.data_root, f"study {study_name}", study.replicates
        )
        if not paths.begun:
            begin(self)
        self.store = open_store(paths)
        # What a search goes by is in a trial's end, but for the round at which it reached a target.
        self.brief = "rounds_to_target" not in study.constraints
        self.state = paths.state(self.brief)
        self._check_entries()
        self.warm = starts(study.warm_start, self.entries, paths, self.state)
        with writable(paths.folder):
            paths.mark()
            self.journal = Journal(paths.journal)
        # Another process may have written on before the lock was ours.
        self.state.read(paths.journal)
        self.id = self.state.id or uuid.uuid4().hex
        self.control = Control(paths.folder)
        self.control.clear()
        self.deadline: Deadline | None = None
        self.cut, self._looking = "", threading.Lock()
        begun = self.state.begun
        self.search = self._replayed(begun.lag if begun else LAG)
        self.recording = SweepRecording(
            self.store,
            paths.name,
            study_name,
            study,
            self.search,
            self.warm,
            self.state.recorded,
            self.id,
            study_file,
        )
        self.table = SweepTable(paths, self.recording, earlier(paths), self.state.ended)
        own = {"study_name": study_name, "id": self.id, "warm": self.warm, "versions": versions()}
        self._note(events.Begun.of(study, self.search, **own))

    def _check_entries(self) -> None:
        """Raise `UserError` where the journal has trials of entries that the study does not make."""
        entries = {request.entry_id for request in self.state.requests}
        if strange := entries - {entry.id for entry in self.entries}:
            raise UserError(
                f"journal {self.paths.journal} has trials of {', '.join(sorted(strange))}, which its study "
                "does not ask for: it is damaged, or another sweep's"
            )

    def _replayed(self, lag: int) -> SweepSearch:
        """Return the search as far as the journal has it."""
        search = SweepSearch(self.entries, self.study, lag, self.warm)
        ends = {name: ValidationResult.of(end) for name, end in self.state.ended.items()}
        search.replay(self.state.requests, ends)
        return search

    def run(self, resources: "Resources", deadline: Deadline | None = None) -> Result:
        """Run what is left, record it, draw the leaderboard, and give up the journal: once. By a `deadline`
        the search is cut short where it has to be.

        Raises `HaltedError` when a fault around the sweep ends it: it can be resumed.
        """
        started = time.monotonic()
        if deadline is not None:
            self.deadline, self.control.deadline = deadline, deadline.at
            self.search.pressed = partial(self._pressed, deadline)
        rounds = {entry.id: (entry.task.metric, entry.settings.rounds) for entry in self.entries}
        self.running = Running(self.paths.folder, rounds)
        self.progress = Progress(self._look)
        self.board: Leaderboard | None = None
        # A write that fails is tried again as a whole here; MLflow's own retries could make two runs.
        with kept(RETRIES), interruptible(self.control), self.progress:
            default(**{RETRIES: "0"})
            complete, written = self._run(resources)
        if self.control.fault and not (complete and written):
            raise HaltedError(self.control.fault)
        if not written and self.control.ending != INTERRUPTED:
            raise HaltedError(
                f"{self.store.uri} did not take all records ({self.progress.waiting})"
            )
        if not written:
            say(self._unrecorded())
        elif complete:
            self.paths.clear_checkpoints(self.search.requests)
        ending = "" if complete and written else self.control.ending
        summary = self._summary(time.monotonic() - started)
        return Result(summary, self.board, ending, open_tables(self.paths.storage))

    def _run(self, resources: "Resources") -> tuple[bool, bool]:
        """Run and record what is left; return whether the search is at its end, and whether all is recorded."""
        self._open_recording()
        self.running.experiment = self.recording.experiment
        records = self.records = Records(self.store.uri, self.control, self.progress)
        self.live = LiveRuns(self.recording, records.put)
        missing = self.recording.missing(self.state.ended, self.table.former_runs)
        lacking = self.state.ended.keys() - self.table.rows.there
        if (missing or lacking) and self.brief:
            self.state.ended |= events.outcomes(self.paths.journal, {*missing, *lacking})
        for trial_id in lacking:
            self.table.add(self.search.requests[trial_id], self.state.ended[trial_id])
        records.put(self._write_table)
        for trial_id in missing:
            records.put(partial(self._record, trial_id))
        complete = False
        last: Callable[[], None] = partial(self.recording.close, "KILLED")
        try:
            if not self.search.exhausted:
                self.paths.mark_checkpoints(self.id)
                self._drive(resources)
            complete = self.search.exhausted
        except UserError:
            if not self.search.requests:
                last = self._forget
            raise
        finally:
            records.put(self._finish if complete else last)
            written = records.close()
            self.running.close()
            self.journal.close()
        return complete, written

    def _unrecorded(self) -> str:
        """Say what an interrupted sweep has not recorded."""
        left = len(self.state.ended.keys() - self.state.recorded.keys())
        trials = f"{left} trials that have ended are" if left != 1 else "1 trial that has ended is"
        what = f"{trials} not" if left else "the leaderboard is not"
        return f"{what} in {self.store.uri} yet: the journal has all, and --resume records it"

    def _open_recording(self) -> None:
        try:
            self.recording.open()
        except (MlflowException, UnreadableError) as error:
            self.journal.close()
            reason = str(error).splitlines()[0][:300]
            raise HaltedError(
                f"tracking store {self.store.uri} cannot be written: {reason}"
            ) from None
        except UserError:  # another sweep of this name began there at the same time
            self.journal.close()
            if not self.search.requests:
                self.paths.forget()
            raise

    def _forget(self) -> None:
        """Leave nothing of a sweep that was refused before its first trial."""
        self.recording.delete()
        (self.paths.folder / FILE).unlink(missing_ok=True)
        self.paths.forget()

    def _drive(self, resources: "Resources") -> None:
        from suite.execution.driver import drive
        from suite.execution.estimate import Estimates
        from suite.execution.plan import ExecutionPlan, Hooks

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
                    waits=self._waits,
                    reported=self._reported,
                    began=self._began,
                ),
                folder=self.paths.folder / "tune",
                checkpoints=self.paths.checkpoint_folder,
                entries=self.entries,
                scheduler=self.study.scheduler,
                ended=self.state.ended,
                memory=estimates.memory(self.entries),
                model=self._model,
                packs=estimates.packs(self.entries),
            )
        )

    def _model(self, request: TrialRequest) -> str | None:
        """Return where a trial leaves its final models, if the study keeps them."""
        if self.study.save == "none" or request.kind != TrialKind.FINAL:
            return None
        return self.paths.model(request.trial_id)

    def _requested(self, request: TrialRequest, new: bool) -> None:
        if new:
            self._note(events.Requested(request=request))

    def _began(self, request: TrialRequest, process: str) -> None:
        self.running.began(request, process)
        if self.deadline is not None:
            self.deadline.began()

    def _reported(self, request: TrialRequest, outcome: TrialResult) -> None:
        self.live.reported(request, outcome)
        self.running.reported(request, outcome)

    def _ended(self, request: TrialRequest, outcome: TrialResult) -> None:
        self.live.over(request)
        # A text with half of a surrogate pair has no JSON.
        outcome.error = outcome.error.encode(errors="replace").decode()
        if self.deadline is not None:
            self.deadline.took(request.entry_id, outcome)
        if outcome.status == Status.FAILED and self._starts_again(request, outcome):
            return
        self.running.over(request)
        metric = self.recording.entries[request.entry_id].task.metric
        score = outcome.tested(metric)
        self._note(*events.ended(request.trial_id, outcome, test_score=score))
        self.search.end(request.trial_id, ValidationResult.of(outcome))
        self.records.put(partial(self._record, request.trial_id))

    def _pressed(self, deadline: Deadline) -> bool:
        """Return whether the search is cut, since a further trial would leave too little time for the final runs."""
        if not deadline.presses(self.search):
            return False
        self.search.cut()
        try:
            self._note(events.Cut(planned=self.search.planned_by_entry))
        except HaltedError as halted:  # Tune, which asks for a trial here, takes no exception
            self.control.halt(str(halted))
        budgets = {search.candidates.budget for search in self.search.entries.values()}
        count = " to ".join(map(str, sorted({min(budgets), max(budgets)})))
        self.cut = f"cut by --minutes {deadline.minutes:g}: {count} of {self.study.trials} search trials of each entry"
        return True

    def _note(self, *news: events.Event) -> None:
        """Write events to the journal, then apply them."""
        self.journal.write(*news)
        with self._looking:
            for event in news:
                self.state.add(event)

    def _look(self) -> Snapshot:
        """Return how far it is. Two threads note trials' ends and their records, and a third one looks."""
        with self._looking:
            return snapshot(self.paths.name, self.state, self.running.now, True, "")

    def _died(self, request: TrialRequest, outcome: TrialResult, again: bool) -> None:
        """Note that a trial's process died. One that dies too often has no end, so that `--resume` has it again; until
        then the search takes it as failed.
        """
        name, at = request.trial_id, outcome.last_round
        error = outcome.error.encode(errors="replace").decode()
        self._note(events.Died(trial_id=name, round=at, error=error, killed=True))
        if self.deadline is not None:
            self.deadline.took(request.entry_id, outcome)
        self.live.over(request)
        self.running.stopped(request)
        if not again:
            self.search.end(name, ValidationResult.of(outcome))
            self.records.put(partial(self.recording.hide, name))
        why = reason(error)[:200] or "no reason given"
        then = "starts again" if again else "is set aside: --resume has it again"
        self.progress.note(f"trial {name} died at round {at} and {then}: {why}")

    def _waits(self, reason: str) -> None:
        self.progress.cluster = reason

    def _starts_again(self, request: TrialRequest, outcome: TrialResult) -> bool:
        """Hand a trial that died out once more, to go on from its checkpoint; return whether it is.

        It is, `retries` times; attempts that raised without getting further than those before count.
        """
        died = [*self.state.deaths.get(request.trial_id, []), outcome.last_round]
        attempts = len(died) - died.index(max(died))
        if attempts > self.study.retries:
            return False
        name, error = request.trial_id, outcome.error
        self._note(events.Died(trial_id=name, round=died[-1], error=error))
        self.search.again.append(request)
        self.running.stopped(request)
        why = reason(error)[:200] or "no reason given"
        self.progress.note(f"trial {name} died at round {died[-1]} and starts again: {why}")
        return True

    def _record(self, trial_id: str) -> None:
        request, outcome = self.search.requests[trial_id], self.state.ended[trial_id]
        self.recording.record(
            request,
            outcome,
            lambda run_id: self._note(events.Recorded(trial_id=trial_id, run_id=run_id)),
        )
        self.table.add(request, outcome)
        if self.table.due or self._ends_entry(request):
            self.records.put(self._write_table)
        if request.counted and self.brief:  # the journal has the rest, and memory need not
            self.state.ended[trial_id] = replace(outcome, history=outcome.history[-1:])

    def _ends_entry(self, request: TrialRequest) -> bool:
        """Return whether a trial is the last final run of its search."""
        with self._looking:
            group = self.state.finals.get(request.search, [])
            there = sum(final.trial_id in self.state.recorded for final in group)
        return request.kind == TrialKind.FINAL and there == self.study.seeds

    def _write_table(self) -> None:
        with self._looking:
            groups = self.state.finals.values()
            finals = {request.trial_id for group in groups for request in group}
        self.table.write(finals)

    def _finish(self) -> None:
        self.table.cut = self.cut
        if self.cut:
            self.store.log(self.recording.sweep_run, tags={"cut": self.cut})
        current = self.search.current_finals
        finish = Finish(self.recording, self.paths.folder / "tuned")
        self.board = finish.bring_in(self.table, current)
        if self.study.save == "best":
            from suite.sweeps.recording.models import keep_best  # loads torch

            ended = self.state.ended
            finals = {trial_id: ended[trial_id] for trial_id in current if trial_id in ended}
            keep_best(self.store, self.search, finals, self.recording.recorded, self.paths)

    def _summary(self, seconds: float) -> Summary:
        ended = self.state.ended
        searches = [o for i, o in ended.items() if self.search.requests[i].counted]
        finals = [ended[i] for i in self.search.current_finals if i in ended]
        return Summary(
            study=self.study_name,
            name=self.paths.name,
            entries=len(self.entries),
            **counts(searches, finals),
            seconds=round(seconds, 3),
            tracking_uri=self.store.uri,
            experiment_id=self.recording.experiment,
            storage=str(self.paths.folder.resolve()),
        )
