"""What people see of a sweep in MLflow: a run of the sweep, one of each of its trials, and one of each row of its leaderboard."""

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reports.leaderboard.board import Leaderboard, Row
from reports.wording.words import label, mean_text, rank_text
from suite.configurations.configuration import SIGN, Tuned
from suite.configurations.library import tuned_of
from suite.console import say
from suite.execution.stop_signal import INTERRUPTED, Control, HaltedError
from suite.results.leaderboards import read_leaderboard
from suite.results.table import TableFacts, Tables, TrialTable
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest
from suite.sweeps.progress import Progress
from suite.tracking import StoreError, is_local, reason
from suite.tracking.recorder import Recorder
from suite.tracking.store import Store
from suite.tracking.tags import RunKind, dumps, run_tags, spec_params, versions
from suite.yaml_files import refuse_foreign, write_whole
from trials.common import plugins
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.scoring.metrics import COUNTED, reach

History = list[dict[str, int | float]]
LAST_ONLY = ("val_loss", "test_loss", "train_loss", *COUNTED)
"""What is recorded of a search trial as it was at the end: losses, and counters that are not 0."""
RECORD_SECONDS = 600.0
"""How long a finished sweep waits for a tracking server that takes nothing."""
FAULT_SECONDS = 5.0
"""How long one that was halted by a fault does."""
PERSON_SECONDS = 5.0
"""How long one that is interrupted goes on recording once nothing runs, however well that goes."""
LOCAL_TRIES = 5
"""How often in a row a store on this machine may refuse a record before the sweep is halted."""


