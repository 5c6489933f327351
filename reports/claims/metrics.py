"""What papers print of runs: accuracies, losses, rounds to a target, gains, speed-ups.

A run is its history, one dict an evaluation. A value that is infinite is a target that was not reached
(a speed-up: by one of the two), or the loss of a run that diverged.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from trials.common.errors import UserError, unknown


@dataclass(frozen=True)
class MetricKind:
    """A metric: its unit, the direction that is better, and how far a printed number may be from a measured mean: `points`
    in the metric's unit, or `share` of the printed number if that is more. It is read from the recorded metric `key`, of the
    `last` evaluation (so that a run that was cut short has none), or of `every_round`.
    """

    unit: str
    better: str
    points: float = 0.0
    share: float = 0.0
    key: str = "test_accuracy"
    last: bool = True
    every_round: bool = False
    arguments: int = 0


KINDS = {
    "test_accuracy": MetricKind("%", "more", points=1.0),
    "best_test_accuracy": MetricKind("%", "more", points=1.0, every_round=True),
    "mean_accuracy": MetricKind("%", "more", points=1.0, every_round=True),
    "top5_accuracy": MetricKind("%", "more", points=1.0, key="test_top5_accuracy"),
    "test_loss": MetricKind("", "less", share=0.1, key="test_loss"),
    "test_mse": MetricKind("", "less", share=0.1, key="test_mse"),
    "train_loss": MetricKind("", "less", share=0.1, key="train_loss"),
    "uploads": MetricKind("uploads", "less", share=0.05, key="clients_uploaded"),
    "rounds_to": MetricKind(
        "rounds", "less", points=2.0, share=0.2, last=False, every_round=True, arguments=1
    ),
    "speedup": MetricKind("x", "more", share=0.2, last=False, every_round=True, arguments=2),
    "gain": MetricKind("points", "more", points=2.0, arguments=1),
}


@dataclass(frozen=True)
class Metric:
    """A metric's name with its arguments: `rounds_to(95)`, `gain(fedavg)@56` (at round 56)."""

    name: str
    arguments: tuple[str, ...] = ()
    at: int | None = None

    @property
    def kind(self) -> MetricKind:
        """The metric's unit, tolerances and source."""
        return KINDS[self.name]

    @property
    def every_round(self) -> bool:
        """Whether the metric needs an evaluation after each round."""
        return self.at is not None or self.kind.every_round

    def tolerance(self, printed: float) -> float:
        """Return the largest difference of a mean from a printed number that still reproduces it."""
        return max(self.kind.points, self.kind.share * abs(printed))

    def apart(self, size: float) -> float:
        """Return how far two means of about this size may be from each other to count as alike."""
        return KINDS["gain"].points if self.kind.unit == "%" else self.tolerance(size)


def metric(text: str) -> Metric:
    """Read a metric's name; raises `UserError` on one that is not measured or has a wrong form."""
    match = re.fullmatch(r"(\w+)(?:\(([^)]*)\))?(?:@(\d+))?", text)
    if match is None:
        raise UserError(f"metric {text!r}: the form is NAME, NAME(ARGUMENT,...) or NAME@ROUND")
    if match[1] not in KINDS:
        raise unknown("metric", match[1], KINDS)
    arguments = tuple(a.strip() for a in match[2].split(",")) if match[2] else ()
    wanted = KINDS[match[1]].arguments
    if len(arguments) != wanted:
        raise UserError(f"metric {text!r}: {match[1]} takes {wanted} arguments")
    return Metric(match[1], arguments, int(match[3]) if match[3] else None)


def metric_or_none(text: str) -> Metric | None:
    """Read a metric's name; None for one that the suite does not measure."""
    try:
        return metric(text)
    except UserError:
        return None


@dataclass(frozen=True)
class ClaimRun:
    """One run: its evaluations, round 0 first, and the rounds it was meant for."""

    history: Sequence[Mapping[str, float]]
    rounds: int
    diverged: bool = False

    def at(self, key: str, round_index: int | None) -> float:
        """Return a value at a round, by default the last. Of a run that diverged before, accuracies are the untrained model's
        and losses infinite.
        """
        if self.diverged and (round_index is None or round_index > self.history[-1]["round"]):
            accuracy = key.endswith("accuracy")
            return float(self.history[0].get(key, math.nan)) if accuracy else math.inf
        rows = [e for e in self.history if round_index is None or e["round"] == round_index]
        return float(rows[-1].get(key, math.nan)) if rows else math.nan

    def rounds_to(self, target: float) -> float:
        """Return the first round whose test accuracy is at least the target; infinite if there is none, NaN where it was not
        measured.
        """
        if not any("test_accuracy" in entry for entry in self.history):
            return math.nan
        trained = (entry for entry in self.history if entry["round"] > 0)
        hits = (entry["round"] for entry in trained if entry["test_accuracy"] >= target)
        return float(next(hits, math.inf))


Runs = Mapping[str, Mapping[int, ClaimRun]]
"""Method -> seed -> run, of one row."""


def measured(wanted: Metric, method: str, runs: Runs) -> dict[int, float]:
    """Return a metric of a method for each seed; seeds without a value are left out."""
    values = {seed: _value(wanted, method, seed, runs) for seed in runs.get(method, {})}
    return {seed: value for seed, value in values.items() if not math.isnan(value)}


def _value(wanted: Metric, method: str, seed: int, runs: Runs) -> float:
    run, name = runs[method][seed], wanted.name
    if name in ("gain", "speedup"):
        inner = "test_accuracy" if name == "gain" else "rounds_to"
        simpler = Metric(inner, wanted.arguments[:-1], wanted.at)
        theirs = measured(simpler, wanted.arguments[-1], runs).get(seed, math.nan)
        ours = _value(simpler, method, seed, runs)
        if name == "gain":
            return ours - theirs
        return theirs / ours if math.isfinite(theirs) and math.isfinite(ours) else theirs + ours
    if name == "rounds_to":
        return run.rounds_to(float(wanted.arguments[0]) / 100)
    if name in ("best_test_accuracy", "mean_accuracy"):
        if run.diverged:
            return 100 * run.at("test_accuracy", None)
        trained = [e["test_accuracy"] for e in run.history if "test_accuracy" in e][1:]
        if not trained:
            return math.nan
        return 100 * (max(trained) if name == "best_test_accuracy" else fmean(trained))
    return (100 if name.endswith("accuracy") else 1) * run.at(wanted.kind.key, wanted.at)
