"""What a sampler suggests next: the Optuna study of one entry, and all that it is told.

A sampler is made anew for each suggestion with a seed that is a hash of (study seed, entry, i), so that all it knows are
the trials it was told of, in order of their number: a journal that is replayed restores these. What a sampler of a
person's own notes in Optuna's study besides is not restored.
"""

import math
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.trial import TrialState, create_trial

from suite.search.optuna_internals import forget_notes, report
from suite.search.trial import ValidationResult
from suite.studies.samplers import Sampler
from suite.studies.space import Space
from trials.common import randomness
from trials.common.plugins import contained
from trials.run.outcome import Status
from trials.scoring.metrics import Direction

optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", category=ExperimentalWarning)


class Proposer:
    """Optuna's view of an entry's trials; `direction` is the score's, `words` seed the sampler together with a trial's number."""

    def __init__(
        self, sampler: Sampler, space: Space, direction: Direction, words: tuple[int, ...]
    ) -> None:
        self.sampler, self.space, self.words, self._direction = sampler, space, words, direction
        self._optuna = optuna.create_study(direction=direction)
        self._numbers: dict[int, int] = {}
        """Optuna's numbers of the trials that it knows of."""

    def suggest(self, index: int, opening: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of trial `index`, with the values of `opening` whatever the sampler draws."""
        if opening:
            self._optuna.enqueue_trial(dict(opening))
        bits = randomness.bits("sampler", *self.words, index)[0]
        with contained():
            self._optuna.sampler = self.sampler.make(int(bits >> 33))
            trial = self._optuna.ask()
            params = self.space.suggest(trial)
        forget_notes(self._optuna, trial.number)
        self._numbers[index] = trial.number
        return params

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
        self, index: int, end: ValidationResult, value: float, excess: Mapping[str, float]
    ) -> None:
        """Tell Optuna how trial `index` ended, with the score `value`, and how far each constraint is exceeded (at most 0:
        kept). Nothing is told of one that lies outside the ranges.
        """
        number = self._numbers.get(index)
        if number is None:
            return
        if end.status == Status.FAILED:
            self._optuna.tell(number, state=TrialState.FAIL)
            return
        if self.sampler.logs and self._direction == "minimize":  # and no error is 0 in a logarithm
            value = math.log(max(value, sys.float_info.min))
        pruned = end.status == Status.PRUNED and self.sampler.prunes
        excess = excess if self.sampler.constraints else {}
        report(self._optuna, number, end.intermediates if pruned else {}, excess)
        if pruned:
            self._optuna.tell(number, state=TrialState.PRUNED)
        else:
            self._optuna.tell(number, value)
