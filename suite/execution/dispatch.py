"""The decisions about which trials begin together in a process, and about what follows when they end.

Requests wait in the order in which their source hands them out. A free slot takes a pack: several waiting trials of any
entries that can share a process, but not so many that another slot stays idle. Search, journal, records and early stopping
treat each trial of a pack by itself.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from suite.console import say
from suite.execution.cluster import Cluster
from suite.execution.resources import Resources
from suite.execution.stop_signal import Control, HaltedError
from suite.search.schedulers import EntrySchedulers
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import Entry
from trials.datasets.base import Dataset
from trials.run.checkpoint import Checkpoint
from trials.run.outcome import Status, TrialResult, shortened
from trials.run.spec import TrialConfig, TrialSpec

DEATHS = 10
"""The number of times in a row that a trial's process may die without progress before the trial is set aside."""
PAUSE, LONGEST = 1.0, 30.0
"""Seconds before a trial whose process died begins again: the first pause, doubled with each death up to the longest."""
AHEAD = 2
"""The number of packs whose trials are queued before a process needs them, so that similar trials can share a pack."""
PATIENCE = 30.0
"""The seconds within which a process begins if the cluster has room for it."""


class TrialSource(Protocol):
    """A source of trials: the search of a sweep, or a fixed list. `requests` has all trials handed out, by id."""

    requests: dict[str, TrialRequest]

    def next(self) -> tuple[TrialRequest, bool] | None:
        """Return the next trial to run and whether it is new (not a retry); None if no trial can begin now."""

    def spec(self, request: TrialRequest) -> TrialSpec:
        """Return the specification of a requested trial."""

    @property
    def exhausted(self) -> bool:
        """Return whether all trials have ended and no further trial will come."""

    @property
    def code(self) -> Collection[str]:
        """Return the names that may stand for third-party code: those of the trials' algorithms, data sets, models and levels."""


@dataclass
class Hooks:
    """Functions that the driver calls. A hook ends the run by `HaltedError`, and other code ends it by `control`.

    `asked` is called when a trial is handed out, with true if the trial is new. `ended` is called when a trial ends,
    `reported` after each report, and `died` when a trial's process dies. `died` gets true if the trial continues from its
    checkpoint. `began` gets the name of a trial's process, and `waits` what all trials wait for, or "".
    """

    asked: Callable[[TrialRequest, bool], None]
    ended: Callable[[TrialRequest, TrialResult], None]
    control: Control
    died: Callable[[TrialRequest, TrialResult, bool], None] = lambda request, outcome, again: None
    reported: Callable[[TrialRequest, TrialResult], None] = lambda request, outcome: None
    began: Callable[[TrialRequest, str], None] = lambda request, process: None
    waits: Callable[[str], None] = lambda reason: None


@dataclass(frozen=True)
class ExecutionPlan:
    """Trials to run until their source is exhausted, or `hooks.control` ends the run.

    `data` has data sets by `TrialSpec.dataset_key`, and the driver may empty it. `folder` is for Ray Tune's files. All
    nodes reach the folder `checkpoints` (a path or URI). `scheduler` names the rule that stops search trials of `entries`
    early, and `ended` has results of earlier sessions. By entry id, `memory` has the estimated bytes of a process, and
    `packs` the most trials in one (default 1). `alone` allows trials to run in this process if only one runs at a time.
    """

    source: TrialSource
    data: dict[str, Dataset]
    resources: Resources
    hooks: Hooks
    folder: Path
    checkpoints: str
    entries: Sequence[Entry] = ()
    scheduler: str = "none"
    ended: Mapping[str, ValidationResult] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    packs: Mapping[str, int] = field(default_factory=dict)
    alone: bool = False


@dataclass
class Trial:
    """A trial that was handed out and has not finished. Its process began at the monotonic time `began` (None: not yet),
    and its reports are in `outcome`. Earlier processes took `seconds` in all, and died after the rounds in `deaths`.
    """

    request: TrialRequest
    outcome: TrialResult = field(default_factory=TrialResult)
    began: float | None = None
    seconds: float = 0.0
    deaths: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Waiting:
    """A requested trial that waits for a process. At most `size` trials, all of the same `kind`, can share a process."""

    request: TrialRequest
    spec: TrialSpec
    size: int
    kind: Hashable


