"""What of a sweep is in its tracking store: runs of the sweep, its entries, its trials, its leaderboard."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from suite.studies.entry import Entry
from suite.studies.study import Study
from suite.sweeps.recording import brief
from suite.tracking.record import Record
from suite.tracking.schema.forms import dumps
from suite.tracking.schema.inherited import OF_TRIALS, shared_by
from suite.tracking.schema.inherited import common as common_tags
from suite.tracking.schema.inherited import own as own_tags
from suite.tracking.schema.tags import RunKind, run_tags, spec_params, versions, written
from suite.tracking.store import Store
from trials.common import plugins
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult
from trials.scoring.metrics import reach


class SweepRecording:
    """Writes the runs of one sweep, each once; what it says of a trial is enough to replay it.

    `recorded` maps trials to the runs that hold them, as far as it is known; `warm` are the
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
        # A write of this session that failed may have left a half-written run of these in the store, and an
        # earlier session a run of those, whether the journal knows of it or not.
        self._tried = set[str]()
        self._before = set(search.requests)
        self._apart = set[str]()
        self.settled = False
        """Whether the store has all that came of this sweep, as it was before this session."""
        self._shown: dict[str, tuple[str, int]] = {}
        self.entry_runs: dict[str, str] = {}
        self._shared: dict[str, Mapping[str, str]] = {}

    def open(self) -> None:
        """Find or make the runs of the sweep and its entries, which are the parents of the trials'."""
        store, name = self.store, self.name
        self.experiment = store.experiment(self.study_name)
        store.share(self.experiment, name)
        common = {**written(study=self.study_name, sweep=name), **versions()}
        study = written(
            kind=RunKind.SWEEP,
            study_json=self.study.model_dump(mode="json"),
            sweep_id=self.sweep_id,
            study_file=self.study_file,
            code=plugins.hashes(self.study.sampler, *sorted(self.search.code)) or None,
        )
        self.sweep_run = self._own(self._sweeps()) or store.create(
            self.experiment, name, {**common, **study}
        )
        try:
            self._own(self._sweeps())
        except UserError:
            store.delete(self.sweep_run)
            raise
        before = store.get(self.sweep_run)
        plugins.refuse_changed(before.tags.code or {}, f"sweep {name}", "choose another --name")
        alike = {**study, "version": common["version"]}.items()
        same = all(before.tags.get(name) == text for name, text in alike)
        self.settled = before.finished and same and self.search.exhausted
        if before.tags.cut:
            study["cut"] = ""
        if not self.settled:
            store.log(self.sweep_run, tags=study)
        entries = {run.tags.entry_id: run for run in store.sound(sweep=name, kind=RunKind.ENTRY)}
        for entry in self.entries.values():
            own = written(kind=RunKind.ENTRY, space=entry.space.searched)
            shared = common_tags({**common, **identity(entry), **self._alike(entry)})
            if entry.id not in entries:
                tags = {**common, **identity(entry), **own, OF_TRIALS: dumps(shared)}
                run_id = store.create(self.experiment, entry.name, tags, self.sweep_run)
            else:
                run_id, known = entries[entry.id].run_id, entries[entry.id].tags
                if OF_TRIALS in known:  # recorded trials go by what it says
                    shared = shared_by(known[OF_TRIALS])
                if not self.settled:
                    store.log(run_id, tags={**own, OF_TRIALS: dumps(shared)})
            self.entry_runs[entry.id], self._shared[entry.id] = run_id, shared
        for record in store.find(sweep=name, kind=RunKind.RUNNING):  # of a session that was killed
            store.delete(record.run_id)
        if not self.settled:
            self.close("RUNNING")

    def _sweeps(self) -> list[Record]:
        """The runs of sweeps of this name, those that began first at the head."""
        found = self.store.find(sweep=self.name, kind=RunKind.SWEEP)
        return sorted(found, key=lambda run: (run.began, run.run_id))

    def _own(self, sweeps: Sequence[Record]) -> str:
        """The run of this sweep, "" where it has none yet. Raises `UserError` where another one of its name,
        which some other storage has, was there first.
        """
        for run in sweeps:
            if run.tags.sweep_id != self.sweep_id:
                raise UserError(
                    f"{self.store.uri} holds another sweep {self.name!r}, which another storage has: "
                    "choose another --name, or its --storage"
                )
            return run.run_id
        return ""

    def close(self, status: str) -> None:
        """Set the status of the runs of the sweep and its entries; trials that still run are shown no more."""
        for run_id, _ in self._shown.values():
            self.store.delete(run_id)
        self._shown.clear()
        for run_id in [*self.entry_runs.values(), self.sweep_run]:
            self.store.set_status(run_id, status)

    def delete(self) -> None:
        """Remove the runs of the sweep and its entries."""
        for run_id in [*self.entry_runs.values(), self.sweep_run]:
            self.store.delete(run_id)

    def missing(self, trial_ids: Iterable[str]) -> list[str]:
        """Which of these trials have no run in the store that counts; all, when the store was lost."""
        there = self.store.trials(self.name)
        self._before |= set(there.values())
        finals = self.store.find(sweep=self.name, kind=RunKind.FINAL)
        sound = self.store.sound(sweep=self.name, kind=RunKind.FINAL)
        self._apart = {run.run_id for run in finals} - {run.run_id for run in sound}
        counts = there.keys() - self._apart
        return [trial_id for trial_id in trial_ids if self.recorded.get(trial_id) not in counts]

    def record(self, request: TrialRequest, outcome: TrialResult) -> str:
        """Write one ended trial: once, whatever an earlier attempt left behind. Its run."""
        store, trial_id, self.settled = self.store, request.trial_id, False
        entry, spec = self.entries[request.entry_id], self.search.spec(request)
        target = None if request.counted else self.study.target
        reached: Mapping[str, float] = {}
        if target is not None and not outcome.lost(f"test_{entry.task.metric}"):
            reached = reach(outcome.history, entry.task.metric, target)
        tags = self._tags(request, outcome, bool(reached))
        scores = _scores(request, outcome, entry)
        if scores and "rounds_to_target" in self.study.constraints:
            cost = self.search.entries[request.search].candidates.cost(
                ValidationResult.of(outcome), "rounds_to_target"
            )
            scores[0]["rounds_to_target"] = cost
        if scores:
            scores[0] |= reached
        curve = self._curve(request, outcome.history)
        ends = brief.end(outcome.history, self.study.constraints) if request.counted else []
        # Of a write that fails nothing is shown any more: the next one begins anew.
        run_id, seen = self._shown.pop(trial_id, ("", -1))
        shown = bool(run_id)
        looks = trial_id in self._before or (trial_id in self._tried and not shown)
        if looks and (there := self._there(request, tags, [*curve, *ends, *scores], run_id)):
            self.recorded[trial_id] = there
            return there
        self._tried.add(trial_id)
        own = self._recorded_tags(request, tags)
        if not shown:
            parent = self.entry_runs[entry.id]
            run_id = store.create(
                self.experiment, _name(entry, request), own, parent, outcome.seconds
            )
        news = [one for one in curve if one["round"] > seen]
        params = spec_params(spec)
        if request.counted:  # the settings are its entry's, but for those that were searched
            params = {k: v for k, v in params.items() if k in {*spec.params, *request.params}}
        store.log(run_id, params, [*news, *ends, *scores], own if shown else None)
        store.set_status(run_id, "FAILED" if outcome.status == Status.FAILED else "FINISHED")
        self.recorded[trial_id] = run_id
        return run_id

    def _there(
        self,
        request: TrialRequest,
        tags: Mapping[str, str],
        said: Sequence[Mapping[str, float]],
        shown: str,
    ) -> str:
        """The run that has a trial already as it is to be recorded, "" where there is none: one that ran
        again, since the journal had lost its end, came to the same. All others of it are removed, but for
        the one that is `shown`, where it is needed.
        """
        runs = self.store.find(sweep=self.name, trial_id=request.trial_id)
        sound = (run for run in runs if run.run_id not in self._apart)
        same = next((run.run_id for run in sound if _says(run, tags, said)), "")
        for run in runs:
            if run.run_id != (same or shown):
                if self.study.save == "best" and request.kind == TrialKind.FINAL:
                    from suite.tracking.models import delete_models  # MLflow's models take time

                    delete_models(self.store, run)
                self.store.delete(run.run_id)
        return same

    def _tags(self, request: TrialRequest, outcome: TrialResult, reached: bool) -> dict[str, str]:
        """The tags of a trial's run."""
        entry, target = self.entries[request.entry_id], self.study.target
        return {
            **self._alike(entry),
            **identity(entry, request.params),
            **run_tags(recorded_as(request), self.search.spec(request), outcome),
            **written(
                confirm=True if request.kind == TrialKind.CONFIRM else None,
                study=self.study_name,
                sweep=self.name,
                trial_id=request.trial_id,
                source=request.source,
                origin=request.origin,
                reached=None if request.counted or target is None else reached,
                params=request.params,
            ),
            **self._circumstances(request, outcome),
        }

    def show(self, request: TrialRequest, history: list[dict[str, float]]) -> None:
        """Write what a running trial reported and is not there yet, in a run that no reader of results
        counts before it is recorded.
        """
        trial_id, entry = request.trial_id, self.entries[request.entry_id]
        run_id, seen = self._shown.get(trial_id, ("", -1))
        if not run_id:
            whole = {
                **self._alike(entry),
                **identity(entry, request.params),
                **written(
                    kind=RunKind.RUNNING,
                    study=self.study_name,
                    sweep=self.name,
                    trial_id=trial_id,
                    origin=request.origin,
                    seed=request.seed,
                    params=request.params,
                    spec=self.search.spec(request),
                ),
                **versions(),
            }
            tags = self._recorded_tags(request, whole)
            parent = self.entry_runs[entry.id]
            run_id = self.store.create(self.experiment, _name(entry, request), tags, parent)
            self._tried.add(trial_id)
            self._shown[trial_id] = run_id, seen
        news = [one for one in self._curve(request, history) if one["round"] > seen]
        self.store.log(run_id, history=news)
        if news:
            self._shown[trial_id] = run_id, int(news[-1]["round"])

    def _curve(
        self, request: TrialRequest, history: list[dict[str, float]]
    ) -> list[dict[str, float]]:
        """What is recorded of a history: of a search trial the ranked metric alone."""
        metric = self.entries[request.entry_id].task.metric
        return brief.curve(history, metric) if request.counted else history

    def _recorded_tags(self, request: TrialRequest, tags: Mapping[str, str]) -> Mapping[str, str]:
        """What of its tags a trial records itself."""
        return own_tags(tags, self._shared[request.entry_id]) if request.counted else tags

    def _alike(self, entry: Entry) -> dict[str, str]:
        """Tags that are the same in all trials of an entry; of `spec` most fields are."""
        study = self.study
        warm = [known.source for known in self.warm.get(entry.id, [])]
        return written(
            seed=study.seed,
            metric=entry.task.metric,
            target=study.target,
            sampler=study.sampler,
            scheduler=study.scheduler,
            warm_start="; ".join(dict.fromkeys(filter(None, warm))) or None,
            spec=entry.spec({}, study.seed, entry.settings.partition_seed),
        )

    def _circumstances(self, request: TrialRequest, outcome: TrialResult) -> dict[str, str]:
        """Tags of what is not so in every sweep."""
        search = self.search.entries[request.search]
        candidates, entry, of = search.candidates, search.entry, search.replicate
        return written(
            tuning=of.tuning or None,
            partition=of.partition or None,
            split=of.split or None,
            feasible=candidates.feasible(ValidationResult.of(outcome))
            if entry.constraints
            else None,
        )


