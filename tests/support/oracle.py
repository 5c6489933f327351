"""Plain NumPy to compare runs with: a tiny logistic regression, local SGD, who chance picks, FedAvg with
every shared setting, and `agrees`, the comparison.

They know nothing of the solver; from `trials.common.randomness` they take the numbers that name a run's
chance.
"""

import numpy as np

from tests.support.simulations import partitioned, settings, simulation, state
from trials.algorithms.fedavg import FedAvg
from trials.common.randomness import uniform
from trials.federated_data import FederatedData
from trials.run.spec import TrialSpec

EXECUTIONS = ("compiled", "batched", "sequential")
GENERAL = ("batched", "sequential")
"""Those of models that are not linear, and of any loss and direction."""
FEATURES, CLASSES = 2, 3
D = CLASSES * (FEATURES + 1)
STEPS, LR, SEED = 4, 0.5, 11
TWO, THREE, SIZES = [5, 9], [5, 9, 3], [5, 9, 3, 7, 4]


def loss(w, x, y):
    z = x @ w[: CLASSES * FEATURES].reshape(CLASSES, FEATURES).T + w[CLASSES * FEATURES :]
    return np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y])


def gradient(w, x, y):
    z = x @ w[: CLASSES * FEATURES].reshape(CLASSES, FEATURES).T + w[CLASSES * FEATURES :]
    dz = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    dz[np.arange(len(y)), y] -= 1
    dz /= len(y)
    return np.concatenate([(dz.T @ x).ravel(), dz.sum(0)])


def cut(step, longest):
    norm = np.linalg.norm(step)
    return step * (longest / norm) if norm > longest else step


def local_sgd(
    w, batches, lr, extra=lambda v: 0.0, momentum=0.0, decay=0.0, clip=np.inf, slope=gradient
):
    """`lr` is one number or one a step; a step is cut before it enters the momentum."""
    w, velocity = w.copy(), np.zeros_like(w)
    rates = np.broadcast_to(lr, len(batches))
    for (x, y), rate in zip(batches, rates, strict=True):
        step = slope(w, x, y) + decay * w + extra(w)
        velocity = momentum * velocity + cut(step, clip)
        w = w - rate * velocity
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


def fedavg(data, select=None, lr_decay=1.0, prox=0.0, aggregation="samples", **local):
    parts, w, t = list(clients(data)), initial(), 0
    while True:
        t += 1
        ids = np.arange(data.clients) if select is None else select(t)
        rate = LR * lr_decay ** (t - 1)
        ends = [
            local_sgd(w, [parts[k]] * STEPS, rate, lambda v, w=w: prox * (v - w), **local)
            for k in ids
        ]
        w = shares(parts, ids, aggregation) @ np.array(ends)
        yield w


def run_of(algorithm, sizes=SIZES, level="iid", **given):
    """A simulation with `given` settings, at round 0."""
    return simulation(algorithm, partitioned(sizes), settings(**given), level=level, seed=SEED)


def agrees(run, oracle, of="w", least=1e-4):
    """Assert that after each round the state is the oracle's, which tells tensors by name or the one
    that is named by `of`, and that this one moves by `least` or more, to the last round. The run, at its end.
    """
    before, oracle = state(run)[of].copy(), iter(oracle)
    while not run.finished:
        run.advance()
        found, told = state(run), next(oracle)
        for name, expected in (told if isinstance(told, dict) else {of: told}).items():
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-10, err_msg=name)
        assert np.abs(found[of] - before).max() >= least
        before = found[of].copy()
    assert not run.diverged
    assert run.fed.round == run.fed.settings.rounds
    return run


def service(data=None, level="iid", model="logreg", at=3, **given):
    """What an algorithm is given in a round."""
    fed = simulation(
        FedAvg(), data or partitioned(SIZES), settings(**given), model, level, SEED
    ).fed
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


def first(oracle, count=5):
    return [next(oracle) for _ in range(count)]


def apart(a, b):
    return np.abs(np.array(a) - np.array(b)).max()


def spent(run, key):
    """What each round adds to a counter of the history."""
    return np.diff([entry[key] for entry in run.history]).tolist()
