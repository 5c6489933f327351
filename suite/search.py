"""The search: one Optuna study per cell, asked and told in an order that timing cannot change.

A cell hands out its search trials first (anchor, published configurations, then the sampler's), and
once all of them have ended, its best configuration again with fresh seeds: the final runs.

Suggestion i depends on the results of trials 0..i-lag only, told to the sampler in index order, and
on a seed that is a hash of (study seed, cell, i). So a sweep without early stopping is the same
whatever runs beside it. Nothing here ever sees a test metric: `end` takes validation scores.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.trial import Trial, TrialState, create_trial

from suite.study import Cell, Study
from trials import randomness
from trials.trial import TrialSpec

optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", category=ExperimentalWarning)

LAG = 4
"""Trials of one cell that may be in flight at once; other cells fill the machine meanwhile."""


@dataclass(frozen=True)
class Ask:
    """A trial to run. `kind` is search or final; `index` counts the cell's trials of that kind.

    `source` is, for a final run, the search trial whose configuration it repeats.
    """

    trial_id: str
    cell: str
    kind: str
    index: int
    origin: str
    params: dict[str, Any]
    seed: int
    partition_seed: int
    source: str | None = None


@dataclass(frozen=True)
class End:
    """How a trial ended: finished, diverged, pruned or failed.

    `value` is its last validation score, `intermediates` maps round to score.
    """

    status: str
    value: float | None
    intermediates: Mapping[int, float] = field(default_factory=dict)


def sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    """A fresh sampler; its seed is all the state it brings."""
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=5)


class CellSearch:
    """The search of one cell: asks, results, and when what is due."""

    def __init__(self, cell: Cell, study: Study, lag: int) -> None:
        self.cell, self.study, self.lag = cell, study, lag
        self.asks: list[Ask] = []
        self.finals: list[Ask] = []
        self.ends: dict[str, End] = {}
        self._optuna = optuna.create_study(direction=cell.task.direction)
        self._numbers: dict[int, int] = {}
        self._told = 0
        self._known = [("anchor", cell.space.anchor())]
        self._known += [("published", cell.space.anchor(p.params)) for p in cell.known]

    @property
    def searching(self) -> bool:
        """Whether search trials are still to be asked or to end."""
        return len(self.asks) < self.study.trials or any(
            a.trial_id not in self.ends for a in self.asks
        )

    @property
    def done(self) -> bool:
        """Whether every search trial and every final run has ended."""
        if self.searching:
            return False
        return self.best is None or all(a.trial_id in self.ends for a in self.current_finals)

    @property
    def best(self) -> Ask | None:
        """The search trial with the best validation score at full rounds; a diverged one only when
        all are. None while there is none.
        """
        sign = 1 if self.cell.task.direction == "maximize" else -1
        scored = [
            (end.status == "finished", sign * self._value(end), -ask.index, ask)
            for ask in self.asks
            if (end := self.ends.get(ask.trial_id)) and end.status in ("finished", "diverged")
        ]
        return max(scored, key=lambda entry: entry[:3])[3] if scored else None

    @property
    def current_finals(self) -> list[Ask]:
        """The final runs of the best configuration, asked or not yet."""
        best = self.best
        if best is None:
            return []
        study, first = self.study, self.cell.settings.partition_seed
        return [
            Ask(
                trial_id=f"{self.cell.id}-f{best.index:04d}-{i}",
                cell=self.cell.id,
                kind="final",
                index=i,
                origin=best.origin,
                params=best.params,
                seed=study.seed + 1 + i,
                partition_seed=first + 1 + i if study.vary_partition else first,
                source=best.trial_id,
            )
            for i in range(study.seeds)
        ]

    def next(self) -> Ask | None:
        """The next trial, or None when there is none now: wait for results, or all is asked."""
        if len(self.asks) < self.study.trials:
            return self._next_search()
        if self.searching:
            return None
        asked = {ask.trial_id for ask in self.finals}
        ask = next((a for a in self.current_finals if a.trial_id not in asked), None)
        if ask is not None:
            self.finals.append(ask)
        return ask

    def end(self, trial_id: str, end: End) -> None:
        """Take a result. The sampler is told later, in index order."""
        self.ends[trial_id] = end

    def replay(self, asks: Iterable[Ask]) -> None:
        """Take over the asks of a journal, whose `ends` are known already."""
        for ask in asks:
            if ask.kind == "final":
                self.finals.append(ask)
            else:
                self._tell(ask.index - self.lag)
                self._add(ask.index, ask.params)
                self.asks.append(ask)

    def _next_search(self) -> Ask | None:
        i = len(self.asks)
        due = self.asks[: max(0, i - self.lag + 1)]
        if any(ask.trial_id not in self.ends for ask in due):
            return None
        self._tell(i - self.lag)
        if i < len(self._known):
            origin, params = self._known[i]
            self._add(i, params)
        else:
            words = (self.study.seed, int(self.cell.id, 16), i)
            self._optuna.sampler = sampler(
                self.study.sampler, int(randomness.bits("sampler", *words)[0] >> 33)
            )
            trial = self._optuna.ask()
            origin, params = "sampled", self.cell.space.suggest(trial)
            self._numbers[i] = trial.number
        self.asks.append(
            Ask(
                trial_id=f"{self.cell.id}-s{i:04d}",
                cell=self.cell.id,
                kind="search",
                index=i,
                origin=origin,
                params=params,
                seed=self.study.seed,
                partition_seed=self.cell.settings.partition_seed,
            )
        )
        return self.asks[-1]

    def _add(self, index: int, params: dict[str, Any]) -> None:
        """Let Optuna know of a configuration it did not suggest, unless it lies outside the space."""
        distributions = self.cell.space.distributions(params)
        if distributions is None:
            return
        self._optuna.add_trial(
            create_trial(state=TrialState.RUNNING, params=params, distributions=distributions)
        )
        self._numbers[index] = len(self._optuna.get_trials(deepcopy=False)) - 1

    def _tell(self, last: int) -> None:
        """Tell the results of trials up to `last`, each once, in index order."""
        while self._told <= last:
            index, self._told = self._told, self._told + 1
            if index not in self._numbers:
                continue
            number, end = self._numbers[index], self.ends[self.asks[index].trial_id]
            if end.status == "failed":
                self._optuna.tell(number, state=TrialState.FAIL)
            elif end.status == "pruned":
                frozen = self._optuna.get_trials(deepcopy=False)[number]
                trial = Trial(self._optuna, frozen._trial_id)
                for step, value in end.intermediates.items():
                    trial.report(value, step)
                self._optuna.tell(number, state=TrialState.PRUNED)
            else:
                self._optuna.tell(number, self._value(end))

    def _value(self, end: End) -> float:
        if end.status == "diverged" or end.value is None:
            return self.cell.task.worst
        return end.value


class SweepSearch:
    """All cells' searches: hands out trials round robin, so that no cell waits for another."""

    def __init__(self, cells: list[Cell], study: Study, lag: int = LAG) -> None:
        self.lag = lag
        self.cells = {cell.id: CellSearch(cell, study, lag) for cell in cells}
        self.asks: dict[str, Ask] = {}
        self.again: list[Ask] = []
        self._turn = 0

    def replay(self, asks: list[Ask], ends: Mapping[str, End]) -> None:
        """Rebuild from a journal; trials without an end are handed out again, as they were."""
        for ask in asks:
            if ask.trial_id in ends:
                self.cells[ask.cell].end(ask.trial_id, ends[ask.trial_id])
        for cell_id, cell in self.cells.items():
            cell.replay(ask for ask in asks if ask.cell == cell_id)
        self.asks = {ask.trial_id: ask for ask in asks}
        self.again = [ask for ask in asks if ask.trial_id not in ends]

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
        """Take a result; the trial it belongs to."""
        ask = self.asks[trial_id]
        self.cells[ask.cell].end(trial_id, end)
        return ask

    @property
    def exhausted(self) -> bool:
        """Whether every trial of every cell has ended."""
        return not self.again and all(cell.done for cell in self.cells.values())

    def spec(self, ask: Ask) -> TrialSpec:
        """What an ask runs."""
        return self.cells[ask.cell].cell.spec(ask.params, ask.seed, ask.partition_seed)