@dataclass
class SweepRecording:
    """The runs of one sweep, each written once.

    `recorded` maps trials to the runs that hold them, as the journal has it; `sweep_id` is in the journal, and tells the
    sweep from others of its name.
    """

    store: Store
    name: str
    study_name: str
    search: SweepSearch
    recorded: Mapping[str, str]
    sweep_id: str

    def __post_init__(self) -> None:
        self.study = self.search.study
        self.entries = {first.entry.id: first.entry for first in self.search.firsts}
        self.code = plugins.hashes(self.study.sampler, *sorted(self.search.code))
        self._names = {"study": self.study_name, "sweep": self.name}
        # The runs of trials whose writing failed, which are written anew.
        self._half: dict[str, str] = {}
        self._anew = False

    def open(self) -> None:
        """Find or make the run of the sweep, which is the parent of all others. Raises `UserError` where the store has
        another sweep of its name, or others' code has changed.
        """
        runs = self.store.sweeps(self.name)
        if runs and runs[0].tags.get("sweep_id") != self.sweep_id:
            raise UserError(
                f"{self.store.uri} holds another sweep {self.name!r}, which another storage has, or whose folder "
                "is gone: choose another --name, or its --storage"
            )
        self.experiment = self.store.experiment(self.study_name)
        tags = {"kind": RunKind.SWEEP, **self._names, "sweep_id": self.sweep_id, **versions()}
        if self.code:
            tags["code"] = dumps(self.code)
        self._anew |= not runs
        if runs:
            recorded = json.loads(runs[0].tags.get("code", "{}"))
            plugins.refuse_changed(recorded, f"sweep {self.name}", "choose another --name")
            self.sweep_run = runs[0].run_id
            self.store.log(self.sweep_run, tags=tags)
        else:
            self.sweep_run = self.store.create(self.experiment, self.name, tags)
        self.store.set_status(self.sweep_run, "RUNNING")

    def close(self, status: str, rows: Iterable[str] = ()) -> None:
        """Set the status of the sweep's run, and of its leaderboard's `rows`."""
        for run_id in (*rows, self.sweep_run):
            self.store.set_status(run_id, status)

    def missing(self, ended: Iterable[str], former: Iterable[str] = ()) -> list[str]:
        """Return which of the trials that have ended lack a run that is whole; all, where the store was lost.

        What a session that was killed left half-written is removed, and those of the `former` runs, which the sweep's
        table has, that the journal does not know any more.
        """
        if self._anew:
            return [*ended]
        half = set(self.store.running(self.name))
        for run_id in half | (set(former) - set(self.recorded.values())):
            self.store.delete(run_id)
        return [i for i in ended if i not in self.recorded or self.recorded[i] in half]

    def record(
        self, request: TrialRequest, outcome: TrialResult, note: Callable[[str], None]
    ) -> None:
        """Write one ended trial. `note` journals its run once it is begun: one that stays RUNNING is written anew, and "" where
        the store refuses it.
        """
        trial_id, spec = request.trial_id, self.search.spec(request)
        kind = RunKind.SEARCH if request.counted else RunKind.FINAL
        tags = run_tags(kind, spec, outcome) | self._names
        own = ("trial_id", "entry_id", "replicate", "origin", "source")
        tags |= {name: getattr(request, name) for name in own if getattr(request, name)}
        if trial_id in self._half:
            self.store.delete(self._half[trial_id])
        searched = request.kind == TrialKind.SEARCH
        number = f"trial {request.index}" if searched else f"seed {request.seed}"
        parts = filter(None, (self.entries[request.entry_id].name, request.replicate, number))
        run_id = self.store.create(
            self.experiment, " · ".join(parts), tags, self.sweep_run, outcome.seconds
        )
        self._half[trial_id] = run_id
        note(run_id)
        params = spec_params(spec)
        if request.counted:  # the settings are its study's, but for those that were searched
            params = _only(params, {*spec.params, *request.params})
        status = "FAILED" if outcome.status == Status.FAILED else "FINISHED"
        try:
            self.store.log(run_id, params, self._metrics(request, outcome), tags)
            self.store.set_status(run_id, status)
        except StoreError as error:
            if not error.passes:  # the record of this trial ends; no session tries it again
                self.store.delete(run_id)
                del self._half[trial_id]
                note("")
            raise
        del self._half[trial_id]

    def _metrics(self, request: TrialRequest, outcome: TrialResult) -> History:
        """Return what is recorded of what a trial reported, and at its last round the scores that are compared, means of the
        last three evaluations: of a search trial the curve of the ranked metric alone, of a final run also what it took to its
        study's target.
        """
        history, metric = outcome.history, self.entries[request.entry_id].task.metric
        if not history:
            return []
        scores = {"val_score": outcome.value, "test_score": outcome.tested(metric)}
        values = {name: score for name, score in scores.items() if score is not None}
        if request.counted:
            values |= {name: history[-1][name] for name in LAST_ONLY if history[-1].get(name)}
            curve = {"round", f"val_{metric}", f"test_{metric}"}
            history = [_only(entry, curve) for entry in history]
        elif self.study.target is not None and not outcome.lost(f"test_{metric}"):
            values |= reach(history, metric, self.study.target)
        return [*history, {"round": outcome.last_round, **values}]

    def bring_in(
        self,
        table: TrialTable,
        finals: set[str],
        folder: Path,
        former: Iterable[str],
        refuse: Callable[[StoreError], object],
    ) -> tuple[Leaderboard | None, TableFacts]:
        """Write a run of each row of the leaderboard, and the tuned files below a folder, and set aside all final runs but
        `finals`, those of what is best now. What the store refuses is told to `refuse`. Return the leaderboard, None when no
        entry has a final run, and the table's facts with the run and the tuned file of each entry.

        The `former` rows are removed once there are new ones, which are RUNNING until the sweep's table names them: what is
        cut off before is removed by who resumes.
        """
        for run_id in self.store.running(self.name):
            self.store.delete(run_id)  # a request that a server took, and lost the answer to
        self._set_aside(finals)
        tables = Tables([table])
        board, entries = None, {entry.id: entry for entry in table.facts.entries}
        if (tables.finals["status"] != "failed").any():
            board = read_leaderboard(tables)
            # MLflow shows the run that began last first: that is the first row.
            for place, row in reversed([*enumerate(board.rows)]):
                tuned, run_id = tuned_of(tables, row), ""
                try:
                    run_id = self._publish(row, tuned, place, folder)
                except StoreError as error:
                    if error.passes:
                        raise
                    refuse(error)
                update = {"row": run_id, "tuned": tuned.text()}
                entries[row.entry_id] = entries[row.entry_id].model_copy(update=update)
        for run_id in former:
            self.store.delete(run_id)
        return board, table.facts.model_copy(update={"entries": [*entries.values()]})

    def _set_aside(self, finals: set[str]) -> None:
        """Let those final runs count that are of what is best now, and no others."""
        ran = [i for i, request in self.search.requests.items() if not request.counted]
        if finals.issuperset(ran):
            return  # nothing was ever the best but what is now
        # What comes back first: at no moment is an entry without final runs.
        for trial_id in sorted(ran, key=lambda trial_id: trial_id not in finals):
            kind = RunKind.FINAL if trial_id in finals else RunKind.SUPERSEDED
            if run_id := self.recorded.get(trial_id):
                self.store.log(run_id, tags={"kind": kind})

    def _publish(self, row: Row, tuned: Tuned, place: int, folder: Path) -> str:
        """Write one leaderboard row as a run of its own, whose id is returned, and as a tuned file; sorted by the tag `row`, such
        runs are the leaderboard.
        """
        entry, path = self.entries[row.entry_id], folder / tuned.path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            refuse_foreign([path], SIGN)
            write_whole(path, tuned.text())
        except UserError as error:
            say(f"{error}. `suite tuned show` prints the tuned configuration")
        tags = {
            "entry_id": entry.id,
            "algorithm": entry.algorithm,
            "paper": entry.paper,
            **entry.scenario.names(),
            "kind": RunKind.LEADERBOARD,
            **self._names,
            "row": f"{self.name} {place:04d}",
            "score": mean_text(row),
            **versions(),
        }
        if outside := entry.outside(row.params):
            tags["outside"] = outside
        run_id = self.store.create(self.experiment, title(row), tags, self.sweep_run)
        scores = {"val_score": tuned.score("val"), "test_score": row.mean, "round": 0}
        values = (asdict(row) | scores).items()
        numbers = {name: value for name, value in values if isinstance(value, int | float)}
        try:
            self.store.log(run_id, row.params, [numbers])
        except StoreError as error:
            if not error.passes:
                self.store.delete(run_id)
            raise
        return run_id


