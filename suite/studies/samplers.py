"""Samplers: one class each, which makes Optuna's and says what it learns from.

Any other of Optuna's is made by a function in a file (examples/own_sampler.py). No Optuna is loaded before one is
made.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from trials.common import plugins
from trials.common.errors import UserError, unknown
from trials.common.files import resolved
from trials.common.lazy import Lazy

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

samplers = Lazy("optuna.samplers")

LAG = 4
"""Trials of one entry that may be in flight at once; other entries fill the machine meanwhile."""
STARTUP = 5
"""Completed trials before TPE and the Gaussian process begin to model; random until then."""


class Sampler(ABC):
    """How Optuna's sampler is made, and what the search has to know of it."""

    summary: ClassVar[str] = ""
    startup: int | None = None
    """Trials that it must be told of before results shape what it suggests; None where they never do."""
    uniform = True
    """Whether it draws uniformly before that. Methods of a scenario then share their learning rates."""
    prunes = False
    """Whether it learns from a stopped trial as stopped; others are told of it as complete, with its last value."""
    constraints = False
    """Whether it learns from constraints."""
    logs = False
    """Whether it goes by how far scores are apart. It is then told of errors by their logarithm; beside one
    of 1e30, that of a trial which diverged, all others would be the same to it.
    """
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
class OwnSampler(Sampler):
    """It is taken to learn from the first result on, and told of stopped trials as complete, as any can be."""

    function: Callable[[int], "BaseSampler"]
    summary = "any sampler of Optuna's, which a function of a seed returns"
    startup = 1
    uniform = False
    constraints = True

    def make(self, seed: int) -> "BaseSampler":
        """What the function returns."""
        return self.function(seed)


SAMPLERS: dict[str, Sampler] = {
    "tpe": TPE(),
    "gp": GaussianProcess(),
    "random": Random(),
    "grid": Grid(),
}


def full_name(name: str) -> str:
    """A sampler's name, with the absolute path of a file. No code runs."""
    path, _, function = name.rpartition(":")
    return f"{resolved(path, 'sampler file')}:{function}" if path.endswith(".py") else name


def find_sampler(name: str) -> Sampler:
    """Return the sampler of a name: one of `SAMPLERS`, or `FILE.py:make`. Raises `UserError` where there is none."""
    if name in SAMPLERS:
        return SAMPLERS[name]
    path, _, function = full_name(name).rpartition(":")
    if not path.endswith(".py"):
        raise unknown("sampler", name, [*SAMPLERS, "FILE.py:make"])
    module = plugins.imported(f"{path}:{function}", "sampler")
    if not callable(make := getattr(module, function, None)):
        raise UserError(f"sampler file {path} has no function {function!r}")
    made = plugins.tried(f"sampler {name}", partial(make, 0))
    if not isinstance(made, samplers.BaseSampler):
        raise UserError(f"sampler {name} returned {made!r}, which is no sampler of Optuna's")
    return OwnSampler(make)


def first_modelled(sampler: Sampler, lag: int) -> int | None:
    """The first trial, counted from 1, that results can have shaped; None where none ever does.

    Trial n is suggested from trials 1..n-lag. It is later where trials failed, which do not count, and where
    known configurations come first.
    """
    return None if sampler.startup is None else lag + sampler.startup


def searched_by(name: str, trials: int, lag: int) -> str:
    """How a search finds configurations, in words: a sampler's name only where it comes to model. Code of
    others does not run for them, and a sampler that is not known here is its name.
    """
    if name not in SAMPLERS:
        return name.rpartition("/")[2]
    sampler = SAMPLERS[name]
    plain = "grid search" if sampler.grid else "random search"
    first = first_modelled(sampler, lag)
    if first is None:
        return plain
    if first > trials:
        return f"{plain} ({name} models from trial {first} on; budget {trials})"
    return f"{name} (models from trial {first} on; budget {trials})"
