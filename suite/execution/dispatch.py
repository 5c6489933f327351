"""Which trials begin, and what follows when they end. Only this module decides, whatever runs them.

Requests wait in the order in which the source hands them out. A free place takes those that may share a process, of any
entry, but no more than its part, so that no other place stays idle. What begins together is a pack. Search, journal,
records and early stopping treat each of its trials alone.
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
"""How often in a row a trial's process may die without progress before the trial is set aside."""
PAUSE, LONGEST = 1.0, 30.0
"""Seconds before a trial that died begins again: the first pause, doubled with each death up to the longest."""
AHEAD = 2
"""How many packs' trials wait besides those that begin, so that similar ones can join."""
PATIENCE = 30.0
"""Seconds within which a process begins if there is a place for it."""


class TrialSource(Protocol):
    """A source of trials: a sweep's search or a fixed list of runs. `requests` are all trials handed out, by id."""

    requests: dict[str, TrialRequest]

    def next(self) -> tuple[TrialRequest, bool] | None:
        """Return the next trial and whether it is new; None when there is none now."""

    def spec(self, request: TrialRequest) -> TrialSpec:
        """Return the trial that a request runs."""

    @property
    def exhausted(self) -> bool:
        """Whether nothing will be asked any more."""

    @property
    def code(self) -> Collection[str]:
        """The names in trials; some may load third-party code."""


@dataclass
class Hooks:
    """Functions that the driver calls. Each may raise `HaltedError`, which ends the run; `control` ends it, too.

    `asked` is called when a trial is handed out (true: it is new), `ended` when it ends, `reported` after each new report.
    `died` is called when a trial loses its process; `again` says that it continues from its checkpoint, else it waits for
    a resume. `began` gets the name of a trial's process, which a pack shares, `waits` what all trials wait for ("": nothing).
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
    """Trials to run until their source is exhausted, or `hooks.control` ends it.

    `data` are the data sets by `TrialSpec.dataset_key`; the driver empties it. `folder` is for Tune's own files, `checkpoints`
    the path or URI of the folder that all nodes reach. `scheduler` stops search trials of `entries`; those `ended` are
    over. By the entry's id, `memory` estimates the bytes of a trial, and `packs` is the most trials that begin together
    in a process (default: one). `alone`: trials may run in this process, where only one runs at a time.
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
    """A trial that was handed out and is not finished: its process's reports, when that process began (None: not yet),
    the seconds of earlier processes, and the rounds at which they died.
    """

    request: TrialRequest
    outcome: TrialResult = field(default_factory=TrialResult)
    began: float | None = None
    seconds: float = 0.0
    deaths: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Waiting:
    """A waiting request: what it runs, the most trials in its pack, and the key that trials of one pack share."""

    request: TrialRequest
    spec: TrialSpec
    size: int
    kind: Hashable


