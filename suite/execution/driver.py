"""Trials run: on Ray Tune, driven through its public interfaces, or one pack after the other in this process.

A Tune trial is a process that runs a pack. The searcher hands packs out, and the stopper stops what is behind. The
callback alone takes reports; it journals them, then tells the search. All only ask `Dispatch`.
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
    """Run every trial that the plan's source still asks for, or until its control ends it. Raises `UserError` when the cluster
    cannot be joined or started, or none of its nodes can hold a trial.
    """
    alone = plan.alone and not plan.resources.joins and local_slots(plan.resources) == 1
    dispatch = in_process(plan) if alone else _on_ray(plan)
    if dispatch.fault is not None:
        raise dispatch.fault


def in_process(plan: ExecutionPlan) -> Dispatch:
    """Run the packs one after another in this process, with the bits that they have in others."""
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
    """Run the trials as Tune's, on the cluster of the plan's resources."""
    control = plan.hooks.control
    needs = {entry.name: plan.memory.get(entry.id, 0) for entry in plan.entries}
    with watched(plan.resources, control) as cluster, interruptible(control):
        cluster.refuse(needs or {"this list": 0})
        # Workers read the store's copy in place, one a node; the driver gives up its own.
        shared = {key: ray.put(plan.data.pop(key)) for key in list(plan.data)}
        dispatch = Dispatch(plan, cluster)
        try:
            _tune(dispatch, shared)
        except OSError as error:  # Tune's own files, which nothing is resumed from
            control.halt(f"storage {plan.folder} cannot be written: {error.strerror or error}")
    return dispatch


class Asking:
    """An object that Tune calls. Tune pickles it when an experiment starts, and nothing is ever restored from that."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self.dispatch = dispatch

    def __getstate__(self) -> dict[str, Any]:
        return {}


class PackSearcher(Asking, Searcher):
    """Hands packs out. It takes no results: Tune does not tell a searcher the last one."""

    def suggest(self, trial_id: str) -> Any:
        """Return the next pack, None where it has to wait, and the end when all has ended: Tune never asks again."""
        if self.dispatch.over:
            return str(Searcher.FINISHED)
        configs = self.dispatch.next(trial_id)
        return packed(configs) if configs else None

    def on_trial_complete(self, trial_id: str, *result: Any, **more: Any) -> None:
        """Do nothing."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "") -> None:
        """Do nothing."""


class PackStopper(Asking, tune.Stopper):
    """Stops a trial that is behind (it is alone in its pack), and all trials when the run ends."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Return whether the trial is behind."""
        return any(self.dispatch.prunes(*report) for report in result[REPORTS].items())

    def stop_all(self) -> bool:
        """Return whether to end everything."""
        return self.dispatch.control.ends_now


class PackCallback(Asking, tune.Callback):
    """Takes what packs say and how they end. Where all is stopped, Tune says nothing of them."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Look whether anything runs."""
        self.dispatch.look()

    def on_trial_start(self, iteration: int, trials: Any, trial: Trial, **info: Any) -> None:
        """Note that a pack runs."""
        self.dispatch.began(trial.trial_id)

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Take the reports. Tune would keep the result, and extremes, means and last values of its numbers, for good."""
        self.dispatch.reported(trial.trial_id, result.pop(REPORTS))
        for name in result.keys() - {"done"}:
            del result[name]

    def on_trial_complete(self, iteration: int, trials: Any, trial: Trial, **info: Any) -> None:
        """Note that a pack is over."""
        self.dispatch.stopped(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: Any, trial: Trial, **info: Any) -> None:
        """Tell an exception of the code from the death of a process."""
        try:  # what Tune has written of it
            error = cloudpickle.loads(Path(str(trial.pickled_error_file)).read_bytes())
        except Exception:
            error = RuntimeError("no reason is known")
        of_code = isinstance(error, ray.exceptions.RayTaskError)
        take = self.dispatch.stopped if of_code else self.dispatch.died
        take(trial.trial_id, str(error).strip() or repr(error))


class InOrder(FIFOScheduler):
    """Lets Tune start trials in the order they came; its own choice scans all of them each step."""

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return none."""
        return None


def _tune(dispatch: Dispatch, shared: Mapping[str, Any]) -> None:
    """Run all that is handed out on the cluster that is connected; `shared` are the data sets in Ray's object store."""
    while not dispatch.over:
        try:
            _tuner(dispatch, shared).fit()
            return
        except (tune.TuneError, RuntimeError) as error:
            # Tune, which takes the death of an actor, ends for a process that was killed for memory.
            cause: BaseException | None = error
            while not isinstance(cause, ray.exceptions.OutOfMemoryError):
                if cause is None:
                    raise
                cause = cause.__cause__ or cause.__context__
            reason = f"Ray killed it: {str(cause).splitlines()[0]}"
            say(f"{reason}; what ran there and beside it starts again")
            for process in list(dispatch.packs):
                dispatch.died(process, reason)


def _tuner(dispatch: Dispatch, shared: Mapping[str, Any]) -> tune.Tuner:
    plan = dispatch.plan
    # Where fewer run at once more may wait for a place, so that nodes that join are used.
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
