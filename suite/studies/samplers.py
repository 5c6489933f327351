"""Samplers: one class each, which makes Optuna's and says what it learns from.

A sampler is a frozen dataclass whose fields are the arguments of its name. A new one is a class and an entry of
`SAMPLERS`, or a class in a file elsewhere (examples/own_sampler.py). No Optuna is loaded before one is made.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from trials.common import names, plugins
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.common.registry import Registry

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

samplers = Lazy("optuna.samplers")
nsgaii = Lazy("optuna.samplers.nsgaii")

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


class Sampler(ABC):
    """How Optuna's sampler is made, and what the search has to know of it."""

    summary: ClassVar[str] = ""
    startup: int | None = None
    """Trials that it must be told of before results shape what it suggests; None where they never do."""
    own = False
    """Whether only those trials count that it suggested itself."""
    uniform = True
    """Whether it draws uniformly before that. Methods of a scenario then share their learning rates."""
    prunes = False
    """Whether it learns from a stopped trial as stopped; others are told of it as complete, with its last value."""
    notes = False
    """Whether it keeps notes on trials in Optuna's study, which are written again on a resume."""
    constraints = False
    """Whether it learns from constraints."""
    logs = False
    """Whether it goes by how far scores are apart. It is then told of errors by their logarithm; beside one
    of 1e30, that of a trial which diverged, all others would be the same to it.
    """
    two_objectives = True
    """Whether it can search two objectives."""
    second: ClassVar[str | None] = None
    """The cost that is its second objective where the study names none."""
    grid = False
    """Whether it tries the points of a grid in order, and suggests none itself."""

    @abstractmethod
    def make(self, seed: int) -> "BaseSampler":
        """Optuna's sampler, a function of the seed: it is made anew for each suggestion."""


def _tpe(seed: int, multivariate: bool) -> "BaseSampler":
    """Make Optuna's TPE with all that has a default named: a new version's default would change numbers."""
    return samplers.TPESampler(
        seed=seed,
        n_startup_trials=STARTUP,
        n_ei_candidates=24,
        multivariate=multivariate,
        group=multivariate,
        constant_liar=False,
    )


@dataclass(frozen=True)
class TPE(Sampler):
    """Multivariate; conditional hyperparameters in groups."""

    summary = "multivariate tree-structured Parzen estimator"
    startup = STARTUP
    prunes = constraints = True

    def make(self, seed: int) -> "BaseSampler":
        """Optuna's `TPESampler`."""
        return _tpe(seed, multivariate=True)


@dataclass(frozen=True)
class GaussianProcess(Sampler):
    """Conditional hyperparameters are TPE's."""

    summary = "Gaussian process (Matérn 5/2), log expected improvement"
    startup = STARTUP
    constraints = logs = True

    def make(self, seed: int) -> "BaseSampler":
        """Optuna's `GPSampler`."""
        return samplers.GPSampler(
            seed=seed,
            n_startup_trials=STARTUP,
            independent_sampler=_tpe(seed, multivariate=False),
            deterministic_objective=False,
            warn_independent_sampling=False,
        )


@dataclass(frozen=True)
class CMAES(Sampler):
    """Conditional hyperparameters and choices are TPE's."""

    summary = "CMA-ES, from the middle of the ranges"
    startup = SMALLEST
    own = notes = True
    uniform = two_objectives = False

    def make(self, seed: int) -> "BaseSampler":
        """Optuna's `CmaEsSampler`."""
        return samplers.CmaEsSampler(
            seed=seed,
            independent_sampler=samplers.TPESampler(seed=seed, n_startup_trials=STARTUP),
            warn_independent_sampling=False,
        )


@dataclass(frozen=True)
class Random(Sampler):
    """The control."""

    summary = "uniformly on each range's scale"
    prunes = True

    def make(self, seed: int) -> "BaseSampler":
        """Optuna's `RandomSampler`."""
        return samplers.RandomSampler(seed=seed)


@dataclass(frozen=True)
class Grid(Random):
    """Its points are known, and Optuna is told of them like of the default configuration."""

    summary = "every combination of `grid_points` values of each range"
    grid = True
    uniform = False


@dataclass(frozen=True)
class NSGA2(Sampler):
    """With the crossover and mutation of Deb et al. 2002. Optuna's own mutate one hyperparameter in d
    to a uniform value: of a learning rate alone that is random search.
    """

    summary = "NSGA-II with simulated binary crossover and polynomial mutation"
    startup = POPULATION
    notes = constraints = True
    second = "uploaded_bytes"

    def make(self, seed: int) -> "BaseSampler":
        """Optuna's `NSGAIISampler`."""
        return samplers.NSGAIISampler(
            seed=seed,
            population_size=POPULATION,
            crossover=nsgaii.SBXCrossover(),
            mutation=nsgaii.PolynomialMutation(),
        )


SAMPLERS: Registry[Sampler] = Registry(
    "sampler",
    "suite.samplers",
    Sampler,  # type: ignore[type-abstract]
    {
        "tpe": TPE,
        "gp": GaussianProcess,
        "cmaes": CMAES,
        "random": Random,
        "grid": Grid,
        "nsga2": NSGA2,
    },
    needs=("make",),
)


def first_modelled(sampler: Sampler, lag: int) -> int | None:
    """The first trial, counted from 1, that results can have shaped; None where none ever does.

    Trial n is suggested from trials 1..n-lag. It is later where trials failed, which do not count, where
    known configurations come first, and for CMA-ES of several hyperparameters.
    """
    if sampler.startup is None:
        return None
    return lag + sampler.startup + lag * sampler.own


def searched_by(name: str, trials: int, lag: int) -> str:
    """How a search finds configurations, in words: a sampler's name only where it comes to model. Code of
    others does not run for them, and a sampler that is not known here is its name.
    """
    short = names.split(name)[0].rpartition(":")[2]
    if plugins.named(name):
        return short
    try:
        sampler = SAMPLERS.parse(name)
    except UserError:
        return short
    plain = "grid search" if sampler.grid else "random search"
    first = first_modelled(sampler, lag)
    if first is None:
        return plain
    if first > trials:
        return f"{plain} ({name} models from trial {first} on; budget {trials})"
    return f"{name} (models from trial {first} on; budget {trials})"
