"""The driver without Ray: the trials of a plan in this process, one after the other."""

from types import SimpleNamespace
from typing import Any

from ray.tune.schedulers import TrialScheduler

from suite.execution import driver
from suite.execution.cluster import Cluster
from suite.execution.plan import Plan
from suite.search.schedulers import EntrySchedulers
from trials.trainable import FederatedTrial


def drive(plan: Plan) -> None:
    """As `suite.execution.driver.drive`."""
    config = driver._Config(plan, Cluster(plan.resources))
    schedulers = EntrySchedulers(plan.entries, plan.source.asks, plan.scheduler)
    schedulers.replay(plan.ended)
    decides = driver._Scheduler(schedulers)
    live: Any = SimpleNamespace(live=set())
    callback = driver._Callback(plan.source, live, plan.hooks)
    while not plan.hooks.control.draining and (found := plan.source.next()) is not None:
        ask, new = found
        plan.hooks.asked(ask, new)
        trial: Any = SimpleNamespace(trial_id=ask.trial_id, config=config.of(ask))
        actor = FederatedTrial.__new__(FederatedTrial)
        actor.setup(trial.config, datasets=plan.data)
        over = False
        while not over:
            result = actor.step()
            stopped = decides.on_trial_result(None, trial, result) == TrialScheduler.STOP
            callback.on_trial_result(0, [], trial, result)
            over = stopped or result["done"]
        callback.on_trial_complete(0, [], trial)