def identity(entry: Entry, params: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The tags that say which question a run belongs to, and how a configuration (by default the
    default configuration) is ranked there.
    """
    return written(
        entry_id=entry.id,
        entry_name=entry.name,
        algorithm=entry.algorithm,
        paper=entry.paper,
        reference=entry.reference(params),
        outside=entry.outside(params) or None,
        away=entry.away or None,
        **entry.scenario.names(),
    )


def _name(entry: Entry, request: TrialRequest) -> str:
    number = (
        f"trial {request.index}" if request.kind == TrialKind.SEARCH else f"seed {request.seed}"
    )
    return " · ".join(filter(None, (entry.name, request.replicate, number)))


def recorded_as(request: TrialRequest) -> RunKind:
    """What the run of a trial is."""
    return RunKind.SEARCH if request.counted else RunKind(request.kind)


def _scores(request: TrialRequest, outcome: TrialResult, entry: Entry) -> list[dict[str, float]]:
    """The scores that are compared, as one more history entry: means of the last three evaluations.

    On test data a run that is lost counts as the untrained model.
    """
    if not outcome.history:
        return []
    last = {"round": outcome.history[-1]["round"]}
    if outcome.value is not None:
        last["val_score"] = outcome.value
    if (tested := outcome.tested(entry.task.metric)) is not None:
        last["test_score"] = tested
    return [last]


def _says(run: Record, tags: Mapping[str, str], said: Sequence[Mapping[str, float]]) -> bool:
    """Whether a run is whole, with these tags and the last of these metrics, but for the time it took."""
    last = {key: value for entry in said for key, value in entry.items() if math.isfinite(value)}
    timeless = (key for key in last if key != "round" and not key.endswith("_seconds"))
    return (
        run.over
        and all(run.tags.get(name) == text for name, text in tags.items())
        and all(run.metrics.get(key) == last[key] for key in timeless)
    )
