"""What papers print of runs: accuracies, losses, rounds to a target, gains, speed-ups.

A run is its history, one dict an evaluation. A value that is infinite is a target that was not reached
(a speed-up: by one of the two), or the loss of a run that diverged.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from trials.common.errors import UserError, unknown

LAST, BEST = EVALUATIONS = "last", "best"
"""Which accuracy counts after a round: that round's, or the best so far."""
RANKED = "ranked"
MODELS = {
    RANKED: "the model by which the method is ranked",
    "average": "the average of the clients' models, where the mean of their own scores is ranked",
    "devices": "the weighted mean of all clients' models, where that of the uploads is ranked",
    "selected": "the mean of the models of those last selected, where the server adds to it",
}
"""Which model is scored; besides the first, further ones that some methods record."""


@dataclass(frozen=True)
class MetricKind:
    """A metric: its unit, the direction that is better, and how far a printed number may be from a
    measured mean: `points` in the metric's unit, or `share` of the printed number if that is more.
    `last`: it is read at the end, so that a run that was cut short has none.
    """

    unit: str
    better: str
    points: float = 0.0
    share: float = 0.0
    last: bool = True
    arguments: int = 0


KINDS = {
    "test_accuracy": MetricKind("%", "more", points=1.0),
    "best_test_accuracy": MetricKind("%", "more", points=1.0),
    "mean_accuracy": MetricKind("%", "more", points=1.0),
    "top5_accuracy": MetricKind("%", "more", points=1.0),
    "test_loss": MetricKind("", "less", share=0.1),
    "test_mse": MetricKind("", "less", share=0.1),
    "train_loss": MetricKind("", "less", share=0.1),
    "uploads": MetricKind("uploads", "less", share=0.05),
    "rounds_to": MetricKind("rounds", "less", points=2.0, share=0.2, last=False, arguments=1),
    "speedup": MetricKind("x", "more", share=0.2, last=False, arguments=2),
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
        """The metric's unit and tolerances; raises `UserError` for a name that is not measured."""
        if self.name not in KINDS:
            raise unknown("metric", self.name, KINDS)
        return KINDS[self.name]

    @property
    def target(self) -> float:
        """The accuracy that rounds_to and speedup ask for, as a share."""
        return float(self.arguments[0]) / 100

    @property
    def key(self) -> str:
        """The recorded metric it is read from."""
        other = {"uploads": "clients_uploaded", "top5_accuracy": "test_top5_accuracy"}
        accuracy = self.name.endswith("accuracy") or self.name in ("rounds_to", "gain", "speedup")
        return other.get(self.name, "test_accuracy" if accuracy else self.name)

    @property
    def every_round(self) -> bool:
        """Whether the metric needs an evaluation after each round."""
        return self.at is not None or self.name in (
            "rounds_to",
            "speedup",
            "mean_accuracy",
            "best_test_accuracy",
        )

    def tolerance(self, printed: float) -> float:
        """The largest difference of a mean from a printed number that still reproduces it."""
        return max(self.kind.points, self.kind.share * abs(printed))

    def apart(self, size: float) -> float:
        """How far two means of about this size may be from each other to count as alike."""
        return KINDS["gain"].points if self.kind.unit == "%" else self.tolerance(size)


def metric(text: str) -> Metric:
    """Read a metric's name; raises `UserError` on one that is not measured or has a wrong form."""
    match = re.fullmatch(r"(\w+)(?:\(([^)]*)\))?(?:@(\d+))?", text)
    if match is None:
        raise UserError(f"metric {text!r}: the form is NAME, NAME(ARGUMENT,...) or NAME@ROUND")
    arguments = tuple(a.strip() for a in match[2].split(",")) if match[2] else ()
    found = Metric(match[1], arguments, int(match[3]) if match[3] else None)
    if len(arguments) != found.kind.arguments:
        raise UserError(f"metric {text!r}: {found.name} takes {found.kind.arguments} arguments")
    return found


@dataclass(frozen=True)
class ClaimRun:
    """One run: its evaluations, round 0 first, and the rounds it was meant for."""

    history: Sequence[Mapping[str, float]]
    rounds: int
    diverged: bool = False

    def at(self, key: str, round_index: int | None) -> float:
        """A value at a round, by default the last. Of a run that diverged before, accuracies are the
        untrained model's and losses infinite.
        """
        if self.diverged and (round_index is None or round_index > self.history[-1]["round"]):
            accuracy = key.endswith("accuracy")
            return float(self.history[0].get(key, math.nan)) if accuracy else math.inf
        rows = [e for e in self.history if round_index is None or e["round"] == round_index]
        return float(rows[-1].get(key, math.nan)) if rows else math.nan

    def first(self, key: str, target: float) -> float:
        """The first round at which a value is at least the target; infinite if there is none, NaN where
        it was not measured.
        """
        if not any(key in e for e in self.history):
            return math.nan
        hits = (e["round"] for e in self.history if e["round"] > 0 and e[key] >= target)
        return float(next(hits, math.inf))


def as_scored(
    history: Sequence[Mapping[str, float]], evaluation: str, model: str
) -> Sequence[Mapping[str, float]]:
    """A run's history as it is scored: with the scores of one of `MODELS` in the ranked one's place (with
    none where the method has no such model), and after each round the accuracy of one of `EVALUATIONS`.
    """
    if model != RANKED:
        history = [
            {k.removeprefix(f"{model}_"): v for k, v in e.items() if not k.startswith("test_")}
            for e in history
        ]
    if evaluation == LAST:
        return history
    best = accumulate((e.get("test_accuracy", -math.inf) for e in history[1:]), max)
    trained = [
        {**e, "test_accuracy": value} if "test_accuracy" in e else e
        for e, value in zip(history[1:], best, strict=True)
    ]
    return [*history[:1], *trained]


Runs = Mapping[str, Mapping[int, ClaimRun]]
"""Method -> seed -> run, of one row."""


def measured(wanted: Metric, method: str, runs: Runs) -> dict[int, float]:
    """A metric of a method for each seed; seeds without a value are left out."""
    found = {seed: _value(wanted, method, seed, runs) for seed in runs.get(method, {})}
    return {seed: value for seed, value in found.items() if not math.isnan(value)}


def _value(wanted: Metric, method: str, seed: int, runs: Runs) -> float:
    run = runs[method][seed]
    trained = [e["test_accuracy"] for e in run.history if "test_accuracy" in e][1:]
    if wanted.name in ("gain", "speedup"):
        other = wanted.arguments[-1]
        inner = "test_accuracy" if wanted.name == "gain" else "rounds_to"
        simpler = Metric(inner, wanted.arguments[:-1], wanted.at)
        theirs = measured(simpler, other, runs).get(seed, math.nan)
        ours = _value(simpler, method, seed, runs)
        if wanted.name == "gain":
            return ours - theirs
        return theirs / ours if math.isfinite(theirs) and math.isfinite(ours) else theirs + ours
    if wanted.name == "rounds_to":
        return run.first("test_accuracy", wanted.target)
    if run.diverged and wanted.name in ("best_test_accuracy", "mean_accuracy"):
        return 100 * run.at("test_accuracy", None)
    if wanted.name == "best_test_accuracy":
        return 100 * max(trained, default=math.nan)
    if wanted.name == "mean_accuracy":
        return 100 * fmean(trained) if trained else math.nan
    scale = 100 if wanted.name.endswith("accuracy") else 1
    return scale * run.at(wanted.key, wanted.at)
