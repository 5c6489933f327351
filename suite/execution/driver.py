"""Trials run: on Ray Tune, or one pack after the other in this process."""

from collections.abc import Mapping
from dataclasses import replace

import ray

from suite.console import say
from suite.execution import gpus, tuning
from suite.execution.cluster import Cluster, NotStartedError
from suite.execution.dispatch import Dispatch
from suite.execution.lifeline import watched
from suite.execution.plan import ExecutionPlan
from suite.execution.resources import local_slots
from suite.execution.stop_signal import HaltedError, interruptible
from trials.federated_data import FederatedData
from trials.run.running import RunningPack
from trials.run.spec import TrialSpec
from trials.run.trial import partition_data
from trials.sizing.calibration import workload

HERE = "here"
"""The name of this process."""


def drive(plan: ExecutionPlan) -> None:
    """Run every trial that the plan's source still asks for, or until its control ends it.

    Raises `UserError` when the cluster cannot be joined, when none of its nodes can hold a trial, or
    torch there has no GPU for those that need one; and when Ray does not start here, unless the plan's
    trials may run without it.
    """
    resources = plan.resources
    if plan.alone and not resources.joins and local_slots(resources) == 1:
        in_process(plan)
        return
    try:
        _on_ray(plan)
    except NotStartedError as error:
        if not plan.alone:
            raise
        say(f"{str(error).removesuffix('.')}; going on without Ray, one run after another")
        in_process(plan)


def in_process(plan: ExecutionPlan) -> None:
    """Run the packs one after another in this process, with the bits that they have in others."""
    dispatch, control = (
        Dispatch(plan, Cluster(replace(plan.resources, max_concurrent=1))),
        plan.hooks.control,
    )

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
    if dispatch.fault is not None:
        raise dispatch.fault


def _on_ray(plan: ExecutionPlan) -> None:
    """Run the trials as Tune's, on the cluster of the plan's resources."""
    control = plan.hooks.control
    needs = {entry.name: plan.memory.get(entry.id, 0) for entry in plan.entries}
    with watched(plan.resources, control) as cluster, interruptible(control):
        plan.hooks.joined(cluster.dashboard, cluster.hardware)
        cluster.refuse(needs or {"this list": 0})
        # Workers read the store's copy in place, one a node; the driver gives up its own.
        shared = {key: ray.put(plan.data.pop(key)) for key in list(plan.data)}
        executions: Mapping[str, str] = {}
        if plan.resources.gpus_per_trial:
            plan, executions = _fitted(plan, shared)
        dispatch = Dispatch(plan, cluster, executions)
        try:
            tuning.run(dispatch, shared)
        except OSError as error:  # Tune's own files, which nothing is resumed from
            control.halt(f"storage {plan.folder} cannot be written: {error.strerror or error}")
    if dispatch.fault is not None:
        raise dispatch.fault


def _fitted(
    plan: ExecutionPlan, shared: Mapping[str, ray.ObjectRef]
) -> tuple[ExecutionPlan, Mapping[str, str]]:
    """Return the plan with packs that the cluster's GPUs hold, and how each scenario is computed on them."""
    cards, control = gpus.look(), plan.hooks.control
    gpus.refuse(cards, plan.takes, plan.resources)
    takes = {entry.id: plan.takes[entry.name] for entry in plan.entries}
    plan = replace(plan, packs=gpus.limited(cards, plan.packs, takes, plan.resources))
    left = {name: spec for name, spec in plan.probes.items() if name not in plan.executions}
    packs = {workload(entry): plan.packs.get(entry.id, 1) for entry in plan.entries}
    chosen = gpus.choose(left, shared, plan.resources, packs, lambda: control.draining)
    try:
        plan.hooks.chosen(chosen)
    except HaltedError as halted:
        control.halt(str(halted))
    return plan, {**plan.executions, **chosen}
