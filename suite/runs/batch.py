"""A fixed list of runs: through the same driver as a sweep's, each done once.

`runs/reproduce/runs.jsonl` has what they measured: one whose id (a hash of its spec) is there is not run again.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.console import say
from suite.execution.stop_signal import Control, HaltedError
from suite.formats import FORMAT, check_format
from suite.search.trial import TrialRequest
from suite.tracking import StoreError
from suite.tracking.store import Store
from suite.tracking.tags import RunKind, dumps, run_tags, spec_params
from suite.yaml_files import writing
from trials.run.outcome import Status, TrialKind, TrialResult, reason
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset

EXPERIMENT = "reproduce"
"""The MLflow experiment of the runs, and their folder in the storage."""


@dataclass(frozen=True)
class Job:
    """One run of a batch: its spec, its readable name, and tags besides those every run has."""

    spec: TrialSpec
    name: str
    tags: Mapping[str, str]

    @property
    def id(self) -> str:
        """A hash of the spec, less settings that have their default: a later version may have more."""
        content = self.spec.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(dumps(content).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Done:
    """A run that came to its end: the tags of its run in MLflow, its evaluations, and how long it took."""

    tags: Mapping[str, str]
    history: list[dict[str, float]]
    seconds: float


class Batch:
    """Jobs of a reproduction, which the driver asks for in order; their runs in a store, and their results in a file beside
    the `folder` of Tune's.

    The file has a JSON line for each piece of news on a job, the later ones over those before: its result comes first, then
    the run that records it in MLflow, then that this is whole. A line that a kill tore is as none: its job is run, or
    recorded, again.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder, self.path = store, folder, folder.parent / "runs.jsonl"
        self.jobs: dict[str, Job] = {}
        self.requests: dict[str, TrialRequest] = {}
        self._left: list[Job] = []
        self._ended = self._failed = 0
        self._known: dict[str, dict[str, Any]] = {}
        self._fault = ""  # why the store takes no more records for now
        for line in self.path.read_bytes().splitlines() if self.path.exists() else ():
            with suppress(ValueError):
                news = json.loads(line)
                check_format(f"results {self.path}", news.pop("format", None))
                self._known.setdefault(news["id"], {}).update(news)

    def done(self) -> dict[str, Done]:
        """Return the jobs that came to their end, by id."""
        return {
            job_id: Done(news["tags"], news["history"], news["seconds"])
            for job_id, news in self._known.items()
            if "tags" in news and news["tags"]["status"] != Status.FAILED
        }

    def run(self, jobs: Sequence[Job], data_root: str | None, resources: Any) -> tuple[int, bool]:
        """Run what is not done and record it; return how many runs failed, and whether it was interrupted."""
        done, control = self.done(), Control(self.folder)
        self.jobs = {job.id: job for job in jobs}
        for job in self.jobs.values():
            if job.id in done:
                self._record(job)
        self._left = [job for job_id, job in self.jobs.items() if job_id not in done]
        if self._left:
            self._drive(control, data_root, resources)
        if fault := control.fault or self._fault:
            remedy = "The same command runs and records what is left, once that is mended."
            raise HaltedError(fault, remedy)
        return self._failed, bool(control.ending)

    def _drive(self, control: Control, data_root: str | None, resources: Any) -> None:
        from suite.execution.cluster import check
        from suite.execution.dispatch import ExecutionPlan, Hooks
        from suite.execution.driver import drive

        specs = {job.spec.dataset_key: job.spec for job in reversed(self._left)}
        data = {key: load_dataset(spec, data_root) for key, spec in specs.items()}
        check(resources)
        hooks = Hooks(lambda request, new: None, self._take, control, self._died)
        checkpoints = str(self.folder.resolve() / "checkpoints")
        alone = not resources.gpus_per_trial
        drive(ExecutionPlan(self, data, resources, hooks, self.folder, checkpoints, alone=alone))

    # What the driver asks

    def next(self) -> tuple[TrialRequest, bool] | None:
        """Return the next job and that it is new; None when all were handed out."""
        number = len(self.requests)
        if number == len(self._left):
            return None
        job, spec = self._left[number], self._left[number].spec
        seeds = spec.seed, spec.settings.partition_seed
        request = TrialRequest(job.id, "", TrialKind.BATCH, number, "", spec.params, *seeds)
        self.requests[job.id] = request
        return request, True

    @property
    def exhausted(self) -> bool:
        """Whether all jobs have ended."""
        return self._ended == len(self._left)

    @property
    def code(self) -> set[str]:
        """The names in the jobs; some may load third-party code."""
        return {name for job in self._left for name in job.spec.code}

    def spec(self, request: TrialRequest) -> TrialSpec:
        """Return the trial that a request runs."""
        return self.jobs[request.trial_id].spec

    # What it tells

    def _take(self, request: TrialRequest, outcome: TrialResult) -> None:
        job = self.jobs[request.trial_id]
        tags = run_tags(RunKind.REPRODUCE, job.spec, outcome)
        history = [
            {name: value for name, value in entry.items() if math.isfinite(value)}
            for entry in outcome.history  # JSON has no word for what is not finite
        ]
        self._learn(job, tags=tags, history=history, seconds=outcome.seconds, whole=False)
        self._record(job)
        self._ended += 1
        ended = f"{self._ended}/{len(self._left)} {job.name}: {outcome.status}"
        if outcome.status == Status.FAILED:
            self._failed += 1
            ended += f": {reason(outcome.error)[:200]}"
        say(f"{ended} in {outcome.seconds:.0f} s")

    def _died(self, request: TrialRequest, outcome: TrialResult, again: bool) -> None:
        say(f"{self.jobs[request.trial_id].name}: {outcome.error.splitlines()[0][:200]}")
        self._ended += not again
        self._failed += not again

    def _learn(self, job: Job, **news: Any) -> None:
        """Write what is learned of a job, to the disk."""
        text = dumps({"format": FORMAT, "id": job.id, **news})
        with writing(self.path.parent):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"\n{text}")  # the line before may be torn
                file.flush()
                os.fsync(file.fileno())
        self._known.setdefault(job.id, {}).update(news)

    def _record(self, job: Job) -> None:
        """Write an ended job to the store, once, whatever an earlier attempt left behind: at once, or where the store takes
        nothing for now when the same command comes again.
        """
        news = self._known[job.id]
        if news["whole"] or self._fault:
            return
        try:
            if former := news.get("run_id"):
                self.store.delete(former)
            tags = {**news["tags"], "trial_id": job.id, **job.tags}
            experiment = self.store.experiment(EXPERIMENT)
            run_id = self.store.create(experiment, job.name, tags, seconds=news["seconds"])
            self._learn(job, run_id=run_id)
            self.store.log(run_id, spec_params(job.spec), news["history"])
            failed = news["tags"]["status"] == Status.FAILED
            self.store.set_status(run_id, "FAILED" if failed else "FINISHED")
            self._learn(job, whole=True)
        except StoreError as error:
            if error.passes:
                self._fault = str(error)
            else:
                say(f"{job.name}: {error}. {self.path} has what was measured.")
