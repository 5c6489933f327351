"""Plain NumPy parts of the oracles: a tiny logistic regression, local SGD, and who chance picks.

They know nothing of the solver; from `trials.randomness` they take the numbers that name a run's
chance.
"""

from collections.abc import Callable

import numpy as np

from tests.support.simulations import dealt, rounds, settings, simulation
from trials.federated_data import FederatedData
from trials.randomness import uniform

EXECUTIONS = ("compiled", "batched", "sequential")
GENERAL = ("batched", "sequential")
"""Those of models that are not linear, and of any loss and direction."""
FEATURES, CLASSES = 2, 3
D = CLASSES * (FEATURES + 1)
STEPS, LR, SEED = 4, 0.5, 11
TWO, THREE = [5, 9], [5, 9, 3]

Extra = Callable[[np.ndarray], np.ndarray | float]


def loss(w, x, y):
    z = x @ w[: CLASSES * FEATURES].reshape(CLASSES, FEATURES).T + w[CLASSES * FEATURES :]
    return np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y])


def gradient(w, x, y):
    z = x @ w[: CLASSES * FEATURES].reshape(CLASSES, FEATURES).T + w[CLASSES * FEATURES :]
    dz = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    dz[np.arange(len(y)), y] -= 1
    dz /= len(y)
    return np.concatenate([(dz.T @ x).ravel(), dz.sum(0)])


def local_sgd(w, batches, lr, extra: Extra = lambda v: 0.0, momentum=0.0, decay=0.0):
    w, velocity = w.copy(), np.zeros_like(w)
    for x, y in batches:
        velocity = momentum * velocity + gradient(w, x, y) + decay * w + extra(w)
        w = w - lr * velocity
    return w


def clients(data: FederatedData):
    """(x, y) of each client."""
    for k in range(data.clients):
        ids = data.train[data.offsets[k] : data.offsets[k + 1]]
        yield data.dataset.x[ids].astype(float), data.dataset.y[ids]


def initial(k=-1):
    """Client k's own initial weights, or the common ones; fan in is FEATURES everywhere."""
    return (2 * uniform("initial", SEED, k, np.arange(D)) - 1) / np.sqrt(FEATURES)


def selected(t, n, count):
    return np.sort(np.argsort(uniform("select", SEED, t, np.arange(n)))[:count])


def shares(parts, ids, aggregation="samples"):
    m = np.array([len(parts[k][1]) if aggregation == "samples" else 1 for k in ids])
    return m / m.sum()


def agrees(algorithm, oracle, sizes, tolerance=1e-10, **given):
    """The server's weights after each round are the oracle's, and they move."""
    run = simulation(algorithm, dealt(sizes), settings(**given), seed=SEED)
    before = run.state["w"].numpy().copy()
    for found, expected in zip(rounds(run), oracle, strict=False):
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        assert np.abs(found - before).max() > 1e-4
        before = found
    assert run.finished
