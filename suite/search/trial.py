"""What the search hands out and takes back: a run to make, and all it may know of how that ended."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pydantic import with_config

from suite.studies.replicates import Replicate
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.run.spec import TrialSpec
from trials.scoring.metrics import COUNTED, TASKS

if TYPE_CHECKING:
    from suite.studies.entry import Entry


@with_config(extra="forbid")
@dataclass(frozen=True)
class InitialConfiguration:
    """A configuration that no sampler suggested; `source` says where a warm one is from."""

    origin: str
    params: dict[str, Any]
    source: str | None = None


TARGET = "rounds_to_target"
"""The cost that a curve tells; all others are counters."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A run to make, a trial of the search or one that repeats it; `index` counts the entry's runs of its kind.

    `replicate` is the name of the entry's replicate that it is of (`suite.studies.replicates`);
    `source` is the search trial whose configuration it repeats, or where a warm one is from.
    """

    trial_id: str
    entry_id: str
    kind: TrialKind
    index: int
    origin: str
    params: dict[str, Any]
    seed: int
    partition_seed: int
    source: str | None = None
    replicate: str = ""

    @property
    def search(self) -> str:
        """The search that it is part of: one replicate of one entry."""
        return "-".join(filter(None, (self.entry_id, self.replicate)))

    @property
    def counted(self) -> bool:
        """Whether the run is part of the search, and so of its budget."""
        return self.kind.counted

    def spec(self, entry: "Entry") -> TrialSpec:
        """Return the trial of its entry that it runs; what only tests, and chooses nothing, is left out of the search."""
        split = Replicate.parse(self.replicate).split
        spec = entry.spec(self.params, self.seed, self.partition_seed, split)
        if not self.counted or spec.settings.fine_tune is None:
            return spec
        untested = spec.settings.model_copy(update={"fine_tune": None})
        return spec.model_copy(update={"settings": untested})


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What the search may know of how a run ended: validation scores and counters, no test metric.

    `value` is its last validation score (a mean of three evaluations), `intermediates` maps round to
    such scores where it reported, `curve` to the score of that evaluation alone; `spent` are its
    counters at round `at`, the last.
    """

    status: Status
    value: float | None
    intermediates: Mapping[int, float] = field(default_factory=dict)
    curve: Mapping[int, float] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    at: int = 0

    @classmethod
    def of(
        cls,
        outcome: TrialResult,
        constraints: Collection[str] = (TARGET, *COUNTED),
        stops: bool = True,
    ) -> Self:
        """Keep of an outcome what the search may know: with less than all `constraints` of their costs alone, and without
        early stopping no scores but the last.
        """
        # Who is judged by clients' own scores has the pooled ones too, which come first in TASKS.
        names = [f"val_{metric}" for metric in TASKS] if TARGET in constraints else []
        curve = {int(e["round"]): e[name] for e in outcome.history for name in names if name in e}
        last = outcome.history[-1] if outcome.history else {}
        spent = {name: last[name] for name in COUNTED if name in last and name in constraints}
        scores = outcome.intermediates if stops else {}
        return cls(outcome.status, outcome.value, scores, curve, spent, at=outcome.last_round)

    def cost(self, name: str, entry: "Entry", target: float | None) -> float:
        """Return the cost of the run over all rounds; of one that ended before, in proportion."""
        rounds, sign = entry.settings.rounds, entry.task.sign
        if name == TARGET:
            assert target is not None
            hits = (r for r, v in sorted(self.curve.items()) if r and sign * (v - target) >= 0)
            return next(hits, rounds + 1)
        return self.spent.get(name, 0.0) * rounds / self.at if self.at else 0.0

    def exceeded(self, entry: "Entry", target: float | None) -> dict[str, float]:
        """Return the excess of each constraint of its entry, cost / bound - 1: at most 0 where it is kept."""
        costs = {name: self.cost(name, entry, target) for name in entry.constraints}
        return {name: cost / entry.constraints[name] - 1 for name, cost in costs.items()}

    def feasible(self, entry: "Entry", target: float | None) -> bool:
        """Return whether the run keeps the constraints of its entry."""
        return all(share <= 0 for share in self.exceeded(entry, target).values())
