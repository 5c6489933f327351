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
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset

EXPERIMENT = "reproduce"
"""The MLflow experiment of the runs, and their folder in the storage."""
FILE = "runs.jsonl"
"""What they measured, in that folder."""


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


class Queue:
    """What the driver asks for trials: the jobs, in order. No search, no scenarios."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.requests: dict[str, TrialRequest] = {}
        self.ended: set[str] = set()
        self.code = {name for job in jobs for name in job.spec.code}
        self._waiting = iter(self.jobs.items())

    def next(self) -> tuple[TrialRequest, bool] | None:
        """Return the next job and that it is new; None when all were handed out."""
        for job_id, job in self._waiting:
            seeds = job.spec.seed, job.spec.settings.partition_seed
            number, params = len(self.requests), job.spec.params
            request = TrialRequest(job_id, "", TrialKind.BATCH, number, "", params, *seeds)
            self.requests[job_id] = request
            return request, True
        return None

    @property
    def exhausted(self) -> bool:
        """Whether all jobs have ended."""
        return len(self.ended) == len(self.jobs)

    def spec(self, request: TrialRequest) -> TrialSpec:
        """Return the trial that a request runs."""
        return self.jobs[request.trial_id].spec


@dataclass(frozen=True)
class Done:
    """A run that came to its end: the tags of its run in MLflow, which say what ran and what made it, its evaluations, and how
    long it took.
    """

    tags: Mapping[str, str]
    history: list[dict[str, float]]
    seconds: float


class Batch:
    """Jobs of a reproduction: their runs in a store, and their results in a file beside the `folder` of Tune's.

    The file has a JSON line for each piece of news on a job, the later ones over those before: its result comes first, then
    the run that records it in MLflow, then that this is whole. A line that a kill tore is as none: its job is run, or
    recorded, again.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder, self.path = store, folder, folder.parent / FILE
        self.known: dict[str, dict[str, Any]] = {}
        self.fault = ""
        """Why the store takes no more records for now."""
        for line in self.path.read_bytes().splitlines() if self.path.exists() else ():
            with suppress(ValueError):
                news = json.loads(line)
                check_format(f"results {self.path}", news.pop("format", None))
                self.known.setdefault(news["id"], {}).update(news)

    def _learn(self, job: Job, **news: Any) -> None:
        """Write what is learned of a job, to the disk."""
        text = dumps({"format": FORMAT, "id": job.id, **news})
        with writing(self.path.parent):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"\n{text}")  # the line before may be torn
                file.flush()
                os.fsync(file.fileno())
        self.known.setdefault(job.id, {}).update(news)

    def done(self) -> dict[str, Done]:
        """Return the jobs that came to their end, by id."""
        return {
            job_id: Done(news["tags"], news["history"], news["seconds"])
            for job_id, news in self.known.items()
            if "tags" in news and news["tags"]["status"] != Status.FAILED
        }

    def record(self, job: Job) -> None:
        """Write an ended job to the store, once, whatever an earlier attempt left behind: at once, or where the store takes
        nothing for now when the same command comes again.
        """
        known = self.known[job.id]
        if known["whole"] or self.fault:
            return
        failed = known["tags"]["status"] == Status.FAILED
        try:
            if former := known.get("run_id"):
                self.store.delete(former)
            tags = {**known["tags"], "trial_id": job.id, **job.tags}
            experiment = self.store.experiment(EXPERIMENT)
            run_id = self.store.create(experiment, job.name, tags, seconds=known["seconds"])
            self._learn(job, run_id=run_id)
            self.store.log(run_id, spec_params(job.spec), known["history"])
            self.store.set_status(run_id, "FAILED" if failed else "FINISHED")
            self._learn(job, whole=True)
        except StoreError as error:
            if error.passes:
                self.fault = str(error)
            else:
                say(f"{job.name}: {error}. {self.path} has what was measured.")

    def run(self, jobs: Sequence[Job], data_root: str | None, resources: Any) -> tuple[int, bool]:
        """Run what is not done and record it; return how many runs failed, and whether it was interrupted."""
        done, by_id = self.done(), {job.id: job for job in jobs}
        for job_id, job in by_id.items():
            if job_id in done:
                self.record(job)
        left = [job for job_id, job in by_id.items() if job_id not in done]
        failed, control = self._drive(left, data_root, resources) if left else (0, None)
        if fault := (control and control.fault) or self.fault:
            remedy = "The same command runs and records what is left, once that is mended."
            raise HaltedError(fault, remedy)
        return failed, bool(control and control.ending)

    def _drive(
        self, left: Sequence[Job], data_root: str | None, resources: Any
    ) -> tuple[int, Control]:
        """Run jobs; return how many failed, and how they were ended."""
        from suite.execution.cluster import check
        from suite.execution.dispatch import ExecutionPlan, Hooks
        from suite.execution.driver import drive

        specs = {job.spec.dataset_key: job.spec for job in reversed(left)}
        data = {key: load_dataset(spec, data_root) for key, spec in specs.items()}
        check(resources)
        queue, failed = Queue(left), 0

        def take(request: TrialRequest, outcome: TrialResult) -> None:
            nonlocal failed
            job = queue.jobs[request.trial_id]
            queue.ended.add(job.id)
            tags = run_tags(RunKind.REPRODUCE, job.spec, outcome)
            history = [
                {name: value for name, value in entry.items() if math.isfinite(value)}
                for entry in outcome.history  # JSON has no word for what is not finite
            ]
            self._learn(job, tags=tags, history=history, seconds=outcome.seconds, whole=False)
            self.record(job)
            if outcome.status == Status.FAILED:
                failed += 1
                say((outcome.error.strip().splitlines() or ["no reason given"])[-1][:200])
            ended = f"{job.name}: {outcome.status} in {outcome.seconds:.0f} s"
            say(f"{len(queue.ended)}/{len(left)} {ended}")

        def died(request: TrialRequest, outcome: TrialResult, again: bool) -> None:
            nonlocal failed
            say(f"{queue.jobs[request.trial_id].name}: {outcome.error.splitlines()[0][:200]}")
            if not again:
                queue.ended.add(request.trial_id)
                failed += 1

        control = Control(self.folder)
        hooks = Hooks(lambda request, new: None, take, control, died)
        checkpoints = str(self.folder.resolve() / "checkpoints")
        alone = not resources.gpus_per_trial
        drive(ExecutionPlan(queue, data, resources, hooks, self.folder, checkpoints, alone=alone))
        return failed, control