class Dispatch:
    """The dispatcher of a plan's trials. It hands out packs (trials that share a process), and records their results.

    `packs` has the ids of each process's unfinished trials, by the process's name. An exception in a hook halts the run,
    and is kept as `fault` unless it is a `HaltedError`.
    """

    def __init__(self, plan: ExecutionPlan, cluster: Cluster) -> None:
        self.plan, self.cluster = plan, cluster
        self.control, self.source, self.hooks = plan.hooks.control, plan.source, plan.hooks
        self.schedulers = EntrySchedulers(plan.entries, plan.source.requests, plan.scheduler)
        self.schedulers.replay(plan.ended)
        self.packs: dict[str, list[str]] = {}
        self.fault: Exception | None = None
        self._trials: dict[str, Trial] = {}
        self._waiting: deque[Waiting] = deque()
        self._resting: list[tuple[float, TrialRequest]] = []
        self._ran = time.monotonic()

    @property
    def slots(self) -> int:
        """Return the number of trial processes that can run at once."""
        return self.cluster.slots(max(self.plan.memory.values(), default=0))

    @property
    def over(self) -> bool:
        """Return whether all trials that began have ended and no further trial will begin."""
        return not self.packs and (self.control.draining or self.source.exhausted)

    def next(self, process: str) -> dict[str, TrialConfig]:
        """Choose the trials of a new process. Return their configurations by trial id, or {} if no trial can begin now."""
        free, now = self.slots - len(self.packs), time.monotonic()
        if self.control.draining or free <= 0:
            return {}
        # Trials whose process died come first, once their pause is over.
        rested = [request for due, request in self._resting if due <= now]
        self._waiting.extendleft(map(self._wait, rested))
        self._resting = [rest for rest in self._resting if rest[0] > now]
        self._draw(1)
        if not self._waiting:
            return {}
        first = self._waiting[0]
        if first.size > 1 and len(self._waiting) < free * first.size:
            self._draw((free + AHEAD) * first.size)
        size = min(first.size, math.ceil(len(self._waiting) / free))
        alike = [waiting for waiting in self._waiting if waiting.kind == first.kind]
        # Trials of one algorithm go together, since they can be computed in one call.
        algorithms = [waiting.spec.algorithm for waiting in alike]
        pack = sorted(alike, key=lambda waiting: algorithms.index(waiting.spec.algorithm))[:size]
        for waiting in pack:
            self._waiting.remove(waiting)
            trial = self._trials.setdefault(waiting.request.trial_id, Trial(waiting.request))
            trial.outcome, trial.began = TrialResult(), None
        self.packs[process] = [waiting.request.trial_id for waiting in pack]
        return {w.request.trial_id: self.config(w.request, w.spec) for w in pack}

    def _draw(self, most: int) -> None:
        """Request trials from the source until `most` trials wait, or the source has none now."""

        def draw() -> None:
            if drawn := self.source.next():  # may call a sampler of a third party
                self.hooks.asked(*drawn)
                self._waiting.append(self._wait(drawn[0]))

        before = -1
        while before < len(self._waiting) < most and not self.control.draining:
            before = len(self._waiting)
            self._call(draw)

    def _wait(self, request: TrialRequest) -> Waiting:
        """Return the queue entry of a requested trial. The trial will run alone if it started before or may be stopped early."""
        # A trial that failed may be the reason why its process died. Stopping a trial early ends its process.
        alone = request.trial_id in self._trials or self.schedulers.stops(request)
        size = 1 if alone else self.plan.packs.get(request.entry_id, 1)
        spec = self.source.spec(request)
        s = spec.settings
        kind = size, spec.dataset_key, spec.model, s.loss, s.dtype, s.execution, s.rounds
        return Waiting(request, spec, size, kind)

    def config(self, request: TrialRequest, spec: TrialSpec) -> TrialConfig:
        """Return the configuration with which a process runs a requested trial. `spec` is the trial's specification."""
        plan, resources = self.plan, self.cluster.resources
        memory = plan.memory.get(request.entry_id, 0) if self.cluster.shared else 0
        return TrialConfig(
            spec,
            stops=self.schedulers.stops(request),
            device="cuda" if resources.gpus_per_trial else "cpu",
            threads=max(1, int(resources.cpus_per_trial)),
            memory_budget=resources.budget_bytes,
            members=plan.packs.get(request.entry_id, 1),
            need=resources.need(memory),
            checkpoint=f"{plan.checkpoints}/{request.trial_id}.pt",
            checkpoint_seconds=resources.checkpoint_seconds,
        )

    def began(self, process: str) -> None:
        """Record that a process has begun its trials."""
        for trial_id in self.packs[process]:
            trial = self._trials[trial_id]
            trial.began = self._ran = time.monotonic()
            self._call(self.hooks.began, trial.request, process)

    def prunes(self, trial_id: str, news: TrialResult) -> bool:
        """Record the scores in a trial's report `news`, and return whether early stopping must end the trial."""
        stops = False
        if news.status == Status.RUNNING:
            for at, value in news.intermediates.items():
                stops = self.schedulers.decide(trial_id, at, value)
        return stops

    def reported(self, process: str, reports: Mapping[str, TrialResult]) -> None:
        """Record a process's new reports, by trial id. A status other than `running` ends the trial."""
        for trial_id, news in reports.items():
            trial = self._trials[trial_id]
            trial.outcome.add(news)
            self._call(self.hooks.reported, trial.request, trial.outcome)
            if news.status != Status.RUNNING:
                self.packs[process].remove(trial_id)
                self._end(trial)

    def stopped(self, process: str, error: str = "") -> None:
        """Record that a process has ended. Its unfinished trials count as failed if `error` is set, otherwise as stopped early."""
        for trial in self._unfinished(process):
            trial.outcome.status = Status.FAILED if error else Status.PRUNED
            trial.outcome.error = shortened(error)
            self._end(trial)

    def died(self, process: str, reason: str) -> None:
        """Record that a process died. Its trials restart from checkpoints, unless they died `DEATHS` times in a row without progress."""
        for trial in self._unfinished(process):
            if trial.began is None:  # the process has not started, which does not count as a death
                say(f"no process starts for trial {trial.request.trial_id}: {reason[:300]}")
                self._resting.append((time.monotonic() + LONGEST, trial.request))
                continue
            outcome, deaths = trial.outcome, trial.deaths
            outcome.status = Status.FAILED
            outcome.error = shortened(f"the trial's process died: {reason}")
            trial.seconds += time.monotonic() - trial.began
            deaths.append(outcome.last_round)
            in_a_row = len(deaths) - deaths.index(max(deaths))
            if again := in_a_row < DEATHS:
                pause = min(LONGEST, PAUSE * 2 ** (in_a_row - 1))
                self._resting.append((time.monotonic() + pause, trial.request))
            self._call(self.hooks.died, trial.request, outcome, again)

    def _unfinished(self, process: str) -> Iterator[Trial]:
        """Forget a process that ended, and yield its unfinished trials. Yield none while all processes are being stopped."""
        for trial_id in self.packs.pop(process, ()):
            if not self.control.ends_now:
                yield self._trials[trial_id]

    def _end(self, trial: Trial) -> None:
        request, outcome, now = trial.request, trial.outcome, time.monotonic()
        if outcome.status == Status.HALTED:
            self.control.halt(outcome.error)
            return
        outcome.seconds = trial.seconds = trial.seconds + now - (trial.began or now)
        taken = self._call(self.hooks.ended, request, outcome)
        if taken and outcome.status != Status.FAILED:  # a failed trial may start again
            del self._trials[request.trial_id]
            Checkpoint(f"{self.plan.checkpoints}/{request.trial_id}.pt").delete()

    def look(self) -> None:
        """Queue trials before processes need them. On a shared cluster, report what trials wait for if none ran for `PATIENCE` seconds."""
        if self._waiting:
            self._draw(AHEAD * self._waiting[0].size)
        handed_out = [self._trials[name] for pack in self.packs.values() for name in pack]
        if not handed_out or any(trial.began for trial in handed_out):
            self._ran = time.monotonic()
        waits = self.cluster.shared and time.monotonic() - self._ran > PATIENCE
        self._call(self.hooks.waits, self.cluster.waits() if waits else "")

    def _call(self, hook: Callable[..., None], *arguments: Any) -> bool:
        """Call a hook and return True. If the hook raises an exception, halt the run and return False."""
        try:
            hook(*arguments)
            return True
        except Exception as error:
            if not isinstance(error, HaltedError):
                self.fault = self.fault or error
            self.control.halt(str(error) or repr(error))
            return False
