"""Configurations to try next: what an entry starts from, then what its sampler suggests.

A `Proposer` owns the Optuna study of an entry (or of the entries that share one configuration) and gives
configuration i: the default configuration, published and warm ones first, then the sampler's. A sampler is made
anew for each suggestion with a seed that is a hash of (study seed, entry, i), so that all it knows are
the trials it was told of, in order of their number: a journal that is replayed restores these. What a sampler of
a person's own notes in Optuna's study besides is not restored.
"""

import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.trial import TrialState, create_trial

from suite.search.optuna_internals import forget_notes, report
from suite.search.trial import InitialConfiguration
from suite.studies.samplers import Sampler
from suite.studies.space import Space
from trials.common import randomness
from trials.common.plugins import contained
from trials.run.outcome import Status
from trials.scoring.metrics import Direction

optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", category=ExperimentalWarning)


@dataclass(frozen=True)
class Observation:
    """What Optuna is told of a trial: its status, its score, the intermediate values by round, and how far
    each constraint is exceeded (at most 0: kept).
    """

    status: Status
    value: float
    intermediates: Mapping[int, float]
    excess: Mapping[str, float]


class Proposer:
    """Configuration i of an entry, from the trials told so far.

    `direction` is the score's; `words` seed the sampler together with a configuration's number.
    `opens` are values that a configuration of the sampler has by its number, whatever the sampler draws.
    """

    def __init__(
        self,
        sampler: Sampler,
        space: Space,
        known: Sequence[InitialConfiguration],
        direction: Direction,
        words: tuple[int, ...],
        opens: Callable[[int], dict[str, Any]] = lambda index: {},
    ) -> None:
        self._opens = opens
        self.sampler, self.space, self.words = sampler, space, words
        self.known, self._direction = list(known), direction
        self.made: list[InitialConfiguration] = []
        self._optuna = optuna.create_study(direction=direction)
        self._later: list[Callable[[], None]] = []
        self._numbers: dict[int, int] = {}

    def propose(self, index: int) -> InitialConfiguration:
        """Make configuration `index`, the next one."""
        self.catch_up()
        if index < len(self.known):
            made = self.known[index]
            self._add(index, made.params)
        else:
            if given := self._opens(index):
                self._optuna.enqueue_trial(given)
            made = InitialConfiguration("sampled", self._suggest(index))
        self.made.append(made)
        return made

    def catch_up(self) -> None:
        """Let the sampler see what it has not yet: a search that makes nothing more never needs it."""
        later, self._later = self._later, []
        for do in later:
            do()

    def restore(self, index: int, made: InitialConfiguration) -> None:
        """Take over configuration `index` from a journal. The sampler sees it once it has to make one."""
        self.made.append(made)
        self._later.append(partial(self._add, index, made.params))

    def tell(self, index: int, told: Observation) -> None:
        """Tell Optuna how trial `index` ended, before it makes the next configuration; nothing where this one lies
        outside the ranges.
        """
        self._later.append(partial(self._tell, index, told))

    def _tell(self, index: int, told: Observation) -> None:
        if index not in self._numbers:
            return
        number, study = self._numbers[index], self._optuna
        if told.status == Status.FAILED:
            study.tell(number, state=TrialState.FAIL)
            return
        pruned = told.status == Status.PRUNED and self.sampler.prunes
        intermediates = told.intermediates if pruned else {}
        report(study, number, intermediates, told.excess if self.sampler.constraints else {})
        if pruned:
            study.tell(number, state=TrialState.PRUNED)
        else:
            score = told.value
            if self.sampler.logs and self._direction == "minimize":
                score = math.log(max(score, sys.float_info.min))
            study.tell(number, score)

    def _suggest(self, index: int) -> dict[str, Any]:
        """The sampler's configuration, with what was enqueued of it."""
        bits = randomness.bits("sampler", *self.words, index)[0]
        with contained():
            self._optuna.sampler = self.sampler.make(int(bits >> 33))
            trial = self._optuna.ask()
            params = self.space.suggest(trial)
        forget_notes(self._optuna, trial.number)
        self._numbers[index] = trial.number
        return params

    def _add(self, index: int, params: dict[str, Any]) -> None:
        """Let Optuna know of a configuration it did not suggest, unless it lies outside the space."""
        distributions = self.space.distributions(params)
        if distributions is None:
            return
        self._optuna.add_trial(
            create_trial(state=TrialState.RUNNING, params=params, distributions=distributions)
        )
        self._numbers[index] = len(self._optuna.get_trials(deepcopy=False)) - 1


def grid(space: Space, points: int, words: tuple[int, ...]) -> list[dict[str, Any]]:
    """Every configuration of a finite grid, in an order that is shuffled by `words`: all choices, and
    `points` values of each interval, evenly spaced on its scale, both ends included.

    Shuffled, so that a budget smaller than the grid sees all of it thinly instead of a corner.
    """
    found: list[dict[str, Any]] = [{}]
    for name in space.ordered:
        values = space.points(name, points)
        found = [
            {**one, **here}
            for one in found
            for here in (
                [{name: value} for value in values]
                if name in space.active({**one, name: values[0]})
                else [{}]
            )
        ]
    active = [space.active(one) for one in found]
    shuffled = np.argsort(randomness.bits("grid", *words, np.arange(len(active))))
    return [active[i] for i in shuffled]
