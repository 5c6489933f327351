"""Tasks and their ranked metrics, counters and costs of runs, and a run's score.

The module holds plain data and arithmetic on recorded numbers, so that reports can use it without torch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trials.common.errors import UserError

Direction = Literal["maximize", "minimize"]
History = Sequence[Mapping[str, float]]
"""One flat dict per evaluation, the untrained model's (round 0) first."""

LAST = 3  # a score is the mean over the last three evaluations
BYTES = ("uploaded_bytes", "downloaded_bytes", "peer_bytes")
COUNTED = ("client_steps", "gradient_passes", "sample_gradients", *BYTES)
"""The counters of work and bytes, cumulative since round 1. `sample_gradients` counts samples whose gradient was taken, in
minibatch steps and in full passes."""
COUNTERS = (*COUNTED, "clients_uploaded", "evaluation_passes")
CLOCK = "simulated_time"  # seconds since round 1, recorded under levels that set devices' speed
COSTS: dict[str, tuple[str, ...]] = {
    "rounds": (),
    "steps": ("sample_gradients",),
    "bytes": BYTES,
    "seconds": (CLOCK,),
}
"""The costs at which runs can be compared, each with the counters that sum to it. `seconds` are simulated time."""
REACHED = ("reached_round", "reached_client_steps", "reached_bytes")
"""The metrics of a final run that reached its study's target: the round of that evaluation, and the costs until then."""
DERIVED = ("val_score", "test_score", "rounds_to_target", *REACHED)
"""The metrics of a trial that are computed at its end, not measured in a round."""


@dataclass(frozen=True)
class Task:
    """The ranked metric of a learning problem, whether to maximize or minimize it, and its worst finite value."""

    metric: str
    direction: Direction
    worst: float

    @property
    def sign(self) -> int:
        """Return 1 if a higher value is better, -1 if a lower value is."""
        return sign(self.direction)

    def by(self, metric: str) -> "Task":
        """Return a copy of this task that ranks by the setting `metric`: "pooled", "personal", "macro_f1", "balanced_accuracy" or
        "auc". Raise `UserError` for one of the last three if the task is a regression.
        """
        if metric in LABELWISE:
            if self != CLASSIFICATION:
                raise UserError(f"metric is {metric}, which is for classification only")
            return replace(self, metric=metric)
        return replace(self, metric=f"{self.metric}{PERSONAL}") if metric == "personal" else self

    @property
    def pooled(self) -> str:
        """Return the task's metric that is a plain mean over all samples: "accuracy" or "mse"."""
        return "accuracy" if self.metric in LABELWISE else self.metric.removesuffix(PERSONAL)


LABELWISE = ("macro_f1", "balanced_accuracy", "auc")
"""Metrics of a classification that weigh all labels equally (`trials.scoring.scores`)."""
PERSONAL = "_personal"  # the suffix of a mean over clients of the scores on their own samples
CLASSIFICATION = Task("accuracy", "maximize", 0.0)
REGRESSION = Task("mse", "minimize", worst=1e30)
_JUDGED = map(CLASSIFICATION.by, ("pooled", "personal", *LABELWISE))
TASKS = {task.metric: task for task in (*_JUDGED, REGRESSION, REGRESSION.by("personal"))}
"""All tasks by their ranked metric."""


def direction(metric: str) -> Direction:
    """Return "maximize" for accuracies, macro F1 and AUC, and "minimize" for all other metrics."""
    upwards = any(name in metric for name in ("accuracy", *LABELWISE))
    return "maximize" if upwards and not metric.endswith("spread") else "minimize"


def sign(way: Direction) -> int:
    """Return 1 for maximize, -1 for minimize."""
    return 1 if way == "maximize" else -1


def score(history: History, metric: str, lost: bool = False) -> float:
    """Return the mean of a metric over a run's last three evaluations after round 0. If there is only round 0, return the value
    there. If the metric was not measured, return NaN. For a `lost` run, which diverged or has no finite mean, return the
    untrained model's value.
    """
    if lost:
        return untrained(history, metric)
    last = [entry.get(metric, math.nan) for entry in history if entry["round"] > 0][-LAST:]
    return sum(last) / len(last) if last else history[0].get(metric, math.nan)


def untrained(history: History, metric: str) -> float:
    """Return the untrained model's value of a metric, from round 0. If the value is missing or not finite, return the task's worst value."""
    first = next((e[metric] for e in history if e["round"] == 0 and metric in e), math.nan)
    worst = CLASSIFICATION.worst if direction(metric) == "maximize" else REGRESSION.worst
    return first if math.isfinite(first) else worst


def cost_until(entry: Mapping[str, float], at: str) -> float:
    """Return a run's cost up to the evaluation `entry`. `at` names the cost: "bytes", for example, adds up all bytes sent."""
    return sum(entry.get(name, 0.0) for name in COSTS[at])


def reach(history: History, metric: str, target: float) -> dict[str, float]:
    """Return the round, client steps and bytes at which a run first reaches the `target`. The keys are `reached_round`,
    `reached_client_steps` and `reached_bytes`. The score is `test_{metric}` from round 1 on. Return {} if no score reaches the target.
    """
    better = TASKS[metric].sign
    for entry in history:
        value = entry.get(f"test_{metric}")
        if value is not None and entry["round"] > 0 and better * value >= better * target:
            costs = entry["round"], entry.get("client_steps", 0.0), cost_until(entry, "bytes")
            return dict(zip(REACHED, costs, strict=True))
    return {}