class Dispatch:
    """Hands out packs of a plan's trials to processes, and takes what becomes of each trial.

    Exceptions of hooks end the run: a halt through its control, any other as the `fault`.
    `packs` has the trials that each process has yet to end, by the name of the process.
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
        """How many packs run at once."""
        return self.cluster.slots(max(self.plan.memory.values(), default=0))

    @property
    def over(self) -> bool:
        """Whether all that was handed out has ended, and nothing else will be."""
        return not self.packs and (self.control.draining or self.source.exhausted)

    def next(self, process: str) -> dict[str, TrialConfig]:
        """Return the configs of the pack that a process is to run, by trial id; {} when none can begin now."""
        places, now = self.slots - len(self.packs), time.monotonic()
        if self.control.draining or places <= 0:
            return {}
        # Those that died come before all others, when their pause is over.
        rested = [request for due, request in self._resting if due <= now]
        self._waiting.extendleft(map(self._wait, rested))
        self._resting = [rest for rest in self._resting if rest[0] > now]
        self._draw(1)
        if not self._waiting:
            return {}
        first = self._waiting[0]
        if first.size > 1 and len(self._waiting) < places * first.size:
            self._draw((places + AHEAD) * first.size)
        part = min(first.size, math.ceil(len(self._waiting) / places))
        alike = [waiting for waiting in self._waiting if waiting.kind == first.kind]
        # Those of one algorithm are computed in one call, those of several seldom.
        algorithms = [waiting.spec.algorithm for waiting in alike]
        pack = sorted(alike, key=lambda waiting: algorithms.index(waiting.spec.algorithm))[:part]
        for waiting in pack:
            self._waiting.remove(waiting)
            trial = self._trials.setdefault(waiting.request.trial_id, Trial(waiting.request))
            trial.outcome, trial.began = TrialResult(), None
        self.packs[process] = [waiting.request.trial_id for waiting in pack]
        return {w.request.trial_id: self.config(w.request, w.spec) for w in pack}

    def _draw(self, most: int) -> None:
        """Let the source hand out requests until enough wait, or it has none now."""

        def draw() -> None:
            if drawn := self.source.next():  # which may call a person's sampler
                self.hooks.asked(*drawn)
                self._waiting.append(self._wait(drawn[0]))

        before = -1
        while before < len(self._waiting) < most and not self.control.draining:
            before = len(self._waiting)
            self._tell(draw)

    def _wait(self, request: TrialRequest) -> Waiting:
        """Return a request to wait. One that starts again is alone, since it may have ended those beside it."""
        # To stop a trial early ends its process.
        alone = request.trial_id in self._trials or self.schedulers.stops(request)
        size = 1 if alone else self.plan.packs.get(request.entry_id, 1)
        spec = self.source.spec(request)
        s = spec.settings
        kind = size, spec.dataset_key, spec.model, s.loss, s.dtype, s.execution, s.rounds
        return Waiting(request, spec, size, kind)

    def config(self, request: TrialRequest, spec: TrialSpec) -> TrialConfig:
        """Return how a process runs the trial."""
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
        """Note that a process runs its trials now."""
        for trial_id in self.packs[process]:
            trial = self._trials[trial_id]
            trial.began = self._ran = time.monotonic()
            self._tell(self.hooks.began, trial.request, process)

    def prunes(self, trial_id: str, news: TrialResult) -> bool:
        """Return whether a trial with this report is to be stopped, since it is behind others of its entry."""
        stops = False
        if news.status == Status.RUNNING:
            for at, value in news.intermediates.items():
                stops = self.schedulers.decide(trial_id, at, value)
        return stops

    def reported(self, process: str, reports: Mapping[str, TrialResult]) -> None:
        """Take the new reports of a process's trials, which may include their ends."""
        for trial_id, news in reports.items():
            trial = self._trials[trial_id]
            trial.outcome.add(news)
            self._tell(self.hooks.reported, trial.request, trial.outcome)
            if news.status != Status.RUNNING:
                self.packs[process].remove(trial_id)
                self._end(trial)

    def stopped(self, process: str, error: str = "") -> None:
        """Take the end of a process. Trials that still ran there failed with the `error`, or else were stopped early."""
        for trial in self._left(process):
            trial.outcome.status = Status.FAILED if error else Status.PRUNED
            trial.outcome.error = shortened(error)
            self._end(trial)

    def died(self, process: str, reason: str) -> None:
        """Take the death of a process: its trials begin again from their checkpoints, after a pause."""
        for trial in self._left(process):
            if trial.began is None:  # which counts for nothing
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
            self._tell(self.hooks.died, trial.request, outcome, again)

    def _left(self, process: str) -> Iterator[Trial]:
        """Yield the trials that an ended process left unfinished; none when the whole run ends now."""
        for trial_id in self.packs.pop(process, ()):
            if not self.control.ends_now:
                yield self._trials[trial_id]

    def _end(self, trial: Trial) -> None:
        request, outcome, now = trial.request, trial.outcome, time.monotonic()
        if outcome.status == Status.HALTED:
            self.control.halt(outcome.error)
            return
        outcome.seconds = trial.seconds = trial.seconds + now - (trial.began or now)
        taken = self._tell(self.hooks.ended, request, outcome)
        if taken and outcome.status != Status.FAILED:  # one that failed may be started again
            del self._trials[request.trial_id]
            Checkpoint(f"{self.plan.checkpoints}/{request.trial_id}.pt").delete()

    def look(self) -> None:
        """Tell what trials wait for if none runs on a cluster that others use too. Draw the next requests while others
        run.
        """
        if self._waiting:
            self._draw(AHEAD * self._waiting[0].size)
        handed_out = [self._trials[name] for pack in self.packs.values() for name in pack]
        if not handed_out or any(trial.began for trial in handed_out):
            self._ran = time.monotonic()
        waits = self.cluster.shared and time.monotonic() - self._ran > PATIENCE
        self._tell(self.hooks.waits, self.cluster.waits() if waits else "")

    def _tell(self, hook: Callable[..., None], *arguments: Any) -> bool:
        """Call a hook; return whether it raised nothing."""
        try:
            hook(*arguments)
            return True
        except Exception as error:
            if not isinstance(error, HaltedError):
                self.fault = self.fault or error
            self.control.halt(str(error) or repr(error))
            return False
