"""The driver that runs trials: on Ray Tune through its public interfaces, or one pack after the other in this process.

A Tune trial is a process that runs a pack of trials. Tune's searcher hands out packs, its stopper stops trials that are
behind, and its callback takes reports and ends. All decisions are those of `Dispatch`.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle, tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from suite.console import say
from suite.execution.cluster import Cluster, watched
from suite.execution.dispatch import Dispatch, ExecutionPlan
from suite.execution.resources import local_slots
from suite.execution.stop_signal import interruptible
from trials.common import plugins
from trials.federated_data import FederatedData
from trials.run.spec import TrialSpec, packed
from trials.run.trainable import REPORTS, FederatedTrial
from trials.run.trial import RunningPack, partition_data

HERE = "this process"


def drive(plan: ExecutionPlan) -> None:
    """Run the trials of a plan until all have ended or the run is stopped. Raise `UserError` if the cluster cannot be joined
    or started, or has no node with room for a trial. Raise the exceptions of the plan's hooks, except `HaltedError`.
    """
    alone = plan.alone and not plan.resources.joins and local_slots(plan.resources) == 1
    dispatch = in_process(plan) if alone else _on_ray(plan)
    if dispatch.fault is not None:
        raise dispatch.fault


def in_process(plan: ExecutionPlan) -> Dispatch:
    """Run the trials of a plan in this process, one pack after the other. Return the dispatcher that handed out the trials."""
    control = plan.hooks.control
    dispatch = Dispatch(plan, Cluster(plan.resources.model_copy(update={"max_concurrent": 1})))

    def partition(spec: TrialSpec) -> FederatedData:
        return partition_data(spec, plan.data[spec.dataset_key], keep=True)

    with interruptible(control):
        while configs := dispatch.next(HERE):
            pack = RunningPack(configs, partition)
            dispatch.began(HERE)
            while pack.trials and not control.ends_now:
                reports = pack.step()
                dispatch.reported(HERE, reports)
                if any(dispatch.prunes(*report) for report in reports.items()):
                    break
            dispatch.stopped(HERE)
    return dispatch


def _on_ray(plan: ExecutionPlan) -> Dispatch:
    """Run the trials of a plan with Ray Tune on a cluster. Return the dispatcher that handed out the trials."""
    control = plan.hooks.control
    needs = {entry.name: plan.memory.get(entry.id, 0) for entry in plan.entries}
    with watched(plan.resources, control) as cluster, interruptible(control):
        cluster.refuse(needs or {"this list": 0})
        # Workers read the copy in Ray's object store, one per node, so the driver drops its own.
        shared = {key: ray.put(plan.data.pop(key)) for key in list(plan.data)}
        dispatch = Dispatch(plan, cluster)
        try:
            _tune(dispatch, shared)
        except OSError as error:  # Tune's own files cannot be written
            control.halt(f"storage {plan.folder} cannot be written: {error.strerror or error}")
    return dispatch


class DispatchClient:
    """The base class of Tune's searcher, stopper and callback, with the dispatcher of the trials. Its pickles are empty."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self.dispatch = dispatch

    def __getstate__(self) -> dict[str, Any]:
        return {}


class PackSearcher(DispatchClient, Searcher):
    """Tune's searcher, which hands out the trials of each new process. It ignores results, since Tune withholds the last one."""

    def suggest(self, trial_id: str) -> Any:
        """Return the configuration of the next process, None if no process can begin now, or `FINISHED` after the last process."""
        if self.dispatch.over:
            return str(Searcher.FINISHED)
        configs = self.dispatch.next(trial_id)
        return packed(configs) if configs else None

    def on_trial_complete(self, trial_id: str, *result: Any, **more: Any) -> None:
        """Do nothing, since `PackCallback` receives the results."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "") -> None:
        """Save nothing, since a resumed sweep reads its journal instead."""


class PackStopper(DispatchClient, tune.Stopper):
    """Tune's stopper. It stops a trial that scores worse than others of its entry, and all trials when the run ends."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Return whether early stopping ends a trial of this process. If so, Tune stops the process, which has no other trial."""
        return any(self.dispatch.prunes(*report) for report in result[REPORTS].items())

    def stop_all(self) -> bool:
        """Return whether the run must end at once. If so, Tune stops all processes."""
        return self.dispatch.control.ends_now


class PackCallback(DispatchClient, tune.Callback):
    """Tune's callback, which tells the dispatcher when processes begin, report and end."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Make the dispatcher queue further trials. On a shared cluster it also reports what trials wait for, if they wait long."""
        self.dispatch.look()

    def on_trial_start(self, iteration: int, trials: Any, trial: Trial, **info: Any) -> None:
        """Tell the dispatcher that a process has begun its trials."""
        self.dispatch.began(trial.trial_id)

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Pass the reports of a process to the dispatcher, and then empty `result`, which Tune would keep in memory."""
        self.dispatch.reported(trial.trial_id, result.pop(REPORTS))
        for name in result.keys() - {"done"}:
            del result[name]

    def on_trial_complete(self, iteration: int, trials: Any, trial: Trial, **info: Any) -> None:
        """Tell the dispatcher that a process has ended. The unfinished trials of this process count as stopped early."""
        self.dispatch.stopped(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: Any, trial: Trial, **info: Any) -> None:
        """Tell the dispatcher that a process died, or that the code of its trials raised an exception."""
        try:  # Tune has pickled the exception
            error = cloudpickle.loads(Path(str(trial.pickled_error_file)).read_bytes())
        except Exception:
            error = RuntimeError("no reason is known")
        of_code = isinstance(error, ray.exceptions.RayTaskError)
        take = self.dispatch.stopped if of_code else self.dispatch.died
        take(trial.trial_id, str(error).strip() or repr(error))


class InOrder(FIFOScheduler):
    """A Tune scheduler that lets trials start in the order in which they came, without scanning all of them at each step."""

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return None, which makes Tune start its pending trials in order."""
        return None


def _tune(dispatch: Dispatch, shared: Mapping[str, Any]) -> None:
    """Run Tune on the connected cluster until all trials have ended. Start Tune again if Ray kills a process for lack of
    memory. `shared` maps the keys of data sets to references in Ray's object store.
    """
    while not dispatch.over:
        try:
            _tuner(dispatch, shared).fit()
            return
        except (tune.TuneError, RuntimeError) as error:
            # Tune goes on when an actor dies, but ends when Ray kills a process for memory.
            cause: BaseException | None = error
            while not isinstance(cause, ray.exceptions.OutOfMemoryError):
                if cause is None:
                    raise
                cause = cause.__cause__ or cause.__context__
            reason = f"Ray killed it: {str(cause).splitlines()[0]}"
            say(f"{reason}; all trials that were running start again")
            for process in list(dispatch.packs):
                dispatch.died(process, reason)


def _tuner(dispatch: Dispatch, shared: Mapping[str, Any]) -> tune.Tuner:
    plan = dispatch.plan
    # Some trials always wait for resources, so that a node that joins is used.
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(max(dispatch.slots, 16))
    trainable = tune.with_parameters(
        FederatedTrial, datasets=shared, sources=plugins.sources(plan.source.code)
    )
    return tune.Tuner(
        trainable,
        tune_config=tune.TuneConfig(
            search_alg=PackSearcher(dispatch),
            scheduler=InOrder(),
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.trial_id,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name=time.strftime("%Y%m%d-%H%M%S"),
            storage_path=str(plan.folder.resolve()),
            callbacks=[PackCallback(dispatch)],
            stop=PackStopper(dispatch),
            verbose=0,
            progress_reporter=tune.CLIReporter(),  # a notebook's own would clear the output
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
