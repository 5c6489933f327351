"""Samplers: which of Optuna's there are, and what each learns from.

Any other of Optuna's is made by a function in a file (examples/own_sampler.py). No Optuna is loaded before one is
made.
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
"""Trials of one entry that may be in flight at once; other entries fill the machine meanwhile."""
STARTUP = 5
"""Completed trials before TPE and the Gaussian process begin to model; random until then."""


@dataclass(frozen=True)
class Sampler:
    """How Optuna's sampler is made of a seed, anew for each suggestion, and what the search has to know of it."""

    make: Callable[[int], "BaseSampler"]
    summary: str
    startup: int | None = None
    """Trials that it must be told of before results shape what it suggests; None where they never do."""
    uniform: bool = True
    """Whether it draws uniformly before that. Methods of a scenario then share their learning rates."""
    prunes: bool = False
    """Whether it learns from a stopped trial as stopped; others are told of it as complete, with its last value."""
    constraints: bool = False
    """Whether it learns from constraints."""
    logs: bool = False
    """Whether it uses distances between scores. It then gets the logarithm of errors: beside 1e30, the error of a
    diverged trial, all others would look the same.
    """
    grid: bool = False
    """Whether it tries the points of a grid in order, and suggests none itself: Optuna is told of them like of the
    default configuration.
    """
    line: bool = False
    """Whether it halves gaps between rates (`suite.search.line`), and draws nothing."""


# Whatever has a default in Optuna is named: a new version's default would change numbers.


def _tpe(seed: int, multivariate: bool = True) -> "BaseSampler":
    """Return TPE, with conditional hyperparameters in groups where it is multivariate."""
    return samplers.TPESampler(
        seed=seed,
        n_startup_trials=STARTUP,
        n_ei_candidates=24,
        multivariate=multivariate,
        group=multivariate,
        constant_liar=False,
    )


def _gp(seed: int) -> "BaseSampler":
    """Return a Gaussian process, whose conditional hyperparameters are TPE's."""
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
        "rates by halving gaps on a line, all else from one or two settings; nothing is drawn",
        uniform=False,
        line=True,
    ),
}
OWN_SUMMARY = "any sampler of Optuna's, which a function of a seed returns"


def full_name(name: str) -> str:
    """Return a sampler's name, with the absolute path of a file. No code runs."""
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
    first = plugins.tried(f"sampler {name}", partial(make, 0))
    if not isinstance(first, samplers.BaseSampler):
        raise UserError(f"sampler {name} returned {first!r}, which is no sampler of Optuna's")
    # It is taken to learn from the first result on, and told of stopped trials as complete, as any can be.
    return Sampler(make, OWN_SUMMARY, startup=1, uniform=False, constraints=True)


def first_modelled(sampler: Sampler, lag: int) -> int | None:
    """Return the first trial, counted from 1, that results can have shaped; None where none ever does.

    Trial n is suggested from trials 1..n-lag. It is later where trials failed, which do not count, and where
    known configurations come first.
    """
    return None if sampler.startup is None else lag + sampler.startup


def searched_by(name: str, trials: int, lag: int) -> str:
    """Return in words how a search finds configurations; a sampler is named only where it comes to model. No third-party
    code runs; an unknown sampler is named as it is.
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
