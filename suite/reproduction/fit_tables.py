"""The tables of a fit: all of a table's rows weigh its readings together."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reports.claims.fit import ComparedNumber, fitted
from reports.claims.weights import (
    REFUTED,
    Array,
    FittedRow,
    Ints,
    Weights,
    left_by_chance,
    recall,
    weigh,
)
from suite.reproduction.fit_rows import FitRow
from suite.reproduction.readings import of_baselines
from trials.common.errors import UserError

MOST = 200_000
"""Readings of a table at most."""


@dataclass(frozen=True)
class TableRates:
    """What a page says of a table: how many readings of all rows together there are, judge and are left, the hash of the
    paper's candidates, how often other numbers would leave a reading, and how often its own seed does.
    """

    table: str
    rows: list[str]
    readings: int
    judging: int
    left: int
    best_p: float
    candidates: str
    left_by_chance: float
    recall: float | None


@dataclass
class FitTable:
    """The rows of one table. `taken` (T, rows): the fit of each row that a reading of the table takes; rows that have the same
    candidates of an open setting take the same one. `judges` (T,): whether none of them is apart.
    """

    rows: Sequence[FitRow]
    taken: Ints
    judges: "np.ndarray[Any, np.dtype[np.bool_]]"

    @classmethod
    def of(cls, rows: Sequence[FitRow]) -> "FitTable":
        """Raises `UserError` where there are too many readings."""
        taken: list[tuple[tuple[int, ...], dict[str, int]]] = [((), {})]
        for row in rows:
            names = of_baselines(row.made)
            keys = {name: _key(row, name) for name in names}
            fits = [
                (g, {keys[name]: row.readings[fit[0]].picks[name] for name in names})
                for g, fit in enumerate(row.groups)
            ]
            taken = [
                ((*before, g), {**picked, **picks})
                for before, picked in taken
                for g, picks in fits
                if all(picked.get(key, pick) == pick for key, pick in picks.items())
            ]
            if len(taken) > MOST:
                raise UserError(
                    f"{row.made.path}: its table has over {MOST} readings; name fewer rows"
                )
        chosen = np.array([of for of, _ in taken], np.int64)
        apart = [np.array([bool(row.tried[fit[0]].apart) for fit in row.groups]) for row in rows]
        judges = ~np.any([a[of] for a, of in zip(apart, chosen.T, strict=True)], axis=0)
        return cls(rows, chosen, judges)

    @property
    def paper_runs(self) -> int:
        """How many runs a printed number is the mean of."""
        return self.rows[0].paper.tables[self.rows[0].made.table].runs

    def kept(self) -> list[tuple[FitRow, int]]:
        """The readings that one seed does not refute, by row. The spread between seeds is that of the default readings, which
        ran with all.
        """
        one_seed = [
            row.after_one_seed(_first(given, len(row.printed)))
            for row, given in zip(self._fitted(), self._found("screened"), strict=True)
        ]
        kept = self.taken[weigh(one_seed, self.taken, self.paper_runs).p >= REFUTED]
        return [
            (row, i)
            for row, column in zip(self.rows, kept.T, strict=True)
            for g in sorted(set(column.tolist()))
            for i in row.groups[g]
        ]

    def weigh(self) -> None:
        """Give every reading of every row its probability and weight."""
        rows = self._fitted()
        everything = weigh(rows, self.taken, self.paper_runs)
        judging = weigh(rows, self.taken[self.judges], self.paper_runs)
        self._tell(Weights(everything.p, np.zeros(len(self.taken))), self.taken)
        self._tell(judging, self.taken[self.judges])

    def _tell(self, found: Weights, taken: Ints) -> None:
        for row, column in zip(self.rows, taken.T, strict=True):
            for g, fit in enumerate(row.groups):
                here = column == g
                judging = [i for i in fit if not row.tried[i].apart]
                for i in fit if here.any() else []:
                    one = row.tried[i]
                    one.p = float(found.p[here].max())
                    one.left = bool(found.left[here].any())
                    share = float(found.weight[here & found.left].sum())
                    one.weight = share / len(judging) if i in judging else 0.0

    def rates(self) -> TableRates:
        """What a page says of the table."""
        rows, judging = self._fitted(), self.taken[self.judges]
        p = weigh(rows, judging, self.paper_runs)
        first = self.rows[0]
        return TableRates(
            first.made.table,
            [row.made.row for row in self.rows],
            len(self.taken),
            len(judging),
            int(p.left.sum()),
            float(p.p.max(initial=0.0)),
            first.paper.candidates_hash,
            left_by_chance(rows, judging, self.paper_runs),
            recall([row.values for row in rows], rows, judging),
        )

    def _fitted(self) -> list[FittedRow]:
        return [
            fitted(row.numbers, row.rounds, found, row.effort.seeds)
            for row, found in zip(self.rows, self._found("compared"), strict=True)
        ]

    def _found(self, stage: str) -> list[list[list[ComparedNumber]]]:
        """What a stage says of each fit of each row."""
        return [[getattr(row.tried[fit[0]], stage) for fit in row.groups] for row in self.rows]


def _first(found: Sequence[Sequence[ComparedNumber]], width: int) -> Array:
    """Each fit's numbers by one seed, NaN where it was not run."""
    return np.array(
        [[one.by_seed.get(0, np.nan) for one in given] or [np.nan] * width for given in found]
    )


def _key(row: FitRow, name: str) -> str:
    """What rows have in common whose open setting has the same candidates."""
    return f"{name}: {json.dumps([c.value for c in row.made.open[name].values], default=str)}"
