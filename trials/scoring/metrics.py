"""What runs are measured by: tasks and which way is better, what is counted, and the one score of a run.

Plain data and arithmetic on recorded numbers; nothing here trains, so readers of records may use it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trials.common.errors import UserError

Direction = Literal["maximize", "minimize"]
History = Sequence[Mapping[str, float]]
"""One flat dict an evaluation, the untrained model's (round 0) first."""

LAST = 3  # a score is the mean of so many evaluations, the last ones
BYTES = ("uploaded_bytes", "downloaded_bytes", "peer_bytes")
COUNTED = ("client_steps", "gradient_passes", "sample_gradients", *BYTES)
"""The counters of work and bytes, cumulative since round 1. `sample_gradients` is the work of steps and passes in one
unit: samples whose gradient was taken."""
COUNTERS = (*COUNTED, "clients_uploaded", "evaluation_passes")
CLOCK = "simulated_time"  # seconds since round 1, where a level says how fast devices are
COSTS: dict[str, tuple[str, ...]] = {
    "rounds": (),
    "steps": ("sample_gradients",),
    "bytes": BYTES,
    "seconds": (CLOCK,),
}
"""What runs are compared at equal amounts of; seconds are simulated."""
REACHED = ("reached_round", "reached_client_steps", "reached_bytes")
"""What a final run records of the first evaluation at or past its study's target: the round, and costs until then."""
DERIVED = ("val_score", "test_score", "rounds_to_target", *REACHED)
"""What a trial records besides what its rounds measured."""


@dataclass(frozen=True)
class Task:
    """What is asked of a model: the ranked metric, whether more is better, its worst finite value."""

    metric: str
    direction: Direction
    worst: float

    @property
    def sign(self) -> int:
        """Return 1 where more is better, -1 where less is: `sign * value` is always better when larger."""
        return sign(self.direction)

    def by(self, metric: str) -> "Task":
        """Return the task as the setting `metric` judges it; raise `UserError` where that metric is not for this task."""
        if metric in LABELWISE:
            if self != CLASSIFICATION:
                raise UserError(f"metric is {metric}, which is of a classification alone")
            return replace(self, metric=metric)
        return replace(self, metric=f"{self.metric}{PERSONAL}") if metric == "personal" else self

    @property
    def pooled(self) -> str:
        """Return the mean over pooled samples that it is, is made of, or is measured beside it."""
        return "accuracy" if self.metric in LABELWISE else self.metric.removesuffix(PERSONAL)


LABELWISE = ("macro_f1", "balanced_accuracy", "auc")
"""Metrics of a classification that weigh its labels alike (`trials.scoring.scores`)."""
PERSONAL = "_personal"  # what the name of a mean over clients of each one's own score ends with
CLASSIFICATION = Task("accuracy", "maximize", 0.0)
REGRESSION = Task("mse", "minimize", worst=1e30)
_JUDGED = map(CLASSIFICATION.by, ("pooled", "personal", *LABELWISE))
TASKS = {task.metric: task for task in (*_JUDGED, REGRESSION, REGRESSION.by("personal"))}
"""The tasks there are, by the metric that their runs are ranked by."""


def direction(metric: str) -> Direction:
    """Return which way a recorded metric is better: accuracies and `LABELWISE` up; losses, errors and spreads down."""
    upwards = any(name in metric for name in ("accuracy", *LABELWISE))
    return "maximize" if upwards and not metric.endswith("spread") else "minimize"


def sign(way: Direction) -> int:
    """Return 1 for maximize, -1 for minimize."""
    return 1 if way == "maximize" else -1


def score(history: History, metric: str, lost: bool = False) -> float:
    """Return a run's mean of a metric over its last `LAST` evaluations of trained models; NaN where it is not measured,
    as without validation data. A run that is `lost` (it diverged, or has no finite mean) has the untrained model's
    value.
    """
    if lost:
        return untrained(history, metric)
    last = [entry.get(metric, math.nan) for entry in history if entry["round"] > 0][-LAST:]
    return sum(last) / len(last) if last else history[0].get(metric, math.nan)


def untrained(history: History, metric: str) -> float:
    """Return the untrained model's value; where that is not finite either, the worst finite one of a task."""
    first = next((e[metric] for e in history if e["round"] == 0 and metric in e), math.nan)
    worst = CLASSIFICATION.worst if direction(metric) == "maximize" else REGRESSION.worst
    return first if math.isfinite(first) else worst


def cost_until(entry: Mapping[str, float], at: str) -> float:
    """Return what a run cost until an evaluation, in one of `COSTS`."""
    return sum(entry.get(name, 0.0) for name in COSTS[at])


def reach(history: History, metric: str, target: float) -> dict[str, float]:
    """Return `REACHED` of a run at its first evaluation at or past the target by a task's test metric; {} if it never
    gets there. Round 0 does not count.
    """
    better = TASKS[metric].sign
    for entry in history:
        value = entry.get(f"test_{metric}")
        if value is not None and entry["round"] > 0 and better * value >= better * target:
            costs = entry["round"], entry.get("client_steps", 0.0), cost_until(entry, "bytes")
            return dict(zip(REACHED, costs, strict=True))
    return {}
