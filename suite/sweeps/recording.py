"""What people see of a sweep in MLflow: a run of the sweep, one of each of its trials, and one of each row of its leaderboard."""

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reports.leaderboard.board import Leaderboard, Row
from reports.wording.words import label, mean_text, rank_text
from suite.configurations.configuration import SIGN, Tuned, relative_path
from suite.configurations.library import tuned_of
from suite.console import say
from suite.execution.stop_signal import INTERRUPTED, Control, HaltedError
from suite.results.leaderboards import board_of
from suite.results.query import Query
from suite.results.tables import Tables
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest
from suite.studies.study import Study
from suite.sweeps.progress import Progress
from suite.tracking import is_local
from suite.tracking.faults import StoreError, reason
from suite.tracking.recorder import Recorder
from suite.tracking.schema.tags import RunKind, dumps, run_tags, spec_params, versions
from suite.tracking.store import Record, Store
from suite.yaml_files import foreign, write_whole
from trials.common import plugins
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult
from trials.scoring.metrics import COUNTED, reach

History = list[dict[str, int | float]]
LAST_ONLY = ("val_loss", "test_loss", "train_loss", *COUNTED)
"""What is recorded of a search trial as it was at the end: losses, and counters that are not 0."""
SCORES = (
    *("mean", "ci_low", "ci_high", "behind", "behind_low", "behind_high"),
    *("worst_clients", "client_spread"),
)
"""What of a row is in the unit of the score, and known as well as its interval says."""
RECORD_SECONDS = 600.0
"""How long a finished sweep waits for a tracking server that takes nothing."""
FAULT_SECONDS = 5.0
"""How long one that was halted by a fault does."""
PERSON_SECONDS = 5.0
"""How long one that is interrupted goes on recording, however well that goes."""
LOCAL_TRIES = 5
"""How often in a row a store on this machine may refuse a record before the sweep is halted."""


