"""Ray Tune, driven: the searcher, scheduler, callback and stopper of one experiment for all entries."""

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search.search_algorithm import SearchAlgorithm

from suite.console import say
from suite.execution.autotune import choose
from suite.execution.cluster import Cluster, NotStartedError, connect
from suite.execution.gpus import gpus, limited, refuse
from suite.execution.lifeline import Lifeline
from suite.execution.packs import PackCallback, Packs, PackScheduler, Unpicklable
from suite.execution.plan import ExecutionPlan, Hooks, TrialSource
from suite.execution.ray_internals import make_trial
from suite.execution.stop_signal import Control, HaltedError, interruptible
from suite.search.schedulers import SCHEDULERS, EntrySchedulers
from suite.search.trial import TrialRequest
from trials.common import plugins
from trials.federated_data import FederatedData
from trials.run.checkpoint import Checkpoint
from trials.run.outcome import Status, TrialKind, shortened
from trials.run.result import TrialResult
from trials.run.running import RunningTrial
from trials.run.spec import TrialSpec
from trials.run.trainable import FederatedTrial
from trials.run.trial import partition_data
from trials.run.trial_config import TrialConfig
from trials.sizing.calibration import with_execution, workload


class _Search(Unpicklable, SearchAlgorithm):
    """Hands the trials and packs that begin to Tune, with ids of our own."""

    def __init__(self, packs: Packs) -> None:
        self.packs = packs

    def add_configurations(self, experiments: Any) -> None:
        """Called once by Tune with the experiment."""
        self.spec = (experiments[0] if isinstance(experiments, list) else experiments).spec

    def next_trial(self) -> Trial | None:
        """The next trial or pack, unless the machine is full or the sweep is stopping."""
        found = self.packs.start()
        if found is None:
            return None
        trial_id, config = found
        return make_trial(trial_id, self.spec, config)

    def is_finished(self) -> bool:
        """Whether nothing will be asked any more."""
        plan = self.packs.plan
        return plan.hooks.control.draining or plan.source.exhausted


class _Scheduler(Unpicklable, FIFOScheduler):
    """Shows the schedulers of the entries what Tune's trials report: round and validation score."""

    def __init__(self, entries: EntrySchedulers) -> None:
        super().__init__()
        self.entries = entries

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Stop a search trial that is behind its own entry's."""
        if result.get("status") != Status.RUNNING:
            return str(TrialScheduler.CONTINUE)
        trial_id, stops = ask_id(trial), False
        for at, value in result["intermediates"]:
            stops = self.entries.decide(trial_id, at, value)
        return str(TrialScheduler.STOP if stops else TrialScheduler.CONTINUE)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Let Tune start trials in the order they came; scanning all of them each step is slow."""
        return None


class _Callback(Unpicklable, tune.Callback):
    """Collects what trials report and says when they have ended: the one place that decides."""

    def __init__(self, source: TrialSource, packs: Packs, hooks: Hooks) -> None:
        self.source, self.packs, self.hooks = source, packs, hooks
        self.outcomes: dict[str, TrialResult] = {}
        self.model_notes: set[str] = set()
        self.started: dict[str, float] = {}
        self.seconds: dict[str, float] = defaultdict(float)

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Start the clock, and say that it runs."""
        self.started.setdefault(ask_id(trial), time.monotonic())
        process = getattr(trial, "pack", trial.trial_id)
        self.hooks.began(self.source.requests[ask_id(trial)], process)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Keep the history and drop it from the result, which Tune would keep too."""
        outcome = self.outcomes.setdefault(ask_id(trial), TrialResult())
        outcome.add(TrialResult.take(result))
        self.hooks.reported(self.source.requests[ask_id(trial)], outcome)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Finished, diverged, failed, or stopped by the scheduler; not when the sweep stops."""
        outcome = self.outcomes.pop(ask_id(trial), TrialResult())
        if outcome.status == Status.HALTED:
            self.hooks.control.halt(outcome.error)
            return
        if outcome.status == Status.RUNNING:
            if self.hooks.control.ends_now:
                return
            outcome.status = Status.PRUNED
        self._end(trial, outcome)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """The trial's process, or its node, died; which is not the trial's fault where all ends."""
        if self.hooks.control.ends_now:
            return
        outcome = self.outcomes.pop(ask_id(trial), TrialResult())
        outcome.status = Status.FAILED
        outcome.error = shortened(f"the trial's process died: {_reason(trial)}")
        self._end(trial, outcome)

    def _end(self, trial: Trial, outcome: TrialResult) -> None:
        trial_id, now = ask_id(trial), time.monotonic()
        self.seconds[trial_id] += now - self.started.pop(trial_id, now)
        outcome.seconds = self.seconds[trial_id]
        self.packs.live.discard(trial_id)
        if outcome.model_note and outcome.model_note not in self.model_notes:
            self.model_notes.add(outcome.model_note)
            say(f"models of others compute {outcome.model_note}")
        try:
            self.hooks.ended(self.source.requests[trial_id], outcome)
        except HaltedError as halted:
            self.hooks.control.halt(str(halted))
        else:
            if outcome.status != Status.FAILED:  # one that failed may be started again
                Checkpoint(trial.config["checkpoint"]).delete()


