"""The rows of a fit: their readings, what each is to run, and what came out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from reports.claims.fit import Explained, Numbers, baselines_numbers, misfit, rounds_needed
from reports.claims.judged import JudgedEntry, Said
from reports.claims.metrics import BEST
from suite.reproduction.experiments import SCORED, Experiment
from suite.reproduction.paper import Paper
from suite.reproduction.plan import Effort, Planned, plan_of
from suite.reproduction.readings import Reading, of_baselines, parts, read, readings

KEPT = 4
"""One in so many screened fits of the baselines is run with all seeds."""


@dataclass
class TriedReading:
    """A reading of a row: its number, its values by open setting, and what came out. `screened` is of one
    seed, `explained` of all; `numbers` and `claims` are of the paper's own methods.
    """

    number: int
    values: dict[str, Any]
    screened: list[Explained] = field(default_factory=list)
    explained: list[Explained] = field(default_factory=list)
    numbers: list[JudgedEntry] = field(default_factory=list)
    claims: list[Said] = field(default_factory=list)
    alike: list[int] = field(default_factory=list)
    """Further readings that a report tells of with this one, whatever their values in what is no baseline's."""

    @property
    def misfit(self) -> float | None:
        """How far the baselines' numbers are off in the mean, in tolerances, by all seeds that ran."""
        found = self.explained or self.screened
        return misfit(found) if found else None

    @property
    def explains(self) -> bool:
        """Whether every baseline's number is reproduced by all seeds, and in the printed order."""
        return bool(self.explained) and all(one.explained for one in self.explained)


@dataclass
class FitRow:
    """A row that is fitted. `numbers` are the baselines' only."""

    paper: Paper
    made: Experiment
    effort: Effort
    numbers: Numbers
    readings: list[Reading]
    tried: list[TriedReading]
    seconds: float = 0.0

    @classmethod
    def of(cls, paper: Paper, made: Experiment, effort: Effort) -> Self:
        """A row with nothing run yet."""
        found = readings(made)
        given = [parts(n, v) for r in found for n, v in r.values(made).items()]
        numbers = baselines_numbers(
            paper.tables[made.table].rows[made.row].numbers, made.own | _absent(paper, made)
        )
        return cls(
            paper,
            made,
            replace(effort, every_round=any(keys.get(SCORED) == BEST for keys in given)),
            numbers,
            found,
            [TriedReading(i, r.values(made)) for i, r in enumerate(found, 1)],
        )

    def plan(self, index: int, own: bool, effort: Effort) -> Planned:
        """The runs of the paper's own methods, or of its baselines, under a reading."""
        made = read(self.made, self.readings[index])
        methods = {m: c for m, c in made.methods.items() if (m in made.own) == own}
        return plan_of(self.paper, replace(made, methods=methods), effort)

    def screen(self, index: int) -> Planned:
        """The baselines' runs with one seed, as long as a number could be met."""
        methods = read(self.made, self.readings[index]).methods
        rounds = max(c.rounds for m, c in methods.items() if m not in self.made.own)
        needed = rounds_needed(self.numbers, rounds)
        return self.plan(index, False, replace(self.effort, seeds=1, rounds=needed))

    def full(self, index: int) -> Planned:
        """The baselines' runs with all seeds."""
        return self.plan(index, False, self.effort)

    def method(self, index: int) -> Planned:
        """The runs of the paper's own methods."""
        return self.plan(index, True, self.effort)

    @property
    def why_not(self) -> str:
        """Why there is nothing to fit; "" where there is."""
        if not self.numbers:
            return "no number of a baseline is printed, so there is nothing to fit a reading on"
        return "" if len(self.readings) > 1 else "its file declares no open setting"

    @property
    def kept(self) -> list[int]:
        """The readings that are run with all seeds, best first: a quarter of the screened ones that differ
        for the baselines, and the default, each with those that fit alike.
        """
        screened = [fit for fit in self.alike if self.tried[fit[0]].screened]
        ranked = sorted(screened, key=lambda fit: (misfit(self.tried[fit[0]].screened), fit))
        best = ranked[: math.ceil(len(ranked) / KEPT)]
        best += [fit for fit in screened if 0 in fit and fit not in best]
        return [i for fit in best for i in fit if self.tried[i].screened]

    @property
    def alike(self) -> list[list[int]]:
        """The readings in groups under which baselines run alike."""
        shared = of_baselines(self.made)
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, reading in enumerate(self.readings):
            groups.setdefault(tuple(reading.picks[name] for name in shared), []).append(i)
        return list(groups.values())

    @property
    def told(self) -> list[TriedReading]:
        """What a report tells of the readings, the nearest first: of each that explains the baselines, and of
        others with those that fit alike.
        """
        shared = of_baselines(self.made)
        found = []
        for fit in self.alike:
            first, *others = (self.tried[i] for i in fit)
            if first.explains:
                found += [first, *others]
            else:
                values = {name: first.values[name] for name in shared}
                found.append(replace(first, values=values, alike=[one.number for one in others]))
        fitted = [(t.misfit, t.number, t) for t in found if t.misfit is not None]
        return [t for _, _, t in sorted(fitted)]

    @property
    def explaining(self) -> list[int]:
        """The readings that explain the baselines."""
        return [i for i, t in enumerate(self.tried) if t.explains]


def _absent(paper: Paper, made: Experiment) -> set[str]:
    """The table's methods that this row does not run."""
    return paper.tables[made.table].methods.keys() - made.methods.keys()


def of_methods(numbers: Numbers, methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The printed numbers of some methods."""
    found = {
        name: {m: n for m, n in column.items() if m in methods} for name, column in numbers.items()
    }
    return {name: column for name, column in found.items() if column}
