"""From which trial on a sampler models what it was told, and what a search that never does is called."""

from dataclasses import dataclass

LAG = 4
"""Trials of one entry that may be in flight at once; other entries fill the machine meanwhile."""


STARTUP = 5
"""Completed trials before TPE and the Gaussian process begin to model; random until then."""


SMALLEST = 4
"""Trials of its own that CMA-ES moves its distribution by, of one hyperparameter; more of several."""


POPULATION = 10
"""Trials in a generation of NSGA-II: Optuna's 50 would be most of a budget. Known configurations are
in the first.
"""


@dataclass(frozen=True)
class Learns:
    """`startup`: trials that a sampler must be told of before results shape what it suggests; `own`: only
    those count that it suggested itself.
    """

    startup: int
    own: bool = False


LEARNING = {
    "tpe": Learns(STARTUP),
    "gp": Learns(STARTUP),
    "cmaes": Learns(SMALLEST, own=True),
    "nsga2": Learns(POPULATION),
}
"""The samplers that learn; what others suggest no result ever shapes."""


def first_modelled(sampler: str, lag: int) -> int | None:
    """The first trial, counted from 1, that results can have shaped; None where none ever does.

    Trial n is suggested from trials 1..n-lag. It is later where trials failed, which do not count, where
    known configurations come first, and for CMA-ES of several hyperparameters.
    """
    how = LEARNING.get(sampler)
    if how is None:
        return None
    return lag + how.startup + (lag if how.own else 0)


def searched_by(sampler: str, trials: int, lag: int) -> str:
    """How a search finds configurations, in words: a sampler's name only where it comes to model."""
    plain = "grid search" if sampler == "grid" else "random search"
    first = first_modelled(sampler, lag)
    if first is None:
        return plain
    if first > trials:
        return f"{plain} ({sampler} models from trial {first} on; budget {trials})"
    return f"{sampler} (models from trial {first} on; budget {trials})"
