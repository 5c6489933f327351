"""What people see of a sweep in MLflow: a run of the sweep, one of each of its trials, and one of each row of its leaderboard."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration, TrialRequest
from suite.studies.entry import Entry
from suite.studies.study import Study
from suite.tracking.schema.tags import RunKind, dumps, run_tags, spec_params, versions
from suite.tracking.store import Record, Store
from trials.common import plugins
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult
from trials.scoring.metrics import COUNTED, reach

History = Iterable[Mapping[str, float]]
LAST_ONLY = ("val_loss", "test_loss", "train_loss", *COUNTED)
"""What is recorded of a search trial as it was at the end: losses, and counters that are not 0."""


class SweepRecording:
    """Writes the runs of one sweep, each once.

    `recorded` maps trials to the runs that hold them, as the journal has it; `warm` are the
    configurations that entries started from; `sweep_id` is in the journal, and tells the sweep from others
    of its name; `study_file` is the path that was given of the study, if it has one.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        study_name: str,
        study: Study,
        search: SweepSearch,
        warm: Mapping[str, Sequence[InitialConfiguration]],
        recorded: Mapping[str, str],
        sweep_id: str,
        study_file: str | None,
    ) -> None:
        self.store, self.name, self.search, self.warm = store, name, search, warm
        self.study_name, self.study = study_name, study
        self.sweep_id, self.study_file = sweep_id, study_file
        self.entries = {of.entry.id: of.entry for of in search.firsts}
        self.recorded = dict(recorded)
        # Of these a run may be in the store that nobody knows of: written, and the answer or the journal's line was lost.
        self._doubtful = set(search.requests) - set(recorded)
        self._anew = False
        self.settled = False
        """Whether the store has all that came of this sweep, as it was before this session."""
        self._shown: dict[str, tuple[str, int]] = {}

    def open(self) -> None:
        """Find or make the run of the sweep, which is the parent of all others."""
        store, name = self.store, self.name
        self.experiment = store.experiment(self.study_name)
        store.share(self.experiment, name)
        code = plugins.hashes(self.study.sampler, *sorted(self.search.code))
        tags = {
            "kind": RunKind.SWEEP,
            "study": self.study_name,
            "sweep": name,
            "sweep_id": self.sweep_id,
            **({"code": dumps(code)} if code else {}),
            **versions(),
        }
        before = self._own()
        self._anew = before is None
        self.sweep_run = before.run_id if before else store.create(self.experiment, name, tags)
        try:
            self._own()
        except UserError:
            store.delete(self.sweep_run)
            raise
        if before is not None:
            known = json.loads(before.tags.get("code", "{}"))
            plugins.refuse_changed(known, f"sweep {name}", "choose another --name")
            same = before.tags.get("version") == versions()["version"]
            self.settled = before.status == "FINISHED" and same and self.search.exhausted
        if not self.settled:
            store.log(self.sweep_run, tags=tags)
            store.set_status(self.sweep_run, "RUNNING")

    def _own(self) -> Record | None:
        """Return the run of this sweep, None where it has none yet. Raises `UserError` where another one of its name,
        which some other storage has, was there first.
        """
        found = self.store.find(sweep=self.name, kind=RunKind.SWEEP)
        if found and found[0].tags.get("sweep_id") != self.sweep_id:
            raise UserError(
                f"{self.store.uri} holds another sweep {self.name!r}, which another storage has: "
                "choose another --name, or its --storage"
            )
        return found[0] if found else None

    def close(self, status: str) -> None:
        """Set the status of the sweep's run; trials that still run are shown no more."""
        for run_id, _ in self._shown.values():
            self.store.delete(run_id)
        self._shown.clear()
        self.store.set_status(self.sweep_run, status)

    def delete(self) -> None:
        """Remove the run of the sweep."""
        self.store.delete(self.sweep_run)

    def missing(self, ended: Iterable[str], before: Iterable[str] = ()) -> list[str]:
        """Return which of the trials that have ended lack a run that is whole; all, where the store was lost. What a session that was
        killed left half-written is removed, and those of the runs `before` that the journal does not know any more.
        """
        half = set()
        for run_id in set(before) - set(self.recorded.values()):
            for run in self.store.beginning_with(run_id) if not self._anew else ():
                self._remove(run)
        for run in self.store.find(status="RUNNING", sweep=self.name):
            if run.run_id != self.sweep_run:
                half.add(run.run_id)
                self.store.delete(run.run_id)
        if self._anew:
            self.recorded.clear()
        return [i for i in ended if i not in self.recorded or self.recorded[i] in half]

    def record(
        self, request: TrialRequest, outcome: TrialResult, note: Callable[[str], None]
    ) -> None:
        """Write one ended trial. `note` journals its run once it is begun: one that stays RUNNING is written anew."""
        store, trial_id, self.settled = self.store, request.trial_id, False
        entry, spec = self.entries[request.entry_id], self.search.spec(request)
        run_id, seen = self._shown.pop(trial_id, ("", -1))
        if trial_id in self._doubtful and not run_id:
            for run in self.store.find(sweep=self.name, trial_id=trial_id):
                self._remove(run)
        self._doubtful.add(trial_id)
        tags = run_tags(recorded_as(request), spec, outcome) | self._names(request)
        if not run_id:
            name, parent = _name(entry, request), self.sweep_run
            run_id = store.create(self.experiment, name, tags, parent, outcome.seconds)
        note(run_id)
        self.recorded[trial_id] = run_id
        params = spec_params(spec)
        if request.counted:  # the settings are its study's, but for those that were searched
            params = {k: v for k, v in params.items() if k in {*spec.params, *request.params}}
        news = [one for one in self._curve(request, outcome.history) if one["round"] > seen]
        store.log(run_id, params, [*news, *self._ends(request, outcome)], tags)
        store.set_status(run_id, "FAILED" if outcome.status == Status.FAILED else "FINISHED")
        self._doubtful.discard(trial_id)

    def _remove(self, run: Record) -> None:
        """Remove a trial's run, and the model that was kept with it."""
        if self.study.save == "best":
            from suite.tracking.models import delete_models  # MLflow's models take time

            delete_models(self.store, run)
        self.store.delete(run.run_id)

    def show(self, request: TrialRequest, history: list[dict[str, float]]) -> None:
        """Write what a running trial reported and is not there yet, in a run that becomes its record."""
        trial_id, entry = request.trial_id, self.entries[request.entry_id]
        run_id, seen = self._shown.get(trial_id, ("", -1))
        if not run_id:
            tags = self._names(request) | {
                "kind": RunKind.RUNNING,
                "algorithm": entry.algorithm,
                **entry.scenario.names(),
            }
            name = _name(entry, request)
            run_id = self.store.create(self.experiment, name, tags, self.sweep_run)
            self._doubtful.add(trial_id)
            self._shown[trial_id] = run_id, seen
        news = [one for one in self._curve(request, history) if one["round"] > seen]
        self.store.log(run_id, history=news)
        if news:
            self._shown[trial_id] = run_id, int(news[-1]["round"])

    def hide(self, trial_id: str) -> None:
        """Show a trial no more that runs no more and has no end."""
        run_id, _ = self._shown.pop(trial_id, ("", -1))
        if run_id:
            self.store.delete(run_id)

    def _names(self, request: TrialRequest) -> dict[str, str]:
        """Return the tags that say which trial a run is of."""
        found = {
            "study": self.study_name,
            "sweep": self.name,
            "trial_id": request.trial_id,
            "entry_id": request.entry_id,
            "replicate": request.replicate,
            "origin": request.origin,
            "source": request.source or "",
        }
        return {name: text for name, text in found.items() if text}

    def _curve(
        self, request: TrialRequest, history: list[dict[str, float]]
    ) -> list[dict[str, float]]:
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
        found = {"round": last["round"]}
        scores = {"val_score": outcome.value, "test_score": outcome.tested(metric)}
        found |= {name: score for name, score in scores.items() if score is not None}
        if request.counted:
            found |= {name: last[name] for name in LAST_ONLY if last.get(name)}
        elif self.study.target is not None and not outcome.lost(f"test_{metric}"):
            found |= reach(outcome.history, metric, self.study.target)
        return [found]


def _name(entry: Entry, request: TrialRequest) -> str:
    number = (
        f"trial {request.index}" if request.kind == TrialKind.SEARCH else f"seed {request.seed}"
    )
    return " · ".join(filter(None, (entry.name, request.replicate, number)))


def recorded_as(request: TrialRequest) -> RunKind:
    """Return what the run of a trial is."""
    return RunKind.SEARCH if request.counted else RunKind(request.kind)


def row_tags(entry: Entry, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags that say what a leaderboard's row is of."""
    outside = entry.outside(params)
    found = {"entry_id": entry.id, "algorithm": entry.algorithm, "paper": entry.paper}
    return found | entry.scenario.names() | ({"outside": outside} if outside else {})
