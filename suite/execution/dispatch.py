"""Which trials begin, and what becomes of them: the one place that decides, whatever runs them.

Requests wait in the order in which the source hands them out. A free place takes those that may share a process,
whatever entry they are of, but no more than its part, so that no place stays idle for another. What begins
together is a pack; each of its trials is on its own for search, journal, records and early stopping.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from suite.console import say
from suite.execution.cluster import Cluster
from suite.execution.plan import ExecutionPlan
from suite.execution.stop_signal import HaltedError
from suite.search.schedulers import SCHEDULERS, EntrySchedulers
from suite.search.trial import TrialRequest
from trials.run.checkpoint import Checkpoint
from trials.run.outcome import Status, TrialKind, shortened
from trials.run.result import TrialResult
from trials.run.trial_config import TrialConfig
from trials.sizing.calibration import with_execution, workload

DEATHS = 10
"""So often in a row, without getting further, the process of a trial may die before the trial is set aside."""
PAUSE, LONGEST = 1.0, 60.0
"""Seconds before a trial that died begins again: at first, and doubled with each death up to the longest."""
UNBORN = 50
"""So many processes in a row may die before they run: then none starts here at all."""
PATIENCE = 15.0
"""Seconds in which a process begins where there is a place for it."""


@dataclass
class Trial:
    """A trial that was handed out and has not ended well: what its process has said, when that began (None: it has not),
    the seconds of those before it, and the rounds at which they died.
    """

    request: TrialRequest
    outcome: TrialResult = field(default_factory=TrialResult)
    began: float | None = None
    seconds: float = 0.0
    deaths: list[int] = field(default_factory=list)


class Dispatch:
    """Hands out packs of a plan's trials to processes, and takes what becomes of each trial.

    Nothing here raises: a hook that does ends the run through its control, and what it raised is the `fault`. `packs` has
    the trials that each process has yet to end, by the name of the process.
    """

    def __init__(
        self, plan: ExecutionPlan, cluster: Cluster, executions: Mapping[str, str] | None = None
    ) -> None:
        self.plan, self.cluster, self.executions = plan, cluster, executions or {}
        self.control, self.source, self.hooks = plan.hooks.control, plan.source, plan.hooks
        self.entries = {entry.id: entry for entry in plan.entries}
        self.schedulers = EntrySchedulers(plan.entries, plan.source.requests, plan.scheduler)
        self.schedulers.replay(plan.ended)
        self.packs: dict[str, list[str]] = {}
        self.fault: Exception | None = None
        self._trials: dict[str, Trial] = {}
        self._waiting: deque[TrialRequest] = deque()
        self._resting: list[tuple[float, TrialRequest]] = []
        self._notes: set[str] = set()
        self._unborn, self._reason, self._ran = 0, "", time.monotonic()

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
        places = self.slots - len(self.packs)
        if self.control.draining or places <= 0:
            return {}
        self._wake()
        self._draw(1)
        if not self._waiting:
            return {}
        pack = [self._waiting[0]]
        if (size := self._size(pack[0])) > 1:
            self._draw(places * size)
            part, kind = min(size, math.ceil(len(self._waiting) / places)), self._kind(pack[0])
            pack = [request for request in self._waiting if self._kind(request) == kind][:part]
        for request in pack:
            self._waiting.remove(request)
            trial = self._trials.setdefault(request.trial_id, Trial(request))
            trial.outcome, trial.began = TrialResult(), None
        self.packs[process] = [request.trial_id for request in pack]
        return {request.trial_id: self.config(request) for request in pack}

    def _wake(self) -> None:
        """Let trials that died wait for a place again, before all others, when their pause is over."""
        now = time.monotonic()
        self._waiting.extendleft(request for due, request in self._resting if due <= now)
        self._resting = [(due, request) for due, request in self._resting if due > now]

    def _draw(self, most: int) -> None:
        """Let the source hand out requests until so many wait, or it has none now."""
        while len(self._waiting) < most and not self.control.draining:
            drawn = self.source.next()
            if drawn is None or not self._tell(self.hooks.asked, *drawn):
                return
            self._waiting.append(drawn[0])

    def _size(self, request: TrialRequest) -> int:
        """Return how many trials may be in its pack. One that is started again is alone, since it may be what ended those
        beside it, and so is one that may be stopped early, which ends its process.
        """
        alone = request.trial_id in self._trials or self._stops(request)
        return 1 if alone else self.plan.packs.get(request.entry_id, 1)

    def _kind(self, request: TrialRequest) -> Hashable:
        """Return what trials have in common that share a pack."""
        if (size := self._size(request)) == 1:
            return request.trial_id
        spec = self.source.spec(request)
        s = spec.settings
        return size, spec.dataset_key, spec.model, s.loss, s.dtype, s.execution, s.rounds

    def _stops(self, request: TrialRequest) -> tuple[int, ...]:
        """Return the rounds after which the trial may be stopped."""
        if request.kind != TrialKind.SEARCH or SCHEDULERS[self.plan.scheduler] is None:
            return ()
        return self.entries[request.entry_id].stops

    def config(self, request: TrialRequest) -> TrialConfig:
        """Return how a process runs the trial."""
        plan, resources = self.plan, self.cluster.resources
        memory = plan.memory.get(request.entry_id, 0) if self.cluster.shared else 0
        spec = self.source.spec(request)
        execution = spec.settings.execution or self.executions.get(workload(spec))
        return TrialConfig(
            with_execution(spec, execution) if execution else spec,
            stops=self._stops(request),
            device="cuda" if resources.gpus_per_trial else "cpu",
            threads=max(1, int(resources.cpus_per_trial)),
            memory_budget=resources.budget_bytes,
            members=plan.packs.get(request.entry_id, 1),
            need=resources.need(memory),
            checkpoint=self._checkpoint(request),
            checkpoint_seconds=resources.checkpoint_seconds,
            model=plan.model(request),
        )

    def _checkpoint(self, request: TrialRequest) -> str:
        return f"{self.plan.checkpoints}/{request.trial_id}.pt"

    def began(self, process: str) -> None:
        """Note that a process runs its trials now."""
        self._unborn = 0
        for trial_id in self.packs[process]:
            trial = self._trials[trial_id]
            trial.began = self._ran = time.monotonic()
            self._tell(self.hooks.began, trial.request, process)

    def prunes(self, trial_id: str, news: TrialResult) -> bool:
        """Return whether a trial that says this is to be stopped, being behind others of its entry."""
        if news.status != Status.RUNNING:
            return False
        decisions = [
            self.schedulers.decide(trial_id, *score) for score in news.intermediates.items()
        ]
        return any(decisions[-1:])

    def reported(self, process: str, reports: Mapping[str, TrialResult]) -> None:
        """Take what is new of the trials of a process, which may be how they ended."""
        for trial_id, news in reports.items():
            trial = self._trials[trial_id]
            trial.outcome.add(news)
            self._tell(self.hooks.reported, trial.request, trial.outcome)
            if news.status != Status.RUNNING:
                self.packs[process].remove(trial_id)
                self._end(trial)

    def stopped(self, process: str) -> None:
        """Take the end of a process: what still ran there was stopped early, unless all is."""
        for trial in self._left(process):
            trial.outcome.status = Status.PRUNED
            self._end(trial)

    def failed(self, process: str, error: str) -> None:
        """Take an exception that ended a process."""
        for trial in self._left(process):
            trial.outcome.status, trial.outcome.error = Status.FAILED, shortened(error)
            self._end(trial)

    def died(self, process: str, reason: str) -> None:
        """Take the death of a process: its trials begin again from their checkpoints, after a pause."""
        for trial in self._left(process):
            outcome, deaths = trial.outcome, trial.deaths
            if trial.began is None:
                self._unborn += 1
                self._rest(trial, self._unborn)
                continue
            outcome.status = Status.FAILED
            outcome.error = shortened(f"the trial's process died: {reason}")
            trial.seconds += time.monotonic() - trial.began
            deaths.append(outcome.last_round)
            in_a_row = len(deaths) - deaths.index(max(deaths))
            if in_a_row < DEATHS:
                self._rest(trial, in_a_row)
            self._tell(self.hooks.died, trial.request, outcome, in_a_row < DEATHS)
        if self._unborn >= UNBORN:
            self.control.halt(f"no process of a trial starts, {UNBORN} times in a row: {reason}")

    def _left(self, process: str) -> Iterator[Trial]:
        """Yield the trials that a process that has ended had yet to end; they have no end where all is to end now."""
        for trial_id in self.packs.pop(process, ()):
            if not self.control.ends_now:
                yield self._trials[trial_id]

    def _rest(self, trial: Trial, times: int) -> None:
        pause = min(LONGEST, PAUSE * 2.0 ** (times - 1))
        self._resting.append((time.monotonic() + pause, trial.request))

    def _end(self, trial: Trial) -> None:
        request, outcome = trial.request, trial.outcome
        if outcome.status == Status.HALTED:
            self.control.halt(outcome.error)
            return
        trial.seconds += time.monotonic() - (trial.began or time.monotonic())
        outcome.seconds = trial.seconds
        if outcome.model_note and outcome.model_note not in self._notes:
            self._notes.add(outcome.model_note)
            say(f"models of others compute {outcome.model_note}")
        told = self._tell(self.hooks.ended, request, outcome)
        if told and outcome.status != Status.FAILED:  # one that failed may be started again
            del self._trials[request.trial_id]
            Checkpoint(self._checkpoint(request)).delete()

    def look(self) -> None:
        """Say what trials wait for that were handed out, where none of them runs on a cluster that others use too."""
        handed_out = [self._trials[name] for pack in self.packs.values() for name in pack]
        if not handed_out or any(trial.began for trial in handed_out):
            self._ran = time.monotonic()
        waits = self.cluster.shared and time.monotonic() - self._ran > PATIENCE
        reason = self.cluster.waits() if waits else ""
        if reason != self._reason:
            self._reason = reason
            self._tell(self.hooks.waits, reason)

    def _tell(self, hook: Callable[..., None], *what: Any) -> bool:
        """Call a hook; return whether it raised nothing."""
        try:
            hook(*what)
        except HaltedError as halted:
            self.control.halt(str(halted))
        except Exception as error:
            self.fault = self.fault or error
            self.control.halt(repr(error))
        else:
            return True
        return False
