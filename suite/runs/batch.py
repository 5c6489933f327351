"""A fixed list of runs: through the same driver and recorder as a sweep's, each done once.

What is done is known from the store alone: a finished run of the same kind and trial id (a hash of its
spec) is not run again.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.console import say
from suite.execution.stop_signal import Control, HaltedError
from suite.search.trial import TrialRequest
from suite.tracking.recorder import Recorder
from suite.tracking.schema.tags import RunKind, dumps, run_tags, spec_params
from suite.tracking.store import Record, Store
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset

EXPERIMENT = "reproduce"
"""The MLflow experiment of the runs, and their folder in the storage."""
RECORD_SECONDS = 600.0
"""How long a finished batch waits for a tracking server that takes nothing."""


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

    def __init__(self, jobs: list[Job]) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.requests: dict[str, TrialRequest] = {}
        self._left = list(self.jobs)
        self._open = set(self.jobs)

    def next(self) -> tuple[TrialRequest, bool] | None:
        """The next job and that it is new; None when all were handed out."""
        if not self._left:
            return None
        job = self.jobs[self._left.pop(0)]
        spec = job.spec
        seeds = spec.seed, spec.settings.partition_seed
        request = TrialRequest(
            job.id, "", TrialKind.BATCH, len(self.requests), "", spec.params, *seeds
        )
        self.requests[job.id] = request
        return request, True

    def end(self, trial_id: str) -> None:
        """Note that a job is over."""
        self._open.discard(trial_id)

    @property
    def exhausted(self) -> bool:
        """Whether all jobs have ended."""
        return not self._open

    @property
    def code(self) -> set[str]:
        """The names in all jobs; some may load third-party code."""
        return {name for job in self.jobs.values() for name in job.spec.code}

    def spec(self, request: TrialRequest) -> TrialSpec:
        """The trial that a request runs."""
        return self.jobs[request.trial_id].spec


@dataclass
class Batch:
    """Jobs of a reproduction in a store."""

    store: Store
    folder: Path

    def done(self) -> dict[str, Record]:
        """Finished runs of reproductions, by job id."""
        found = self.store.find(status="FINISHED", kind=RunKind.REPRODUCE)
        return {run.tags["trial_id"]: run for run in found}

    def record(self, job: Job, outcome: TrialResult) -> None:
        """Write an ended job: once, whatever an earlier attempt left behind."""
        for half_written in self.store.find(kind=RunKind.REPRODUCE, trial_id=job.id):
            self.store.delete(half_written.run_id)
        own = run_tags(RunKind.REPRODUCE, job.spec, outcome)
        tags = {**own, "trial_id": job.id, **job.tags}
        experiment = self.store.experiment(EXPERIMENT)
        run_id = self.store.create(experiment, job.name, tags, seconds=outcome.seconds)
        self.store.log(run_id, spec_params(job.spec), outcome.history)
        self.store.set_status(run_id, "FAILED" if outcome.status == Status.FAILED else "FINISHED")

    def run(self, jobs: list[Job], data_root: str | None, resources: Any) -> tuple[int, bool]:
        """Run what is not done and record it; how many runs failed, and whether it was interrupted."""
        done = self.done()
        left = list({job.id: job for job in jobs if job.id not in done}.values())
        if not left:
            return 0, False
        from suite.execution.cluster import check
        from suite.execution.driver import drive
        from suite.execution.plan import ExecutionPlan, Hooks

        data = {}
        for job in left:
            if job.spec.dataset_key not in data:
                data[job.spec.dataset_key] = load_dataset(job.spec, data_root)
        check(resources)
        queue, ended, failed = Queue(left), 0, 0
        recorder = Recorder(
            lambda item: self.record(*item),
            lambda error: say(f"recording waits: {str(error)[:100]}"),
        )
        started = time.monotonic()

        def take(request: TrialRequest, outcome: TrialResult) -> None:
            nonlocal ended, failed
            queue.end(request.trial_id)
            job = queue.jobs[request.trial_id]
            recorder.put((job, outcome))
            ended += 1
            failed += outcome.status == Status.FAILED
            if outcome.status == Status.FAILED:
                say((outcome.error.strip().splitlines() or ["no reason given"])[-1][:200])
            pace = (time.monotonic() - started) / ended
            say(
                f"{ended}/{len(left)} {job.name}: {outcome.status} in {outcome.seconds:.0f} s, "
                f"about {pace * (len(left) - ended):.0f} s left"
            )

        def died(request: TrialRequest, outcome: TrialResult, again: bool) -> None:
            nonlocal failed
            say(f"{queue.jobs[request.trial_id].name}: {outcome.error.splitlines()[0][:200]}")
            if not again:
                queue.end(request.trial_id)
                failed += 1

        control = Control(self.folder)
        hooks = Hooks(lambda request, new: None, take, control, died)
        checkpoints = str(self.folder.resolve() / "checkpoints")
        alone = not resources.gpus_per_trial
        drive(ExecutionPlan(queue, data, resources, hooks, self.folder, checkpoints, alone=alone))
        written = recorder.close(RECORD_SECONDS)
        if control.fault or not written:
            fault = control.fault or f"{self.store.uri} did not take all records"
            raise HaltedError(
                fault, "The same command runs what is not recorded, once that is mended."
            )
        return failed, bool(control.ending)
