"""The rows of a fit: their readings, what each is to run, and what came out."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from reports.claims.chances import Sample
from reports.claims.fit import ComparedNumber, Numbers, baselines_numbers, misfit, rounds_needed
from reports.claims.judged import JudgedEntry, Said
from reports.claims.metrics import BEST
from suite.reproduction.experiments import SCORED, Experiment
from suite.reproduction.paper import Paper
from suite.reproduction.plan import Effort, Planned, plan_of
from suite.reproduction.readings import Reading, of_baselines, parts, read, readings


@dataclass
class TriedReading:
    """A reading of a row: its number, its values by open setting, `apart` where it judges nothing, and what came out.
    `screened` is of one seed, `compared` of all; `p` and `weight` are its best table's probability and its share of all
    weight; `numbers`, `claims` and the latter's `samples` are of the paper's own methods.
    """

    number: int
    values: dict[str, Any]
    apart: str = ""
    screened: list[ComparedNumber] = field(default_factory=list)
    compared: list[ComparedNumber] = field(default_factory=list)
    p: float = 0.0
    weight: float = 0.0
    left: bool = False
    numbers: list[JudgedEntry] = field(default_factory=list)
    claims: list[Said] = field(default_factory=list)
    samples: list[Sample | None] = field(default_factory=list)
    """Of the claims; None for one that is only shown."""
    alike: list[int] = field(default_factory=list)
    """Further readings that a report tells of with this one, whatever their values in what is no baseline's."""

    @property
    def misfit(self) -> float | None:
        """How far the baselines' numbers are off in the mean, in tolerances, by all seeds that ran."""
        found = self.compared or self.screened
        return misfit(found) if found else None


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
            [TriedReading(i, r.values(made), r.apart(made)) for i, r in enumerate(found, 1)],
        )

    def plan(self, index: int, own: bool, effort: Effort) -> Planned:
        """The runs of the paper's own methods, or of its baselines, under a reading."""
        made = read(self.made, self.readings[index])
        methods = {m: c for m, c in made.methods.items() if (m in made.own) == own}
        return plan_of(self.paper, replace(made, methods=methods), effort)

    @cached_property
    def rounds(self) -> int:
        """After how many rounds a baseline's run can no longer meet any number, under any reading."""
        made = (read(self.made, reading).methods for reading in self.readings)
        most = max(
            c.rounds for methods in made for m, c in methods.items() if m not in self.made.own
        )
        return self.effort.cut(rounds_needed(self.numbers, most))

    def screen(self, index: int) -> Planned:
        """The baselines' runs with one seed, as long as a number could be met."""
        return self.plan(index, False, replace(self.effort, seeds=1, rounds=self.rounds))

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

    @cached_property
    def groups(self) -> list[list[int]]:
        """The readings in groups under which baselines run alike, each with those that judge first."""
        shared = of_baselines(self.made)
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, reading in enumerate(self.readings):
            groups.setdefault(tuple(reading.picks[name] for name in shared), []).append(i)
        return [
            sorted(fit, key=lambda i: (bool(self.tried[i].apart), i)) for fit in groups.values()
        ]

    @property
    def told(self) -> list[TriedReading]:
        """What a report tells of the readings, the most probable first: of each that is left, and of others
        with those under which baselines run alike.
        """
        shared = of_baselines(self.made)
        found = []
        for fit in self.groups:
            first, *others = (self.tried[i] for i in fit)
            if first.left:
                found += [first, *others]
            else:
                values = {name: first.values[name] for name in shared}
                found.append(replace(first, values=values, alike=[one.number for one in others]))
        ran = [one for one in found if one.misfit is not None]
        return sorted(ran, key=lambda one: (-one.weight, -one.p, one.misfit, one.number))

    @property
    def left(self) -> list[int]:
        """The readings that the table does not rule out, and that judge."""
        return [i for i, t in enumerate(self.tried) if t.left and not t.apart]


def _absent(paper: Paper, made: Experiment) -> set[str]:
    """The table's methods that this row does not run."""
    return paper.tables[made.table].methods.keys() - made.methods.keys()


def of_methods(numbers: Numbers, methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The printed numbers of some methods."""
    found = {
        name: {m: n for m, n in column.items() if m in methods} for name, column in numbers.items()
    }
    return {name: column for name, column in found.items() if column}
