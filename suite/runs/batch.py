"""A fixed list of runs, each of which is done once, by the same driver as the trials of a sweep."""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from suite.console import say
from suite.execution.resources import local_slots
from suite.execution.stop_signal import Control, HaltedError
from suite.formats import FORMAT, check_format
from suite.search.trial import TrialRequest
from suite.tracking.tags import RunKind, dumps, run_tags
from suite.yaml_files import writing
from trials.run.outcome import Status, TrialKind, TrialResult, reason
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset


@dataclass(frozen=True)
class Job:
    """A run of a batch: its specification, and a readable name."""

    spec: TrialSpec
    name: str

    @property
    def id(self) -> str:
        """Return a hash of the specification without default values. New settings in a later version do not change the hash."""
        content = self.spec.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(dumps(content).encode()).hexdigest()[:12]


class Done(NamedTuple):
    """The results of a run that did not fail: its tags as in MLflow, its evaluations, and its duration."""

    tags: Mapping[str, str]
    history: list[dict[str, float]]
    seconds: float


class Batch:
    """A source of trials from a fixed list of jobs. Jobs that are `done` have a line in `runs.jsonl` and do not run again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "runs.jsonl"
        self.jobs: dict[str, Job] = {}
        self.requests: dict[str, TrialRequest] = {}
        self.ended = self.failed = 0
        self.done: dict[str, Done] = {}
        for line in self.path.read_bytes().splitlines() if self.path.exists() else ():
            with suppress(ValueError, KeyError):  # a kill may leave an incomplete line
                content = json.loads(line)
                check_format(f"results {self.path}", content["format"])
                self.done[content["id"]] = Done(*itemgetter(*Done._fields)(content))

    def run(self, jobs: Sequence[Job], data_root: str | None, resources: Any) -> tuple[int, bool]:
        """Run the remaining jobs. Return how many failed and whether the batch ended early. Raise `HaltedError` if a machine or cluster fault ends it."""
        from suite.execution.cluster import check
        from suite.execution.dispatch import ExecutionPlan, Hooks
        from suite.execution.driver import drive

        self.jobs, specs = {}, {}
        for job in jobs:
            if job.id not in self.done:
                self.jobs[job.id], specs[job.spec.dataset_key] = job, job.spec
        if not self.jobs:
            return 0, False
        data = {key: load_dataset(spec, data_root) for key, spec in specs.items()}
        alone = not resources.gpus_per_trial
        if not alone or local_slots(resources) > 1 or resources.joins:
            check(resources)
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder, control = self.folder / "tune", Control(self.folder / "tune")
        hooks = Hooks(lambda request, new: None, self._take, control, self._died)
        checkpoints = str(folder.resolve() / "checkpoints")
        drive(ExecutionPlan(self, data, resources, hooks, folder, checkpoints, alone=alone))
        if control.fault:
            raise HaltedError(control.fault, "Run the same command again for the remaining runs.")
        return self.failed, bool(control.ending)

    def next(self) -> tuple[TrialRequest, bool] | None:
        """Return a request for the next job, with True for a new run (not a retry). Return None if no job is left."""
        number = len(self.requests)
        job = next(islice(self.jobs.values(), number, None), None)
        if job is None:
            return None
        seeds, params = (job.spec.seed, job.spec.settings.partition_seed), job.spec.params
        request = TrialRequest(job.id, "", TrialKind.BATCH, number, "", params, *seeds)
        self.requests[job.id] = request
        return request, True

    @property
    def exhausted(self) -> bool:
        """Return whether all jobs have ended."""
        return self.ended == len(self.jobs)

    @property
    def code(self) -> set[str]:
        """Return the names that may stand for third-party code: those of the jobs' algorithms, data sets, models and levels."""
        return set(chain.from_iterable(job.spec.code for job in self.jobs.values()))

    def spec(self, request: TrialRequest) -> TrialSpec:
        """Return the specification of the run that `request` asks for."""
        return self.jobs[request.trial_id].spec

    def _take(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Save the results of an ended job in `runs.jsonl`, unless the job failed. Print how the job ended."""
        job, why = self.jobs[request.trial_id], ""
        if outcome.status == Status.FAILED:
            self.failed += 1
            why = f": {reason(outcome.error)[:200]}"
        else:
            tags = run_tags(RunKind.REPRODUCE, job.spec, outcome)
            history = []
            for entry in outcome.history:  # JSON has no NaN and no infinity
                history.append({k: value for k, value in entry.items() if math.isfinite(value)})
            self.done[job.id] = Done(tags, history, outcome.seconds)
            content = {"format": FORMAT, "id": job.id, "name": job.name}
            with writing(self.path), self.path.open("a", encoding="utf-8") as file:
                # The previous line may be incomplete.
                file.write("\n" + dumps(content | self.done[job.id]._asdict()))
                file.flush()
                os.fsync(file.fileno())
        self.ended += 1
        end = f"{outcome.status}{why} in {outcome.seconds:.0f} s"
        say(f"{self.ended}/{len(self.jobs)} {job.name}: {end}")

    def _died(self, request: TrialRequest, outcome: TrialResult, again: bool) -> None:
        say(f"{self.jobs[request.trial_id].name}: {outcome.error.splitlines()[0][:200]}")
        self.ended += not again
        self.failed += not again