@dataclass(kw_only=True)
class SweepRecording:
    """The runs of one sweep, each written once.

    `recorded` maps trials to the runs that hold them, as the journal has it; `sweep_id` is in the journal, and tells the
    sweep from others of its name.
    """

    store: Store
    name: str
    study_name: str
    study: Study
    search: SweepSearch
    recorded: Mapping[str, str]
    sweep_id: str

    def __post_init__(self) -> None:
        self.entries = {first.entry.id: first.entry for first in self.search.firsts}
        self.code = plugins.hashes(self.study.sampler, *sorted(self.search.code))
        # The runs of trials whose writing failed, which are written anew.
        self._half: dict[str, str] = {}

    def open(self) -> None:
        """Find or make the run of the sweep, which is the parent of all others. Raises `UserError` where the store has
        another sweep of its name, or others' code has changed.
        """
        before = self._own()
        self.experiment = self.store.experiment(self.study_name)
        self.store.share(self.experiment, self.name)
        tags = {
            "kind": RunKind.SWEEP,
            "study": self.study_name,
            "sweep": self.name,
            "sweep_id": self.sweep_id,
            **({"code": dumps(self.code)} if self.code else {}),
            **versions(),
        }
        self._anew = before is None
        if before is not None:
            known = json.loads(before.tags.get("code", "{}"))
            plugins.refuse_changed(known, f"sweep {self.name}", "choose another --name")
            self.sweep_run = before.run_id
            self.store.log(self.sweep_run, tags=tags)
        else:
            self.sweep_run = self.store.create(self.experiment, self.name, tags)
            try:
                self._own()  # another one may have begun at the same time
            except UserError:
                self.delete()
                raise
        self.store.set_status(self.sweep_run, "RUNNING")

    def _own(self) -> Record | None:
        """Return the run of this sweep, None where it has none yet. Raises `UserError` where another one of its name was
        there first.
        """
        runs = self.store.sweeps(self.name)
        if runs and runs[0].tags.get("sweep_id") != self.sweep_id:
            raise UserError(
                f"{self.store.uri} holds another sweep {self.name!r}, which another storage has, or whose folder "
                "is gone: choose another --name, or its --storage"
            )
        return runs[0] if runs else None

    def close(self, status: str, rows: Iterable[str] = ()) -> None:
        """Set the status of the sweep's run, and of its leaderboard's `rows`."""
        for run_id in (*rows, self.sweep_run):
            self.store.set_status(run_id, status)

    def delete(self) -> None:
        """Remove the run of the sweep."""
        self.store.delete(self.sweep_run)

    def missing(self, ended: Iterable[str], former: Iterable[str] = ()) -> list[str]:
        """Return which of the trials that have ended lack a run that is whole; all, where the store was lost.

        What a session that was killed left half-written is removed, and those of the `former` runs, which the sweep's
        table has, that the journal does not know any more.
        """
        if self._anew:
            return [*ended]
        for run_id in set(former) - set(self.recorded.values()):
            self._remove(run_id)
        half = set(self.store.running(self.name))
        for run_id in half:
            self._remove(run_id)
        return [i for i in ended if i not in self.recorded or self.recorded[i] in half]

    def record(
        self, request: TrialRequest, outcome: TrialResult, note: Callable[[str], None]
    ) -> None:
        """Write one ended trial. `note` journals its run once it is begun: one that stays RUNNING is written anew, and "" where
        the store refuses it.
        """
        trial_id, spec = request.trial_id, self.search.spec(request)
        kind = RunKind.SEARCH if request.counted else RunKind.FINAL
        tags = run_tags(kind, spec, outcome) | self._names(request)
        if trial_id in self._half:
            self._remove(self._half[trial_id])
            del self._half[trial_id]
        run_id = self._half[trial_id] = self._begin(request, tags, outcome.seconds)
        note(run_id)
        params = spec_params(spec)
        if request.counted:  # the settings are its study's, but for those that were searched
            params = {k: v for k, v in params.items() if k in {*spec.params, *request.params}}
        curve = self._curve(request, outcome.history)
        status = "FAILED" if outcome.status == Status.FAILED else "FINISHED"
        try:
            self.store.log(run_id, params, [*curve, *self._ends(request, outcome)], tags)
            self.store.set_status(run_id, status)
        except StoreError as error:
            if not error.passes:  # the record of this trial ends; no session tries it again
                self._remove(run_id)
                del self._half[trial_id]
                note("")
            raise
        del self._half[trial_id]

    def _begin(self, request: TrialRequest, tags: Mapping[str, Any], seconds: float = 0.0) -> str:
        searched = request.kind == TrialKind.SEARCH
        number = f"trial {request.index}" if searched else f"seed {request.seed}"
        parts = self.entries[request.entry_id].name, request.replicate, number
        name = " · ".join(filter(None, parts))
        return self.store.create(self.experiment, name, tags, self.sweep_run, seconds)

    def _remove(self, run_id: str) -> None:
        """Remove a run, where it is, and the model that was kept with it."""
        if self.study.save == "best":
            from suite.tracking.models import delete_models  # MLflow's models take time

            delete_models(self.store, self.experiment, run_id)
        self.store.delete(run_id)

    def _names(self, request: TrialRequest) -> dict[str, str]:
        """Return the tags that say which trial a run is of."""
        own = ("trial_id", "entry_id", "replicate", "origin", "source")
        tags = {name: getattr(request, name) for name in own if getattr(request, name)}
        return {"study": self.study_name, "sweep": self.name, **tags}

    def _curve(self, request: TrialRequest, history: History) -> History:
        """Return what is recorded of a history: of a search trial the ranked metric alone."""
        if not request.counted:
            return history
        metric = self.entries[request.entry_id].task.metric
        named = ("round", f"val_{metric}", f"test_{metric}")
        return [{name: entry[name] for name in named if name in entry} for entry in history]

    def _ends(self, request: TrialRequest, outcome: TrialResult) -> list[dict[str, float]]:
        """Return the scores that are compared, means of the last three evaluations; of a search trial also what is recorded once, of a
        final run what it took to its study's target.
        """
        if not outcome.history:
            return []
        last, metric = outcome.history[-1], self.entries[request.entry_id].task.metric
        scores = {"val_score": outcome.value, "test_score": outcome.tested(metric)}
        values = {name: score for name, score in scores.items() if score is not None}
        if request.counted:
            values |= {name: last[name] for name in LAST_ONLY if last.get(name)}
        elif self.study.target is not None and not outcome.lost(f"test_{metric}"):
            values |= reach(outcome.history, metric, self.study.target)
        return [{"round": last["round"], **values}]

    def bring_in(
        self,
        tables: Tables,
        finals: set[str],
        folder: Path,
        former: Iterable[str],
        refuse: Callable[[StoreError], object],
    ) -> tuple[Leaderboard | None, dict[str, dict[str, str]]]:
        """Write a run of each row of the leaderboard, and the tuned files below a folder: of the `finals`, the final runs of what
        is best now; those of former bests are set aside. What the store refuses is told to `refuse`. Return the leaderboard, None when no entry has a final run, and the
        run and the tuned file of each entry.

        The `former` rows are removed once there are new ones, which are RUNNING until the sweep's table names them: what is
        cut off before is removed by who resumes.
        """
        for run_id in self.store.running(self.name):
            self._remove(run_id)  # a request that a server took, and lost the answer to
        self._set_aside(finals)
        board, brought_in = None, dict[str, dict[str, str]]()
        if (tables.finals["status"] != "failed").any():
            board = board_of(tables, Query(self.name, target=self.study.target, interim=False))
            # MLflow shows the run that began last first: that is the first row.
            for place, row in reversed([*enumerate(board.rows)]):
                tuned, run_id = tuned_of(tables, row, board.rows), ""
                try:
                    run_id = self._publish(row, tuned, place, folder)
                except StoreError as error:
                    if error.passes:
                        raise
                    refuse(error)
                brought_in[row.entry_id] = {"row": run_id, "tuned": tuned.text()}
        for run_id in former:
            self._remove(run_id)
        return board, brought_in

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
        if foreign(path, SIGN):
            say(
                f"{path} is kept: suite did not write it. `suite tuned show` prints the tuned configuration"
            )
        else:
            write_whole(path, tuned.text())
        outside = entry.outside(row.params)
        tags = {
            "entry_id": entry.id,
            "algorithm": entry.algorithm,
            "paper": entry.paper,
            **entry.scenario.names(),
            **({"outside": outside} if outside else {}),
            "kind": RunKind.LEADERBOARD,
            "study": self.study_name,
            "sweep": self.name,
            "row": f"{self.name} {place:04d}",
            "score": mean_text(row),
            **versions(),
        }
        scenarios = zip(*(each.scenario for each in self.entries.values()), strict=True)
        apart = [at for at, parts in enumerate(scenarios) if len(set(parts)) > 1]
        run_id = self.store.create(self.experiment, title(row, apart), tags, self.sweep_run)
        about = f"{entry.name}: {row.metric} {mean_text(row)} over {row.seeds} seeds"
        scores = {"val_score": tuned.score("val"), "test_score": row.mean}
        known = {name: score for name, score in scores.items() if score is not None}
        try:
            self.store.describe(run_id, f"{about}\n\n```yaml\n{tuned.text()}```\n")
            self.store.log(run_id, row.params, [{**numbers(row), **known, "round": 0}])
        except StoreError as error:
            if not error.passes:
                self.store.delete(run_id)
            raise
        return run_id

    def keep_best(
        self,
        finals: Mapping[str, TrialResult],
        folder: Path,
        written: Callable[[TrialRequest], str | None],
    ) -> None:
        """Move the model of the final run that validated best of each entry from where it was `written` to the folder of models, as
        `dataset/heterogeneity/model/algorithm/`, and log it as a model of MLflow's. Test scores choose nothing.
        """
        from suite.runs.single import save_model  # these load torch
        from suite.tracking.models import log_model
        from trials.run.checkpoint import Checkpoint
        from trials.run.saved_model import SavedModel, read

        kept = []
        for entry in self.entries.values():
            scores = {
                trial_id: entry.task.sign * result.value
                for trial_id, result in finals.items()
                if self.search.requests[trial_id].entry_id == entry.id
                and result.status == Status.FINISHED
                and result.value is not None
            }
            if not scores:
                continue
            best = self.search.requests[max(scores, key=scores.__getitem__)]
            spec = self.search.spec(best)
            place = folder / relative_path(spec.algorithm, spec.scenario)
            content = Checkpoint(written(best) or "").load()
            if content is not None:
                save_model(SavedModel.from_content(content), place)
            elif not (place.exists() and read(place).card.spec == spec):
                say(
                    f"{entry.name}: the model of its best final run, of an earlier session, is not "
                    f"kept; `suite run --tuned --seed {best.seed} --save DIR` makes it again"
                )
                continue
            rounds = finals[best.trial_id].last_round
            kept.append((self.recorded.get(best.trial_id), place, rounds, spec_params(spec)))
        for run_id, place, rounds, params in kept:  # once all are saved: a store may refuse them
            if run_id:
                log_model(self.store, run_id, place, rounds, params)


