"""The search trials of an entry as leaderboards and reports need them, which its sweep writes down when it ends.

A sweep of 100,000 trials has as many runs; of what all of them say a report needs a few values each.
An entry's run has them as one tag, `suite.searched`; while a sweep goes on they are read from the trials' runs.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from suite.tracking.record import Record
from suite.tracking.schema.forms import dumps
from trials.run.outcome import Status, reason
from trials.run.result import TrialResult
from trials.run.trial_id import TrialId

Key = tuple[str, str]
"""Sweep and entry."""


class Searched(NamedTuple):
    """A search trial, or one that confirms another: the replicate that it is of, its number there, how it
    ended, its validation score, its test score (the untrained model's where it diverged), where its configuration
    is from, the configuration, whether it keeps the study's constraints, and why it failed.
    """

    replicate: str
    number: int
    confirm: bool
    status: Status
    value: float | None
    test: float | None
    origin: str
    params: Mapping[str, Any]
    feasible: bool
    why: str

    @classmethod
    def of(cls, run: Record) -> "Searched":
        """What its run says."""
        tags, number = run.tags, run.tags.number
        return cls(
            number.replicate,
            number.index,
            bool(tags.confirm),
            tags.status,
            run.metrics.get("val_score"),
            run.metrics.get("test_score"),
            tags.origin,
            tags.params,
            tags.feasible is not False,
            reason(tags.error) if tags.error else "",
        )

    @classmethod
    def ended(
        cls,
        trial_id: str,
        origin: str,
        params: Mapping[str, Any],
        outcome: TrialResult,
        score: float | None,
        feasible: bool,
    ) -> "Searched":
        """The same of how it ended, with its test score."""
        number = TrialId.parse(trial_id)
        return cls(
            number.replicate,
            number.index,
            number.number is not None,
            outcome.status,
            outcome.value if outcome.history else None,
            score,
            origin,
            params,
            feasible,
            reason(outcome.error) if outcome.error else "",
        )

    @property
    def can_be_chosen(self) -> bool:
        """Whether final runs may repeat it."""
        return self.status == Status.FINISHED and self.feasible

    def signed(self, sign: int) -> tuple[float, float]:
        """Its scores with the sign that more is better: on validation, minus infinite where it cannot be chosen, and
        on test data.
        """
        assert self.test is not None
        chosen_by = self.value if self.can_be_chosen else None
        return -math.inf if chosen_by is None else sign * chosen_by, sign * self.test


def by_entry(runs: Iterable[Record]) -> dict[Key, list[Searched]]:
    """The search trials of each entry, from their runs."""
    found: dict[Key, list[Searched]] = defaultdict(list)
    for run in runs:
        found[run.tags.sweep, run.tags.entry_id].append(Searched.of(run))
    return found


def text(trials: Sequence[Searched]) -> str:
    """An entry's search trials as its tag says them."""
    return dumps(trials)


def written_down(sweep: Record, entries: Sequence[Record]) -> dict[Key, list[Searched]] | None:
    """The search trials of a sweep that has ended, as its entries say them; None where they do not."""
    if not sweep.finished or not entries:
        return None
    found = {(run.tags.sweep, run.tags.entry_id): run.tags.searched for run in entries}
    known = {
        key: [Searched(*trial) for trial in trials]
        for key, trials in found.items()
        if trials is not None
    }
    return known if len(known) == len(found) else None


def of_replicates(trials: Iterable[Searched]) -> dict[str, list[Searched]]:
    """The trials of each replicate."""
    found: dict[str, list[Searched]] = defaultdict(list)
    for trial in trials:
        found[trial.replicate].append(trial)
    return found


def chosen(trials: Iterable[Searched], source: str) -> float | None:
    """The validation score of the search trial of this id, which final runs repeat."""
    number = TrialId.parse(source)
    same = (
        one for one in trials if (one.number, one.replicate) == (number.index, number.replicate)
    )
    return next((one.value for one in same if not one.confirm), None)
