"""Packs: several asks as one Tune trial, each on its own for search, journal, records and early stopping.

Asks wait in the order in which the source hands them out. A free place takes those that may share a
pack, whatever entry they are of, but no more than its part, so that no place stays idle for another.
What a pack reports is shown one of its trials after the other to what takes Tune's trials; those that
have ended leave, and asks that wait join.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from suite.execution.plan import ExecutionPlan
from suite.execution.ray_internals import actor_of
from suite.execution.stop_signal import HaltedError
from suite.search.trial import TrialRequest
from trials.run.trainable import REPORTS
from trials.run.trial_config import PACK


@dataclass(frozen=True)
class Member:
    """A trial of a pack, as far as hooks ask a Tune trial for anything; `local_path` is the pack's, `pack` its id."""

    trial_id: str
    config: Mapping[str, Any]
    local_path: str | None = None
    pack: str = ""


@dataclass
class Packs:
    """Which asks wait, which run (`live`, all of them), and which of these in a pack.

    `config` makes Tune's config of a request, `slots` tells how many Tune trials there may be at once.
    """

    plan: ExecutionPlan
    config: Callable[[TrialRequest], dict[str, Any]]
    slots: Callable[[], int]
    live: set[str] = field(default_factory=set)
    members: dict[str, dict[str, Member]] = field(default_factory=dict)
    """Of each pack that runs, by the id of its Tune trial."""
    _kinds: dict[str, Hashable] = field(default_factory=dict)
    _waiting: deque[TrialRequest] = field(default_factory=deque)
    _attempts: Counter[str] = field(default_factory=Counter)

    def start(self) -> tuple[str, dict[str, Any]] | None:
        """The id and config of the next Tune trial, when there is a place and a request for it."""
        packed = sum(map(len, self.members.values()))
        places = self.slots() - (len(self.live) - packed + len(self.members))
        if self.plan.hooks.control.draining or places <= 0:
            return None
        self._draw(1)
        if not self._waiting:
            return None
        first = self._waiting[0]
        size, kind = self._size(first), self._kind(first)
        if size == 1:
            return self._begin(first), self.config(first)
        self._draw(places * size)
        requests = self._take(kind, min(size, math.ceil(len(self._waiting) / places)))
        trial_id, *_ = [self._begin(request) for request in requests]
        configs = {request.trial_id: self.config(request) for request in requests}
        # Members from here on, whose process may die before Tune says that it begins.
        self.members[trial_id] = {name: Member(name, config) for name, config in configs.items()}
        self._kinds[trial_id] = kind
        return trial_id, {PACK: configs}

    def refill(self, trial_id: str) -> dict[str, dict[str, Any]]:
        """The configs of asks that join a pack now, by their ids: as many as its part has room for, none
        once the sweep is to end.
        """
        if self.plan.hooks.control.draining:
            return {}
        members, kind = self.members[trial_id], self._kinds[trial_id]
        size, places = self.plan.packs[self.plan.source.requests[trial_id].entry_id], self.slots()
        self._draw(places * size - len(self.live))
        part = math.ceil((len(self.live) + len(self._waiting)) / places)
        joining = self._take(kind, min(size, part) - len(members))
        for request in joining:
            self._begin(request)
        return {request.trial_id: self.config(request) for request in joining}

    def over(self, trial_id: str) -> None:
        """A pack has ended."""
        del self.members[trial_id], self._kinds[trial_id]

    def _draw(self, most: int) -> None:
        """Let the source hand out asks until so many wait, or it has none now."""
        control = self.plan.hooks.control
        while len(self._waiting) < most and not control.draining:
            found = self.plan.source.next()
            if found is None:
                return
            try:
                self.plan.hooks.asked(*found)
            except HaltedError as halted:
                control.halt(str(halted))
                return
            self._waiting.append(found[0])

    def _take(self, kind: Hashable, most: int) -> list[TrialRequest]:
        """Up to so many requests for a kind that wait, the first of them."""
        alike = (request for request in self._waiting if self._kind(request) == kind)
        return [request for request, _ in zip(alike, range(most), strict=False)]

    def _begin(self, request: TrialRequest) -> str:
        """Give a request that waits its place; the id of the Tune trial that begins with it: the ask's,
        and when it is started again `~2`, `~3`, ... after it.
        """
        self._waiting.remove(request)
        self.live.add(request.trial_id)
        self._attempts[request.trial_id] += 1
        attempt = self._attempts[request.trial_id]
        return request.trial_id if attempt == 1 else f"{request.trial_id}~{attempt}"

    def _size(self, request: TrialRequest) -> int:
        """How many trials may be in its pack. One that is started again is alone: it may be what ended
        those beside it.
        """
        return 1 if self._attempts[request.trial_id] else self.plan.packs.get(request.entry_id, 1)

    def _kind(self, request: TrialRequest) -> Hashable:
        """What trials have in common that share a pack; nothing where one does not."""
        if (size := self._size(request)) == 1:
            return request.trial_id
        spec = self.plan.source.spec(request)
        s = spec.settings
        return size, spec.dataset_key, spec.model, s.loss, s.dtype, s.execution


