"""What the search hands out and takes back: a run to make, and all it may know of how that ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pydantic import with_config

from suite.studies.replicates import Replicate
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.run.spec import TrialSpec
from trials.scoring.metrics import COUNTED

if TYPE_CHECKING:
    from suite.studies.entries import Entry


@with_config(extra="forbid")
@dataclass(frozen=True)
class InitialConfiguration:
    """A configuration that no sampler suggested; `source` says where a warm one is from."""

    origin: str
    params: dict[str, Any]
    source: str | None = None


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
        return self.kind in (TrialKind.SEARCH, TrialKind.CONFIRM)

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
    such scores where it reported; `spent` are its counters at round `at`, the last.
    """

    status: Status
    value: float | None
    intermediates: Mapping[int, float] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    at: int = 0

    @classmethod
    def of(cls, outcome: TrialResult) -> Self:
        """Keep of an outcome what the search may know."""
        last = outcome.history[-1] if outcome.history else {}
        spent = {name: last[name] for name in COUNTED if name in last}
        scores, at = outcome.intermediates, outcome.last_round
        return cls(outcome.status, outcome.value, scores, spent, at)

    def exceeded(self, entry: "Entry") -> dict[str, float]:
        """Return the excess of each constraint of its entry, cost / bound - 1: at most 0 where it is kept. What a run that
        ended early spent is taken in proportion.
        """
        whole = entry.settings.rounds / self.at if self.at else 0.0
        bounds = entry.constraints.items()
        return {name: self.spent.get(name, 0.0) * whole / bound - 1 for name, bound in bounds}

    def feasible(self, entry: "Entry") -> bool:
        """Return whether the run keeps the constraints of its entry."""
        return all(share <= 0 for share in self.exceeded(entry).values())