class _Stop(Unpicklable, tune.Stopper):
    """Ends the experiment when it is to end before its work is done."""

    def __init__(self, control: Control) -> None:
        self.control = control

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No single trial is stopped here."""
        return False

    def stop_all(self) -> bool:
        """Whether to end everything."""
        return self.control.ends_now


@dataclass
class _Config:
    """What a Tune trial gets besides its spec, and how many there are at once."""

    plan: ExecutionPlan
    cluster: Cluster
    executions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.entries = {entry.id: entry for entry in self.plan.entries}

    @property
    def slots(self) -> int:
        """How many trials run at once."""
        return self.cluster.slots(max(self.plan.memory.values(), default=0))

    def of(self, request: TrialRequest) -> dict[str, Any]:
        """Tune's `config` of a trial."""
        plan, resources = self.plan, self.cluster.resources
        searches = request.kind == TrialKind.SEARCH and SCHEDULERS[plan.scheduler] is not None
        memory = plan.memory.get(request.entry_id, 0) if self.cluster.shared else 0
        spec = plan.source.spec(request)
        execution = spec.settings.execution or self.executions.get(workload(spec))
        return TrialConfig(
            with_execution(spec, execution) if execution else spec,
            stops=self.entries[request.entry_id].stops if searches else (),
            device="cuda" if resources.gpus_per_trial else "cpu",
            threads=max(1, int(resources.cpus_per_trial)),
            memory_budget=resources.budget_bytes,
            members=plan.packs.get(request.entry_id, 1),
            need=resources.need(memory),
            checkpoint=f"{plan.checkpoints}/{request.trial_id}.pt",
            checkpoint_seconds=resources.checkpoint_seconds,
            model=plan.model(request),
        ).as_dict()


def drive(plan: ExecutionPlan) -> None:
    """Run every trial that the plan's source still asks for, or until its control ends it.

    Raises `UserError` when the cluster cannot be joined, when none of its nodes can hold a trial, or
    torch there has no GPU for those that need one; and when Ray does not start here, unless the plan's
    trials may run without it.
    """
    try:
        _on_ray(plan)
    except NotStartedError as error:
        if not plan.alone:
            raise
        say(f"{str(error).removesuffix('.')}; going on without Ray, one run after another")
        with interruptible(plan.hooks.control):
            _alone(plan)


