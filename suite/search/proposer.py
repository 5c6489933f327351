"""The suggestions of a sampler for one search, from an Optuna study of the search's trials.

Each suggestion has a new sampler, seeded by a hash of (study seed, entry, trial number). It therefore depends only on the
results in the Optuna study, which a replayed journal restores in order. Notes that a sampler of a person's own writes into
the Optuna study are not restored.
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
    """The Optuna study of one search, with the `direction` of its scores. The integers `words` seed its samplers."""

    def __init__(
        self, sampler: Sampler, space: Space, direction: Direction, words: tuple[int, ...]
    ) -> None:
        self.sampler, self.space, self.words, self._direction = sampler, space, words, direction
        self._optuna = optuna.create_study(direction=direction)
        self._numbers: dict[int, int] = {}
        """Optuna's number of each of its trials, by the trial's number in the search."""

    def suggest(self, index: int, opening: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sampler's configuration for trial `index`. Values in `opening` are fixed, and the sampler suggests the others."""
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
        """Add trial `index` with the configuration `params` to the Optuna study. Skip `params` outside the search space."""
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
        """Report the result of trial `index` to Optuna. `value` is its score, and `excess` has the amount above each
        constraint, at most 0 if the constraint is kept. Skip a trial that Optuna does not know.
        """
        number = self._numbers.get(index)
        if number is None:
            return
        if end.status == Status.FAILED:
            self._optuna.tell(number, state=TrialState.FAIL)
            return
        if self.sampler.logs and self._direction == "minimize":  # 0 has no logarithm
            value = math.log(max(value, sys.float_info.min))
        pruned = end.status == Status.PRUNED and self.sampler.prunes
        excess = excess if self.sampler.constraints else {}
        report(self._optuna, number, end.intermediates if pruned else {}, excess)
        if pruned:
            self._optuna.tell(number, state=TrialState.PRUNED)
        else:
            self._optuna.tell(number, value)
