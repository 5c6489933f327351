"""The clients, masks and runs that the tests of SAFL's descendants share."""

from itertools import accumulate, islice

import numpy as np
import pytest

from tests.support.oracle import LR, SEED, D, agrees
from tests.support.simulations import partitioned, settings, simulation
from trials.algorithms import ALGORITHMS
from trials.common.randomness import uniform
from trials.engine.federation import Federation

SIZES = [5, 9, 3, 7, 6]
N = len(SIZES)
EPSILON, L = 0.3, 5.0
started = pytest.mark.parametrize("init", ["own", "common"])


def mask(t, k, epsilon, d=D, L=L):
    """u_t of client k, per weight."""
    return np.where(uniform("anneal", SEED, t, k, np.arange(d)) < np.exp(-t / L), epsilon, 1.0)


def run_of(
    name, init="common", count=N, sizes=SIZES, federation=Federation, model="logreg", **given
):
    """A simulation with `given` hyperparameters and settings, at round 0."""
    own = {field for field in ALGORITHMS[name].__dataclass_fields__ if field in given}
    params = {"lr": LR, **{field: given.pop(field) for field in own}}
    common = settings(init=init, participation=count / len(sizes), **given)
    data = partitioned(sizes)
    return simulation(
        ALGORITHMS[name](**params), data, common, model, seed=SEED, federation=federation
    )


def follows(run, oracle):
    """Assert that w and the clients' uploads are the oracle's."""
    told = list(islice(oracle, run.fed.settings.rounds))
    agrees(run, [w for w, _ in told], least=0)
    uploads = [entry["clients_uploaded"] for entry in run.history[1:]]
    assert uploads == list(accumulate(sent for _, sent in told))


def first(oracle, count=5):
    return [next(oracle)[0] for _ in range(count)]
