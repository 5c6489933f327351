"""The requests for runs that a search makes, and the results of runs as far as a search may see them."""

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
    """A configuration with its origin: default, published, warm or sampled. `source` says where a warm one is from."""

    origin: str
    params: dict[str, Any]
    source: str | None = None


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A request for a search trial, or for a confirming or final run that repeats one with another seed.

    `index` is the number, from 0, of a search trial or of a repetition of one trial. `replicate` is a replicate's name,
    such as `v1d1t2`. `source` is the id of the repeated trial, or the origin of a warm configuration.
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
        """Return the id of the run's search: the entry's id and, except in the first replicate, the replicate's name."""
        return "-".join(filter(None, (self.entry_id, self.replicate)))

    @property
    def counted(self) -> bool:
        """Return whether the search learns from the run. Final runs only measure its result, so they do not count."""
        return self.kind in (TrialKind.SEARCH, TrialKind.CONFIRM)

    def spec(self, entry: "Entry") -> TrialSpec:
        """Return the specification of the run. Runs of the search skip fine-tuning, since it changes test scores only."""
        split = Replicate.parse(self.replicate).split
        spec = entry.spec(self.params, self.seed, self.partition_seed, split)
        if not self.counted or spec.settings.fine_tune is None:
            return spec
        untested = spec.settings.model_copy(update={"fine_tune": None})
        return spec.model_copy(update={"settings": untested})


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The result of a run as the search may see it: validation scores and counters, but no test metric.

    `value` is the final validation score, a mean of three evaluations, and `intermediates` has such scores by round.
    `spent` has the counters, such as bytes, after the last round `at`.
    """

    status: Status
    value: float | None
    intermediates: Mapping[int, float] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    at: int = 0

    @classmethod
    def of(cls, outcome: TrialResult) -> Self:
        """Return a trial's outcome as the search may see it, without test metrics."""
        last = outcome.history[-1] if outcome.history else {}
        spent = {name: last[name] for name in COUNTED if name in last}
        scores, at = outcome.intermediates, outcome.last_round
        return cls(outcome.status, outcome.value, scores, spent, at)

    def exceeded(self, entry: "Entry") -> dict[str, float]:
        """Return cost / bound - 1 for each constraint of the entry. The run satisfies a constraint if this value is at most 0. The
        cost of a run that ended early is scaled up to all rounds.
        """
        scale = entry.settings.rounds / self.at if self.at else 0.0
        bounds = entry.constraints.items()
        return {name: self.spent.get(name, 0.0) * scale / bound - 1 for name, bound in bounds}

    def feasible(self, entry: "Entry") -> bool:
        """Return whether the run satisfies all constraints of its entry."""
        return all(share <= 0 for share in self.exceeded(entry).values())
