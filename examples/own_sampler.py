"""A sampler of one's own: TPE that models earlier than the project's, and weighs more candidates.

In a study it is `sampler: examples/own_sampler.py:EarlyTPE`, or `...:EarlyTPE(3)`.

An installed package offers one under a short name with an entry point in its pyproject.toml:

    [project.entry-points."suite.samplers"]
    early_tpe = "my_package.samplers:EarlyTPE"
"""

from dataclasses import dataclass

from optuna.samplers import BaseSampler, TPESampler

from suite.studies.samplers import Sampler


@dataclass(frozen=True)
class EarlyTPE(Sampler):
    """The fields are the arguments of the name: `EarlyTPE(3)` begins to model after 3 trials."""

    summary = "TPE that models after 2 trials, and weighs 96 candidates"

    # What the search asks of a sampler, with the value that most have (`suite.studies.samplers.Sampler`):
    # how many trials it must be told of before it models, and what it learns from.
    startup: int = 2
    prunes = True
    constraints = True

    def make(self, seed: int) -> BaseSampler:
        """Called for each suggestion: all that is random is a function of the seed."""
        return TPESampler(
            seed=seed,
            multivariate=True,
            n_startup_trials=self.startup,
            n_ei_candidates=96,
        )