def title(row: Row) -> str:
    """Return the name of a row's run, `1 · fedprox 0.9509 ± 0.0033 · digits logreg iid`."""
    return f"{rank_text(row)} · {label(row)} {mean_text(row)} · {' '.join(row.scenario)}"


def _only(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


class Records(Recorder):
    """The writes of one sweep to its store, in a thread of their own; a fault there halts it by its `control`."""

    def __init__(self, recording: SweepRecording, control: Control, progress: Progress) -> None:
        self.recording, self.control, self.progress = recording, control, progress
        self._faults = 0
        super().__init__(self._take, self._gives_up)

    def end(self) -> bool:
        """Wait until all is written, or it is no use to wait, or nobody wants to; return whether it is."""
        halted, until = self.control.ending == "halted", time.monotonic() + PERSON_SECONDS
        return self.close(
            FAULT_SECONDS if halted else RECORD_SECONDS,
            lambda: self.control.ending == INTERRUPTED and time.monotonic() > until,
        )

    def _take(self, write: Callable[[], object]) -> None:
        write()
        self.progress.unrecorded, self.progress.waiting, self._faults = self.left, "", 0

    def _gives_up(self, error: Exception) -> bool:
        """Note that a record could not be written; return whether to give up. A server may come back; a store on this
        machine that refuses again and again has to be seen to.
        """
        why = f"{type(error).__name__}: {reason(error)}"
        self.progress.waiting = f"{why}: trying again"
        self._faults += 1
        uri = self.recording.store.uri
        away = isinstance(error, StoreError) and not is_local(uri)
        if isinstance(error, HaltedError):
            self.control.halt(str(error))
        elif self._faults >= LOCAL_TRIES and not away:
            self.control.halt(f"tracking store {uri} cannot be written: {why}")
        return self.control.ending == "halted"
