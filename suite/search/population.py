"""Population-based training (Jaderberg et al. 2017), synchronous: an entry's search trials are one
population, which stops several times on its way. At each stop its worst members go on as copies of its
best, with other hyperparameters; what they had before and what they have then is their schedule.

All members have the search's seed and partition. So a copy is what a run of its schedule from round 0
would be at that stop, to the bit, and a checkpoint only spares the work.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from suite.search.trial import Ask, End
from suite.studies.populations import SHARE, stops
from trials import algorithms, randomness, schedule
from trials.algorithm import Range
from trials.outcome import Status

if TYPE_CHECKING:
    from suite.studies.entry import Entry

FACTORS = (0.8, 1.2)
"""What a copied hyperparameter is multiplied by, one or the other."""
RESAMPLED = 0.25
"""How probably it is drawn from its range instead; this, share and factors are Ray's defaults too."""


def folder(search: str, stop: int) -> str:
    """The folder in which the members of a search keep their checkpoints of a stop, below those of the sweep."""
    return f"{search}-r{stop:04d}"


def search_of(name: str) -> str:
    """The search whose stop a folder of this name belongs to; "" for other names."""
    found = re.fullmatch(r"(.+)-r\d{4,}", name)
    return found[1] if found else ""


class Population:
    """The members of one entry, as its asks say what each runs and up to which stop.

    `standing` are the results of those that wait for the others: paused at the stop, or diverged on
    the way to this or an earlier one. A member that crashed for good is out.
    """

    def __init__(self, entry: "Entry", seed: int, size: int, replicate: str = "") -> None:
        self.entry, self.seed, self.size = entry, seed, size
        self.search = "-".join(filter(None, (entry.id, replicate)))
        self.stops = stops(entry.settings)
        self.standing: dict[str, End] = {}

    def next(self, asks: Sequence[Ask], ends: Mapping[str, End]) -> list[Ask]:
        """The asks that members go on with; none while one is on its way to the stop, or when all diverged.

        By validation score at the stop, diverged ones last, of equal ones the earlier: each of the
        worst quarter takes over state and schedule of one of the best quarter, drawn anew for each,
        with other values of its real hyperparameters from the next round on. All others go on as
        they are, but for those that diverged: they stay where they are.
        """
        members = [ask for ask in asks if ask.trial_id not in ends]
        going = [ask for ask in members if self._status(ask) == Status.PAUSED]
        waiting = len(asks) == self.size and len(self.standing) == len(members)
        if not going or not waiting:
            return []
        stop = going[0].until
        assert stop is not None
        then = next((later for later in self.stops if later > stop), None)
        ranked = sorted(members, key=lambda ask: (self._loss(ask), ask.index))
        count = len(members) // SHARE
        best = [ask for ask in ranked[:count] if ask in going]
        lost = ranked[len(ranked) - count :] if best else []
        found = []
        for ask in members:
            if ask in lost:
                words = self.seed, int(self.entry.id, 16), stop, ask.index
                draw = randomness.uniform("population", *words)[0]
                parent = best[int(draw * len(best))]
                params = perturbed(parent.params, self._real, stop, words)
                source = f"{parent.trial_id} at round {stop}"
                ask = replace(ask, origin="evolved", params=params, source=source)
            elif ask in going:
                parent = ask
            else:
                continue
            found.append(replace(ask, parent=parent.trial_id, since=stop, until=then))
        return found

    def lost(self, asks: Sequence[Ask], ends: Mapping[str, End]) -> list[Ask]:
        """The members that diverged and that no stop will replace any more."""
        members = [ask for ask in asks if ask.trial_id not in ends]
        diverged = [ask for ask in members if self._status(ask) == Status.DIVERGED]
        all_did = len(diverged) == len(members) and len(asks) == self.size
        return diverged if all_did or any(ask.until is None for ask in asks) else []

    def leftover(self, asks: Sequence[Ask], ends: Mapping[str, End]) -> list[str]:
        """Folders of checkpoints that nobody needs: of stops before the one that members went on from
        last; when all have ended, of all.
        """
        begun = [ask.since for ask in asks if ask.trial_id not in ends]
        last = max(begun, default=self.entry.settings.rounds)
        return [folder(self.search, stop) for stop in self.stops if stop < last]

    @property
    def _real(self) -> dict[str, Range]:
        """The hyperparameters that a copy changes, and their ranges: real numbers that are searched."""
        own = algorithms.resolve(self.entry.algorithm).ranges()
        return {
            name: found
            for name, found in self.entry.space.ranges.items()
            if name in own and found.type == "float" and found.low != found.high
        }

    def _status(self, ask: Ask) -> Status | None:
        end = self.standing.get(ask.trial_id)
        return None if end is None else end.status

    def _loss(self, ask: Ask) -> float:
        """The score as a loss, less is better; of what diverged, or scored nothing finite, the worst."""
        end = self.standing[ask.trial_id]
        score = end.intermediates.get(ask.until or 0) if end.status == Status.PAUSED else None
        if score is None:
            return float("inf")
        return -self.entry.task.sign * score


def perturbed(
    params: Mapping[str, Any], ranges: Mapping[str, Range], stop: int, words: Sequence[int]
) -> dict[str, Any]:
    """Params as they were up to `stop`, and after it each real one x0.8 or x1.2 of what it was there,
    within its range, or (`RESAMPLED`) drawn from the range on its scale. Draws depend on `words` and
    the hyperparameter's name.
    """
    changed = dict(params)
    for name in ranges.keys() & params.keys():
        spec = ranges[name]
        low, high = spec.low, spec.high
        assert low is not None
        assert high is not None
        resamples, factor, place = (
            randomness.uniform(f"population {draw} {name}", *words)[0]
            for draw in ("resamples", "factor", "place")
        )
        if resamples >= RESAMPLED:
            value = schedule.at(params[name], stop) * FACTORS[int(factor * len(FACTORS))]
        else:
            value = spec.at(place)
        changed[name] = schedule.then(params[name], stop, float(min(max(value, low), high)))
    return changed