class Unpicklable:
    """Tune pickles what it is given when an experiment starts and never needs it back here."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class PackScheduler(Unpicklable, FIFOScheduler):
    """Shows each trial of a pack to `decides` and to `callback`, as Tune does with a trial of its own."""

    def __init__(self, packs: Packs, decides: TrialScheduler, callback: tune.Callback) -> None:
        super().__init__()
        self.packs, self.decides, self.callback = packs, decides, callback

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Stop a trial, or a pack that nothing is left of; who ends leaves a pack, and others join it."""
        if PACK not in trial.config:
            return str(self.decides.on_trial_result(tune_controller, trial, result))
        leaving, members = [], self.packs.members[trial.trial_id]
        for trial_id, said in result[REPORTS]:
            member: Any = members[trial_id]  # all that is asked of a Tune trial here
            decision = self.decides.on_trial_result(tune_controller, member, said)
            self.callback.on_trial_result(0, [], member, said)
            if decision == TrialScheduler.STOP:
                leaving.append(trial_id)
            if decision == TrialScheduler.STOP or said["done"]:
                del members[trial_id]
                self.callback.on_trial_complete(0, [], member)
        joining = self.packs.refill(trial.trial_id)
        self.join(trial, joining)
        if not members:
            self.packs.over(trial.trial_id)
            return str(TrialScheduler.STOP)
        if leaving or joining:
            # Tune calls the actor's next step after this, and its calls are done in their order.
            actor_of(trial).change.remote(leaving, joining)
        return str(TrialScheduler.CONTINUE)

    def join(self, trial: Trial, joining: Mapping[str, dict[str, Any]]) -> None:
        """Note the members that begin in a pack."""
        for trial_id, config in joining.items():
            member: Any = Member(trial_id, config, trial.local_path, trial.trial_id)
            self.packs.members[trial.trial_id][trial_id] = member
            self.callback.on_trial_start(0, [], member)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """As `decides` does."""
        return self.decides.choose_trial_to_run(tune_controller)


class PackCallback(Unpicklable, tune.Callback):
    """Passes on to `callback` what Tune says of trials; of a pack, to each of its trials."""

    def __init__(self, scheduler: PackScheduler) -> None:
        self.scheduler, self.packs, self.callback = scheduler, scheduler.packs, scheduler.callback

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """A pack's first members begin."""
        if PACK in trial.config:
            self.scheduler.join(trial, trial.config[PACK])
        else:
            self.callback.on_trial_start(iteration, trials, trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """The scheduler has shown a pack's already; Tune would keep them."""
        if result.pop(REPORTS, None) is None:
            self.callback.on_trial_result(iteration, trials, trial, result)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Of a pack the members have completed before."""
        if PACK not in trial.config:
            self.callback.on_trial_complete(iteration, trials, trial)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """With a pack's process all its members died."""
        if PACK not in trial.config:
            self.callback.on_trial_error(iteration, trials, trial)
            return
        for member in self.packs.members[trial.trial_id].values():
            dead: Any = replace(member, local_path=trial.local_path)
            self.callback.on_trial_error(iteration, trials, dead)
        self.packs.over(trial.trial_id)