def title(row: Row, apart: Collection[int]) -> str:
    """Return the name of a row's run, `iid · 1 · fedprox 0.9509 ± 0.0033 · digits logreg`: first the parts of the scenario in
    which those of its sweep differ (`apart`), which a narrow column shows, last what all have alike.
    """
    own = " ".join(part for at, part in enumerate(row.scenario) if at in apart)
    alike = " ".join(part for at, part in enumerate(row.scenario) if at not in apart)
    score = f"{rank_text(row)} · {label(row)} {mean_text(row)}"
    return " · ".join(filter(None, (own, score, alike)))


def numbers(row: Row) -> dict[str, float]:
    """Return the row's numbers, scores rounded to two digits of half their interval."""
    half = None if row.ci_low is None or row.ci_high is None else (row.ci_high - row.ci_low) / 2
    values = {key: v for key, v in asdict(row).items() if isinstance(v, int | float)}
    return {key: rounded(v, half) if key in SCORES else v for key, v in values.items()}


def rounded(value: float, half: float | None) -> float:
    """Return a value to the second digit of its uncertainty; to six digits where that is 0 or not known."""
    if not half or not math.isfinite(half):
        return float(f"{value:.6g}")
    return round(value, 1 - math.floor(math.log10(half)))


class Records:
    """The writes of one sweep to its store, in a thread of their own; a fault there halts it by its `control`."""

    def __init__(self, recording: SweepRecording, control: Control, progress: Progress) -> None:
        self.recording, self.control, self.progress = recording, control, progress
        self._refused, self._until = 0, 0.0
        self._recorder = Recorder(self._write, self._gives_up)
        self.put, self.refuse = self._recorder.put, self._recorder.refuse

    @property
    def refusals(self) -> list[str]:
        """What the store refused, a line for each reason."""
        return self._recorder.refusals

    def close(self) -> bool:
        """Wait until all is written, or it is no use to wait, or nobody wants to; return whether it is."""
        halted = self.control.ending == "halted"
        self._until = time.monotonic() + PERSON_SECONDS
        return self._recorder.close(FAULT_SECONDS if halted else RECORD_SECONDS, self._enough)

    def _enough(self) -> bool:
        """Return whether who interrupted the sweep has waited for the last records as long as a person does."""
        now = time.monotonic()
        if self.control.ending != INTERRUPTED:
            self._until = now + PERSON_SECONDS
        return now > self._until

    def _write(self, item: Callable[[], object]) -> None:
        item()
        self.progress.unrecorded, self.progress.waiting = self._recorder.left, ""
        self._refused = 0

    def _gives_up(self, error: Exception) -> bool:
        """Note that a record could not be written; return whether to give up. A server may come back; a store on this
        machine that refuses again and again has to be seen to.
        """
        why = f"{type(error).__name__}: {reason(error)}"
        self.progress.waiting = f"{why}: trying again"
        self._refused += 1
        uri = self.recording.store.uri
        away = isinstance(error, StoreError) and not is_local(uri)
        if isinstance(error, HaltedError):
            self.control.halt(str(error))
        elif self._refused >= LOCAL_TRIES and not away:
            self.control.halt(f"tracking store {uri} cannot be written: {why}")
        return self.control.ending == "halted"
