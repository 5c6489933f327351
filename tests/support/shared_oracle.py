"""FedAvg in plain NumPy with every shared setting."""

import numpy as np
import pytest

from tests.support.oracle import (
    SEED,
    clients,
    gradient,
    initial,
    shares,
)
from tests.support.simulations import dealt, rounds, settings, simulation
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.spec import TrialSpec

LR = 0.4
SIZES = [5, 9, 3, 7, 4]
STEPS = 4
every = pytest.mark.parametrize("name", ALGORITHMS)


def cut(step, longest):
    norm = np.linalg.norm(step)
    return step * (longest / norm) if norm > longest else step


def sgd(
    w, batches, rate, momentum=0.0, decay=0.0, clip=np.inf, extra=lambda v: 0.0, slope=gradient
):
    """`rate` is one number or one a step; a step is cut before it enters the momentum."""
    w, velocity = w.copy(), np.zeros_like(w)
    rates = np.broadcast_to(rate, len(batches))
    for (x, y), eta in zip(batches, rates, strict=True):
        step = slope(w, x, y) + decay * w + extra(w)
        velocity = momentum * velocity + cut(step, clip)
        w = w - eta * velocity
    return w


def fedavg(data, select=None, lr_decay=1.0, prox=0.0, aggregation="samples", **local):
    parts, w, t = list(clients(data)), initial(), 0
    while True:
        t += 1
        ids = np.arange(data.clients) if select is None else select(t)
        rate = LR * lr_decay ** (t - 1)
        ends = [
            sgd(w, [parts[k]] * STEPS, rate, extra=lambda v, w=w: prox * (v - w), **local)
            for k in ids
        ]
        w = shares(parts, ids, aggregation) @ np.array(ends)
        yield w


def agrees(algorithm, oracle, sizes=SIZES, **given):
    run = simulation(algorithm, dealt(sizes), settings(**given), seed=SEED)
    before, count = run.state["w"].numpy().copy(), 0
    for found, expected in zip(rounds(run), oracle, strict=False):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        assert np.abs(found - before).max() > 1e-6
        before, count = found, count + 1
    assert run.finished
    assert count == run.fed.settings.rounds
    return run


def service(data=None, level="iid", model="logreg", at=3, **given):
    fed = simulation(FedAvg(), data or dealt(SIZES), settings(**given), model, level, SEED).fed
    fed.begin(at)
    return fed


def spelled(name="fedavg", level="iid", seed=SEED, lr=LR, model="logreg", **given):
    """A spec of these settings; of its data set only the name is used."""
    return TrialSpec(
        algorithm=name,
        params={"lr": lr},
        dataset="digits",
        model=model,
        heterogeneity=level,
        settings=settings(**given),
        seed=seed,
    )
