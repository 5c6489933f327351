"""Configurations to try next: what an entry starts from, then what its sampler suggests.

A `Proposer` owns the Optuna study of an entry and gives configuration i: the default configuration, published and warm
ones first, then the sampler's. A sampler is made anew for each suggestion with a seed that is a hash of (study seed,
entry, i), so that all it knows are the trials it was told of, in order of their number: a journal that is replayed
restores these. What a sampler of a person's own notes in Optuna's study besides is not restored.
"""

import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
        self.sampler, self.space, self.words = sampler, space, words
        self.known, self._direction, self._opens = list(known), direction, opens
        self._optuna = optuna.create_study(direction=direction)
        self._numbers: dict[int, int] = {}
        """Optuna's numbers of the configurations that it knows of."""

    def propose(self, index: int) -> InitialConfiguration:
        """Return configuration `index`, the next one."""
        if index < len(self.known):
            self.add(index, self.known[index].params)
            return self.known[index]
        if opening := self._opens(index):
            self._optuna.enqueue_trial(opening)
        return InitialConfiguration("sampled", self._suggest(index))

    def add(self, index: int, params: dict[str, Any]) -> None:
        """Let Optuna know of a configuration it did not suggest, or of a journal, unless it lies outside the space."""
        distributions = self.space.distributions(params)
        if distributions is None:
            return
        self._optuna.add_trial(
            create_trial(state=TrialState.RUNNING, params=params, distributions=distributions)
        )
        self._numbers[index] = len(self._optuna.get_trials(deepcopy=False)) - 1

    def tell(
        self,
        index: int,
        status: Status,
        value: float,
        intermediates: Mapping[int, float],
        excess: Mapping[str, float],
    ) -> None:
        """Tell Optuna how trial `index` ended: its score, that of rounds, and how far each constraint is exceeded (at most 0:
        kept). Nothing is told of one that lies outside the ranges.
        """
        number = self._numbers.get(index)
        if number is None:
            return
        if status == Status.FAILED:
            self._optuna.tell(number, state=TrialState.FAIL)
            return
        if self.sampler.logs and self._direction == "minimize":  # and no error is 0 in a logarithm
            value = math.log(max(value, sys.float_info.min))
        pruned = status == Status.PRUNED and self.sampler.prunes
        excess = excess if self.sampler.constraints else {}
        report(self._optuna, number, intermediates if pruned else {}, excess)
        if pruned:
            self._optuna.tell(number, state=TrialState.PRUNED)
        else:
            self._optuna.tell(number, value)

    def _suggest(self, index: int) -> dict[str, Any]:
        """Return the sampler's configuration, with what was enqueued of it."""
        bits = randomness.bits("sampler", *self.words, index)[0]
        with contained():
            self._optuna.sampler = self.sampler.make(int(bits >> 33))
            trial = self._optuna.ask()
            params = self.space.suggest(trial)
        forget_notes(self._optuna, trial.number)
        self._numbers[index] = trial.number
        return params
