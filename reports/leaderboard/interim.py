"""How scenarios stand whose final runs are not all there: by validation only, and never mixed with finals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from trials.run.spec import Scenario
from trials.scoring.metrics import direction, sign

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
    """One algorithm in a scenario that is not over: `best` is the best validation score of its `trials` so far,
    of `planned`, and `params` the configuration that had it; `finals` of `seeds` final runs are there.
    `rank` is None for a reference, and while there is no score.
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


def ranked(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """Standings scenario after scenario, in order of first appearance, best first; those without a score and
    references last.
    """
    scenarios: dict[Ongoing, list[Standing]] = {}
    for one in standings:
        scenarios.setdefault(one.group, []).append(one)
    found: list[Standing] = []
    for scenario in scenarios.values():
        bests = [None if one.reference else one.best for one in scenario]
        metric = next((one.metric for one in scenario if one.metric), "")
        places = ranks(bests, sign(direction(metric)))
        placed = [replace(one, rank=at) for one, at in zip(scenario, places, strict=True)]
        found += sorted(placed, key=lambda one: one.rank or len(placed) + 1)
    return tuple(found)


def ranks(bests: Sequence[float | None], better: int) -> list[int | None]:
    """The rank of each score, equal ones alike; None where there is none. `better`: 1 where more is better."""
    known = [better * best for best in bests if best is not None]
    return [
        None if best is None else 1 + sum(other > better * best for other in known)
        for best in bests
    ]
