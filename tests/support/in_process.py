"""The driver without Ray: the trials and packs of a plan in this process, taking turns."""

from collections import deque
from types import SimpleNamespace
from typing import Any

from ray.tune.schedulers import TrialScheduler

from suite.execution import driver
from suite.execution.cluster import Cluster
from suite.execution.packs import PackCallback, Packs, PackScheduler
from suite.execution.plan import ExecutionPlan
from suite.search.schedulers import EntrySchedulers
from trials.run.trainable import FederatedTrial


def drive(plan: ExecutionPlan) -> None:
    """As `suite.execution.driver.drive`; one Tune trial at a time, unless the resources say otherwise."""
    config = driver._Config(plan, Cluster(plan.resources))
    schedulers = EntrySchedulers(plan.entries, plan.source.requests, plan.scheduler)
    schedulers.replay(plan.ended)
    packs = Packs(plan, config.of, lambda: plan.resources.max_concurrent or 1)
    callback = driver._Callback(plan.source, packs, plan.hooks)
    scheduler = PackScheduler(packs, driver._Scheduler(schedulers), callback)
    tells = PackCallback(scheduler)
    running: deque[tuple[Any, FederatedTrial]] = deque()
    while True:
        while (begun := packs.start()) is not None:
            running.append(started(*begun, plan))
            tells.on_trial_start(0, [], running[-1][0])
        if not running or plan.hooks.control.ends_now:
            return
        trial, actor = running.popleft()
        result = actor.step()
        stopped = scheduler.on_trial_result(None, trial, result) == TrialScheduler.STOP
        tells.on_trial_result(0, [], trial, result)
        if stopped or result.get("done"):
            tells.on_trial_complete(0, [], trial)
        else:
            running.append((trial, actor))


def started(
    trial_id: str, config: dict[str, Any], plan: ExecutionPlan
) -> tuple[Any, FederatedTrial]:
    """A Tune trial, and the actor that runs it."""
    actor = FederatedTrial.__new__(FederatedTrial)
    actor.setup(config, datasets=plan.data)
    handle = SimpleNamespace(change=SimpleNamespace(remote=actor.change))
    trial: Any = SimpleNamespace(
        trial_id=trial_id,
        config=config,
        local_path=None,
        temporary_state=SimpleNamespace(ray_actor=handle),
    )
    return trial, actor
