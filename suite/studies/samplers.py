"""The samplers of searches: how each is made with Optuna, and what it learns from.

A function in a file can make any other sampler of Optuna's (examples/own_sampler.py). Optuna is loaded only when a
sampler is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from trials.common import plugins
from trials.common.errors import UserError, unknown
from trials.common.files import resolved
from trials.common.lazy import Lazy

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

samplers = Lazy("optuna.samplers")

LAG = 4
"""How many trials of one search may run at once. Trials of other searches fill the machine meanwhile."""
STARTUP = 5
"""How many completed trials TPE and the Gaussian process need. Until then they draw at random."""


@dataclass(frozen=True)
class Sampler:
    """A kind of sampler. `make` returns Optuna's sampler for a seed, and is called anew for each suggestion."""

    make: Callable[[int], "BaseSampler"]
    summary: str
    startup: int | None = None
    """How many results it needs before they shape its suggestions, or None if they never do."""
    uniform: bool = True
    """Whether it draws uniformly before that. The algorithms of a scenario then share their learning rates."""
    prunes: bool = False
    """Whether it learns that a trial was stopped early. Other samplers get such a trial as complete, with its last score."""
    constraints: bool = False
    """Whether it learns from constraints."""
    logs: bool = False
    """Whether it uses distances between scores. It then gets the logarithms of errors, since beside 1e30, the error of a
    diverged trial, all others would look the same.
    """
    grid: bool = False
    """Whether its configurations are the points of a grid, so that Optuna suggests none."""
    line: bool = False
    """Whether it halves gaps between rates (`suite.search.line`), and draws nothing."""


# All arguments are given here, since a new default in Optuna would change results.


def _tpe(seed: int, multivariate: bool = True) -> "BaseSampler":
    """Return Optuna's TPE sampler. If `multivariate`, it models the hyperparameters of a configuration jointly, else one by one."""
    return samplers.TPESampler(
        seed=seed,
        n_startup_trials=STARTUP,
        n_ei_candidates=24,
        multivariate=multivariate,
        group=multivariate,
        constant_liar=False,
    )


def _gp(seed: int) -> "BaseSampler":
    """Return Optuna's Gaussian process sampler, which draws conditional hyperparameters by TPE."""
    return samplers.GPSampler(
        seed=seed,
        n_startup_trials=STARTUP,
        independent_sampler=_tpe(seed, multivariate=False),
        deterministic_objective=False,
        warn_independent_sampling=False,
    )


def _random(seed: int) -> "BaseSampler":
    return samplers.RandomSampler(seed=seed)


SAMPLERS = {
    "tpe": Sampler(
        _tpe,
        "multivariate tree-structured Parzen estimator",
        STARTUP,
        prunes=True,
        constraints=True,
    ),
    "gp": Sampler(
        _gp,
        "Gaussian process (Matérn 5/2), log expected improvement",
        STARTUP,
        constraints=True,
        logs=True,
    ),
    "random": Sampler(_random, "uniformly on each range's scale", prunes=True),
    "grid": Sampler(
        _random,
        "every combination of `grid_points` values of each range",
        uniform=False,
        prunes=True,
        grid=True,
    ),
    "line": Sampler(
        _random,
        "rates by halving gaps between them, all else from one or two settings; nothing is random",
        uniform=False,
        line=True,
    ),
}
OWN_SUMMARY = "any sampler of Optuna's that a function of a seed returns"


def full_name(name: str) -> str:
    """Return a sampler's name, with the path of a user's file made absolute. The file is not run."""
    path, _, function = name.rpartition(":")
    return f"{resolved(path, 'sampler file')}:{function}" if path.endswith(".py") else name


def find_sampler(name: str) -> Sampler:
    """Return a built-in sampler by name, or a user's sampler by `FILE.py:make`. Raise `UserError` if the sampler does not exist."""
    if name in SAMPLERS:
        return SAMPLERS[name]
    path, _, function = full_name(name).rpartition(":")
    if not path.endswith(".py"):
        raise unknown("sampler", name, [*SAMPLERS, "FILE.py:make"])
    module = plugins.imported(f"{path}:{function}", "sampler")
    if not callable(make := getattr(module, function, None)):
        raise UserError(f"sampler file {path} has no function {function!r}")
    first = plugins.tried(f"sampler {name}", partial(make, 0))
    if not isinstance(first, samplers.BaseSampler):
        raise UserError(f"sampler {name} returned {first!r}, not a sampler of Optuna's")
    # Nothing is known of it, so it may learn from the first result, and gets stopped trials as complete.
    return Sampler(make, OWN_SUMMARY, startup=1, uniform=False, constraints=True)


def first_modelled(sampler: Sampler, lag: int) -> int | None:
    """Return the number (from 1) of the first trial that can depend on earlier results (None: no trial).

    The sampler gets the results of trials 1 to n - lag before it suggests trial n. This assumes that no trial fails.
    """
    return None if sampler.startup is None else lag + sampler.startup


def searched_by(name: str, trials: int, lag: int) -> str:
    """Return how a search finds configurations, such as `tpe (models from trial 9 on; budget 20)`. Call the search random if
    it ends before the sampler learns. For a user's sampler return `FILE.py:make`, without running its code.
    """
    if name not in SAMPLERS:
        return name.rpartition("/")[2]
    sampler = SAMPLERS[name]
    plain = "grid search" if sampler.grid else "line search" if sampler.line else "random search"
    first = first_modelled(sampler, lag)
    if first is None:
        return plain
    if first > trials:
        return f"{plain} ({name} models from trial {first} on; budget {trials})"
    return f"{name} (models from trial {first} on; budget {trials})"
