"""The clients, choices and runs that the tests of FOLB and the sampling rules share."""

import numpy as np
import pytest

from tests.support.oracle import SEED, selected
from tests.support.simulations import finish, partitioned, settings, simulation
from trials.algorithms import ALGORITHMS
from trials.common.randomness import uniform
from trials.engine.federation import Federation

SIZES, COUNT, MU = [5, 9, 3, 7, 6], 3, 0.3
N, PARTIAL = len(SIZES), COUNT / len(SIZES)
SAMPLING = ["lb_optimal", "lb_norm"]


def multiset(t, stream="select"):
    """COUNT draws with replacement."""
    return np.sort((N * uniform(stream, SEED, t, np.arange(COUNT))).astype(int))


def subset(t, stream="select"):
    """COUNT clients without replacement."""
    return selected(t, N, COUNT) if stream == "select" else second(t)


def second(t):
    return np.sort(np.argsort(uniform("second", SEED, t, np.arange(N)))[:COUNT])


CHOICE = {"with_replacement": multiset, "without_replacement": subset}
chosen = pytest.mark.parametrize("selection", CHOICE)


def ran(name, data=None, level="iid", federation=Federation, params=None, **given):
    algorithm = ALGORITHMS[name](**{"lr": 0.3, "mu": 0.1, **(params or {})})
    return finish(
        simulation(
            algorithm,
            data or partitioned(SIZES),
            settings(**given),
            level=level,
            federation=federation,
        )
    )
