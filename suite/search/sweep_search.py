"""The search: which trial is next, in an order that timing cannot change.

A cell hands out its search trials first (anchor, published and warm configurations, then the
sampler's); then, where the study confirms, its best few configurations with further search seeds;
and once all of them have ended, its best configuration again with fresh seeds: the final runs.

Suggestion i depends on the results of trials 0..i-lag only, told to the sampler in index order, and
on a seed that is a hash of (study seed, cell, i). So a sweep without early stopping is the same
whatever runs beside it. Nothing here ever sees a test metric: `end` takes validation scores and
counters.
"""

from collections.abc import Iterable, Mapping, Sequence

from suite.search.candidates import Candidates
from suite.search.cell_search import CellSearch
from suite.search.trial import Ask, End, Known
from suite.studies.cell import Cell
from suite.studies.modelling import LAG, first_modelled, searched_by
from suite.studies.study import Study
from trials.spec import TrialSpec


class SweepSearch:
    """All cells' searches: hands out trials round robin, so that no cell waits for another.

    `warm` are configurations to start from, by cell.
    """

    def __init__(
        self,
        cells: list[Cell],
        study: Study,
        lag: int = LAG,
        warm: Mapping[str, Sequence[Known]] | None = None,
    ) -> None:
        self.study, self.lag = study, lag
        groups: dict[tuple[str, ...], list[Cell]] = {}
        for cell in cells:
            groups.setdefault(cell.group, []).append(cell)
        shared = {group: Candidates(of, study, lag, warm or {}) for group, of in groups.items()}
        self.cells = {cell.id: CellSearch(cell, shared[cell.group]) for cell in cells}
        self.asks: dict[str, Ask] = {}
        self.again: list[Ask] = []
        self._turn = 0

    def replay(
        self, asks: list[Ask], ends: Mapping[str, End], standing: Mapping[str, End] | None = None
    ) -> None:
        """Rebuild from a journal. Of several asks of a trial the last holds; `standing` are those that
        wait where they are. Trials without an end are handed out again, as they were; but runs that
        repeat a search trial only if they still should, now that the sweep may have grown.
        """
        for ask in asks:
            if ask.trial_id in ends:
                self.cells[ask.cell].end(ask.trial_id, ends[ask.trial_id])
        for cell_id, cell in self.cells.items():
            cell.replay(ask for ask in asks if ask.cell == cell_id)
        self.asks = {ask.trial_id: ask for ask in asks}
        for trial_id, end in (standing or {}).items():
            self.stand(trial_id, end)
        waits = {*ends, *(standing or {})}
        unfinished = [ask for ask in self.asks.values() if ask.trial_id not in waits]
        self.again = [ask for ask in unfinished if not self.cells[ask.cell].forget(ask)]

    def next(self) -> tuple[Ask, bool] | None:
        """The next trial and whether it is new; None when there is none now."""
        if self.again:
            return self.again.pop(0), False
        cells = list(self.cells.values())
        for step in range(len(cells)):
            ask = cells[(self._turn + step) % len(cells)].next()
            if ask is not None:
                self._turn = (self._turn + step + 1) % len(cells)
                self.asks[ask.trial_id] = ask
                return ask, True
        return None

    def end(self, trial_id: str, end: End) -> Ask:
        """Take the result of a trial, and give its ask."""
        ask = self.asks[trial_id]
        self.cells[ask.cell].end(trial_id, end)
        return ask

    def stand(self, trial_id: str, end: End) -> None:
        """Note that a member of a population waits for the others."""
        population = self.cells[self.asks[trial_id].cell].population
        assert population is not None
        population.standing[trial_id] = end

    def go_on(self, asks: Iterable[Ask]) -> None:
        """Let members of a population go on as asked: they are handed out before what is new."""
        for ask in asks:
            self.asks[ask.trial_id] = ask
            self.cells[ask.cell].go_on(ask)
            self.again.append(ask)

    @property
    def searched_by(self) -> str:
        """How configurations are found, in words."""
        study = self.study
        return searched_by(study.sampler, study.scheduler, study.trials, self.lag)

    @property
    def warnings(self) -> list[str]:
        """The warnings for whoever starts this search, in words."""
        return [*self.small_grids, *self.unmodelled, *self.outside]

    @property
    def unmodelled(self) -> list[str]:
        """The warning that a sampler which learns has no trial left for it, in words; [] where it has."""
        first = first_modelled(self.study.sampler, self.study.scheduler, self.lag)
        found = [search for search in self.cells.values() if not search.candidates.modelled]
        if first is None or not found:
            return []
        count = f"{len(found)} of {len(self.cells)} cells"
        return [f"{self.searched_by}: 0 modelled suggestions in {count}"]

    @property
    def outside(self) -> list[str]:
        """The algorithms that run under settings which their paper does not assume, in words."""
        found = {s.cell.label: s.cell.outside() for s in self.cells.values() if s.cell.outside()}
        return [f"{name} is shown unranked: {reason}" for name, reason in found.items()]

    @property
    def small_grids(self) -> list[str]:
        """The cells whose grid, with the known configurations, is smaller than the budget, in words."""
        return [
            f"{search.cell.name}: the whole grid is {search.candidates.budget} configurations, fewer "
            f"than the {search.study.trials} trials allowed"
            for search in self.cells.values()
            if search.candidates.budget < search.study.trials
        ]

    @property
    def unmet(self) -> list[str]:
        """The cells of which no configuration keeps the constraints, in words."""
        return [
            f"{search.cell.name}: no configuration keeps the constraints; the one that exceeds them "
            "least was chosen"
            for search in self.cells.values()
            if (best := search.best) is not None
            and not search.candidates.feasible(search.cell, search.ends[best.trial_id])
        ]

    @property
    def planned(self) -> int:
        """How many trials there will be; with two objectives, at most."""
        return sum(cell.planned for cell in self.cells.values())

    @property
    def exhausted(self) -> bool:
        """Whether every trial of every cell has ended."""
        return not self.again and all(cell.done for cell in self.cells.values())

    @property
    def algorithms(self) -> set[str]:
        """The algorithms of all cells."""
        return {cell.cell.algorithm for cell in self.cells.values()}

    def spec(self, ask: Ask) -> TrialSpec:
        """The trial that an ask runs."""
        return self.cells[ask.cell].cell.spec(ask.params, ask.seed, ask.partition_seed)
