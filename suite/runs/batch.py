"""A fixed list of runs: through the same driver and recorder as a sweep's, each done once.

    runs/reproduce/runs.jsonl

has what they measured: one whose id (a hash of its spec) is there is not run again.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.console import say
from suite.execution.stop_signal import Control, HaltedError
from suite.formats import FORMAT, check_format
from suite.search.trial import TrialRequest
from suite.tracking.faults import reason
from suite.tracking.recorder import Recorder
from suite.tracking.schema.tags import RunKind, dumps, run_tags, spec_params
from suite.tracking.store import Store
from suite.yaml_files import writing
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset

EXPERIMENT = "reproduce"
"""The MLflow experiment of the runs, and their folder in the storage."""
FILE = "runs.jsonl"
"""What they measured, in that folder."""
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


@dataclass(frozen=True)
class Done:
    """A run that came to its end: the tags of its run in MLflow, which say what ran and what made it, its evaluations, and how
    long it took.
    """

    tags: Mapping[str, str]
    history: list[dict[str, float]]
    seconds: float


class Results:
    """The file of what is known of jobs: a JSON line for each piece of news, the later ones over those before.

    A job's result comes first, then the run that records it in MLflow, then that this is whole. A line that a kill tore is as
    none: its job is run, or recorded, again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, dict[str, Any]] = {}
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        for line in lines:
            with suppress(ValueError):
                news = json.loads(line)
                check_format(f"results {path}", news.pop("format", None))
                self.known.setdefault(news["id"], {}).update(news)
        self._torn = bool(lines) and not lines[-1].endswith(b"\n")

    def add(self, job_id: str, **news: Any) -> None:
        """Write what is learned of a job, to the disk."""
        text = dumps({"format": FORMAT, "id": job_id, **news})
        with writing(self.path.parent):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(b"\n" * self._torn + text.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        self._torn = False
        self.known.setdefault(job_id, {}).update(news)

    def done(self) -> dict[str, Done]:
        """Return the jobs that came to their end, by id."""
        return {
            job_id: Done(news["tags"], news["history"], news["seconds"])
            for job_id, news in self.known.items()
            if "tags" in news and news["tags"]["status"] != Status.FAILED
        }


class Batch:
    """Jobs of a reproduction: their results below a folder, and their runs in a store."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.results = Results(folder.parent / FILE)

    def done(self) -> dict[str, Done]:
        """Return the jobs that came to their end, by id."""
        return self.results.done()

    def take(self, job: Job, outcome: TrialResult) -> None:
        """Write what an ended job measured; what is not finite is left out, since JSON has no word for it."""
        tags = run_tags(RunKind.REPRODUCE, job.spec, outcome)
        history = [
            {name: value for name, value in entry.items() if math.isfinite(value)}
            for entry in outcome.history
        ]
        news = {"tags": tags, "history": history, "seconds": outcome.seconds, "whole": False}
        self.results.add(job.id, **news)

    def record(self, job: Job) -> None:
        """Write an ended job to the store: once, whatever an earlier attempt left behind."""
        known = self.results.known[job.id]
        if former := known.get("run_id"):
            self.store.delete(former)
        tags = {**known["tags"], "trial_id": job.id, **job.tags}
        experiment = self.store.experiment(EXPERIMENT)
        run_id = self.store.create(experiment, job.name, tags, seconds=known["seconds"])
        self.results.add(job.id, run_id=run_id)
        self.store.log(run_id, spec_params(job.spec), known["history"])
        failed = known["tags"]["status"] == Status.FAILED
        self.store.set_status(run_id, "FAILED" if failed else "FINISHED")
        self.results.add(job.id, whole=True)

    def run(self, jobs: list[Job], data_root: str | None, resources: Any) -> tuple[int, bool]:
        """Run what is not done and record it; return how many runs failed, and whether it was interrupted."""
        done, by_id = self.done(), {job.id: job for job in jobs}
        recorder = Recorder(
            self.record, lambda error: say(f"recording waits: {reason(error)[:100]}")
        )
        for job_id, job in by_id.items():
            if job_id in done and not self.results.known[job_id]["whole"]:
                recorder.put(job)
        left = [job for job_id, job in by_id.items() if job_id not in done]
        failed, control = self._drive(left, recorder, data_root, resources) if left else (0, None)
        written = recorder.close(RECORD_SECONDS)
        for text in recorder.refusals:
            say(f"{text}. {self.results.path} has what was measured.")
        if (control and control.fault) or not written:
            fault = control.fault if control and control.fault else ""
            raise HaltedError(
                fault or f"{self.store.uri} did not take all records",
                "The same command runs and records what is left, once that is mended.",
            )
        return failed, bool(control and control.ending)

    def _drive(
        self, left: list[Job], recorder: Recorder, data_root: str | None, resources: Any
    ) -> tuple[int, Control]:
        """Run jobs; return how many failed, and how they were ended."""
        from suite.execution.cluster import check
        from suite.execution.dispatch import ExecutionPlan, Hooks
        from suite.execution.driver import drive

        data = {}
        for job in left:
            if job.spec.dataset_key not in data:
                data[job.spec.dataset_key] = load_dataset(job.spec, data_root)
        check(resources)
        queue, ended, failed = Queue(left), 0, 0
        started = time.monotonic()

        def take(request: TrialRequest, outcome: TrialResult) -> None:
            nonlocal ended, failed
            queue.end(request.trial_id)
            job = queue.jobs[request.trial_id]
            self.take(job, outcome)
            recorder.put(job)
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
        return failed, control
