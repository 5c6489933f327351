"""FedAgg in plain NumPy. L local epochs, l = 0..L-1 an epoch, k = 1..L its end."""

from functools import cache

import numpy as np
import pytest

from tests.support.oracle import EXECUTIONS, LR, SEED, clients, gradient, initial, selected, shares
from tests.support.simulations import partitioned, settings, simulation
from trials.algorithms import ALGORITHMS
from trials.common.randomness import uniform
from trials.engine.federation import Federation
from trials.engine.training import minibatches

SIZES, L, BATCH = [5, 9, 3, 7, 6], 3, 4
N = len(SIZES)
DATA = partitioned(SIZES)
PARTS = list(clients(DATA))
PER_EPOCH = np.array([2, 3, 1, 2, 2])
"""Minibatches of at most 4 in a pass."""
executed = pytest.mark.parametrize("execution", EXECUTIONS)
scaled = pytest.mark.parametrize("scaling", ["cosine", "raw"])
directed = pytest.mark.parametrize("local_direction", ["own", "mean"])


def three(t):
    return selected(t, N, 3)


def multiset(t):
    return np.sort((N * uniform("select", SEED, t, np.arange(3))).astype(int))


@cache
def epochs_of(t, k):
    """Client k's minibatches in round t, by epoch."""
    steps = L * PER_EPOCH[k]
    plan = minibatches(DATA, np.array([k]), np.array([steps]), BATCH, (SEED, t))
    taken = [plan.samples[0, j][plan.weight[0, j] > 0] for j in range(steps)]
    batches = [(DATA.dataset.x[b].astype(float), DATA.dataset.y[b]) for b in taken]
    return [batches[l * PER_EPOCH[k] : (l + 1) * PER_EPOCH[k]] for l in range(L)]


def path_of(w, epochs, rates, momentum=0.0, decay=0.0):
    """w_{i,0}, ..., w_{i,L} of SGD with a rate for each epoch."""
    path, v = [w], 0.0
    for batches, rate in zip(epochs, rates, strict=True):
        for batch in batches:
            v = momentum * v + gradient(w, *batch) + decay * w
            w = w - rate * v
        path.append(w)
    return path


def rates_of(paths, phi1, phi2, alpha, scaling, lr, eta_max):
    """eta_{i,l} of each client before and after the clip, by loops over l and k > l."""
    c = (1 - alpha) / alpha
    free = np.zeros((len(paths), len(phi1)))
    for i, path in enumerate(paths):
        for l in range(len(phi1)):
            v = sum(path[k] - phi2[k] for k in range(l + 1, len(phi1) + 1))
            product = phi1[l] @ v
            if scaling == "raw":
                free[i, l] = lr + c * product
            else:
                size1, size2 = np.linalg.norm(phi1[l]), np.linalg.norm(v)
                noise = size1 < 1e-12 or size2 < 1e-12
                free[i, l] = lr * (1 + c * (0 if noise else product / size1 / size2))
    return free, np.minimum(np.maximum(free, 0), eta_max * lr)


def fedagg(
    choose=three,
    alpha=0.1,
    scaling="cosine",
    local_direction="own",
    sweeps=1,
    eta_max=10.0,
    aggregation="samples",
    lr_decay=1.0,
    momentum=0.0,
    decay=0.0,
    met=None,
):
    """Algorithms.md 4.2; `met` collects the rates before and after the clip."""
    w, t = initial(), 0
    while True:
        t += 1
        lr, ids = LR * lr_decay ** (t - 1), choose(t)
        work = [epochs_of(t, k) for k in ids]
        paths = [path_of(w, epochs, [lr] * L, momentum, decay) for epochs in work]
        for _ in range(sweeps):
            phi1 = [
                np.mean(
                    [
                        gradient(p[l], *PARTS[k]) + decay * p[l]
                        for p, k in zip(paths, ids, strict=True)
                    ],
                    0,
                )
                for l in range(L)
            ]
            phi2 = np.mean(paths, 0)
            free, eta = rates_of(paths, phi1, phi2, alpha, scaling, lr, eta_max)
            if met is not None:
                met.append((free, eta))
            if local_direction == "own":
                paths = [
                    path_of(w, epochs, rates, momentum, decay)
                    for epochs, rates in zip(work, eta, strict=True)
                ]
            else:
                for i, k in enumerate(ids):
                    paths[i] = [w]
                    for l in range(L):
                        paths[i].append(paths[i][l] - PER_EPOCH[k] * eta[i, l] * phi1[l])
        w = sum(p * path[L] for p, path in zip(shares(PARTS, ids, aggregation), paths, strict=True))
        yield w


def run_of(name="fedagg", data=DATA, count=3, federation=Federation, **given):
    """A simulation with `given` hyperparameters and settings, at round 0."""
    own = set(given) & set(ALGORITHMS[name].__dataclass_fields__)
    params = {"lr": LR, **{field: given.pop(field) for field in own}}
    base = {"batch_size": BATCH, "local_epochs": L, "local_steps": None}
    common = settings(participation=count / data.clients, **{**base, **given})
    return simulation(ALGORITHMS[name](**params), data, common, seed=SEED, federation=federation)


# The computable reading
