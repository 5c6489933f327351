"""How scenarios stand whose final runs are not all there: by validation only, and never mixed with finals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from trials.run.spec import Scenario

MARK = "interim, validation only"
"""Beside the title of every such table."""
ABOUT = (
    "Interim: the best validation score of the search so far, of one seed, which flatters who had more "
    "trials. Ranks count once all final runs of a scenario are there."
)


class Ongoing(NamedTuple):
    """The sweep and the address of a scenario that is not over."""

    sweep: str
    scenario: Scenario


@dataclass(frozen=True)
class Standing:
    """One algorithm in a scenario that is not over: `best` is the best validation score of its `trials` so far, of
    `planned`, by `params`; `finals` of `seeds` final runs are there. `rank` is None for a reference and without a score.
    """

    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    metric: str
    rank: int | None
    best: float | None
    trials: int
    planned: int
    finals: int
    seeds: int
    params: Mapping[str, Any]
    reference: bool
    sweep: str
    study: str
    entry_id: str

    @property
    def group(self) -> Ongoing:
        """What standings must share to be ranked together."""
        return Ongoing(self.sweep, Scenario.of(self))