def _alone(plan: ExecutionPlan) -> None:
    """The trials one after another in this process, with the bits that they have in others."""
    config, control = _Config(plan, Cluster(plan.resources)), plan.hooks.control

    def partition(spec: TrialSpec) -> FederatedData:
        return partition_data(spec, plan.data[spec.dataset_key], keep=True)

    while not control.draining and (found := plan.source.next()) is not None:
        (request, _), started = found, time.monotonic()
        wanted = config.of(request)
        running, outcome = (
            RunningTrial(TrialConfig.of(wanted), partition),
            TrialResult(Status.RUNNING),
        )
        while outcome.status == Status.RUNNING:
            if control.ends_now:
                return
            outcome.add(running.step(lambda: control.ends_now))
        if outcome.status == Status.HALTED:
            control.halt(outcome.error)
            return
        outcome.seconds = time.monotonic() - started
        plan.hooks.ended(request, outcome)
        if outcome.status != Status.FAILED:
            Checkpoint(wanted["checkpoint"]).delete()


def _on_ray(plan: ExecutionPlan) -> None:
    """The trials as Tune's, on the cluster of the plan's resources."""
    control = plan.hooks.control
    with (
        Lifeline(control) as lifeline,
        connect(plan.resources) as cluster,
        interruptible(control),
        lifeline.watched(),
    ):
        plan.hooks.joined(cluster.dashboard, cluster.hardware)
        cluster.refuse({entry.name: plan.memory.get(entry.id, 0) for entry in plan.entries})
        # Workers read the store's copy in place, one a node; the driver gives up its own.
        shared = {key: ray.put(plan.data.pop(key)) for key in list(plan.data)}
        executions: Mapping[str, str] = {}
        if plan.resources.gpus_per_trial:
            found = gpus()
            refuse(found, plan.takes, plan.resources)
            takes = {entry.id: plan.takes[entry.name] for entry in plan.entries}
            plan = replace(plan, packs=limited(found, plan.packs, takes, plan.resources))
            executions = _executions(plan, shared)
        try:
            _tuner(plan, _Config(plan, cluster, executions), shared).fit()
        except OSError as error:  # Tune's own files, which nothing is resumed from
            control.halt(f"storage {plan.folder} cannot be written: {error.strerror or error}")


def _executions(plan: ExecutionPlan, shared: Mapping[str, Any]) -> dict[str, str]:
    """How each scenario is computed on GPUs."""
    control, known = plan.hooks.control, dict(plan.executions)
    left = {name: spec for name, spec in plan.probes.items() if name not in known}
    packs = {workload(entry): plan.packs.get(entry.id, 1) for entry in plan.entries}
    found = choose(left, shared, plan.resources, packs, lambda: control.draining)
    try:
        plan.hooks.chosen(found)
    except HaltedError as halted:
        control.halt(str(halted))
    return known | found


def _tuner(plan: ExecutionPlan, config: _Config, shared: Mapping[str, Any]) -> tune.Tuner:
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(max(config.slots, 16))
    packs = Packs(plan, config.of, lambda: config.slots)
    schedulers = EntrySchedulers(plan.entries, plan.source.requests, plan.scheduler)
    schedulers.replay(plan.ended)
    callback = _Callback(plan.source, packs, plan.hooks)
    scheduler = PackScheduler(packs, _Scheduler(schedulers), callback)
    files = plugins.sources(plan.source.code)
    return tune.Tuner(
        tune.with_parameters(FederatedTrial, datasets=shared, sources=files),
        tune_config=tune.TuneConfig(
            search_alg=_Search(packs),
            scheduler=scheduler,
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=_trial_id,
            trial_dirname_creator=_trial_id,
        ),
        run_config=tune.RunConfig(
            name=time.strftime("%Y%m%d-%H%M%S"),
            storage_path=str(plan.folder.resolve()),
            callbacks=[PackCallback(scheduler)],
            stop=_Stop(plan.hooks.control),
            verbose=0,
            progress_reporter=tune.CLIReporter(),  # a notebook's own would clear the output
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )


def _reason(trial: Trial) -> str:
    """Ray's words on a process that died, which Tune writes to a file."""
    with suppress(OSError):
        return Path(trial.local_path or "", "error.txt").read_text().strip()
    return "no reason is known"


def ask_id(trial: Trial) -> str:
    """The id of the request that a Tune trial runs."""
    return str(trial.trial_id).partition("~")[0]


def _trial_id(trial: Trial) -> str:
    return str(trial.trial_id)
