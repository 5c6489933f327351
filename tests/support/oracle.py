"""Plain NumPy to compare runs with: a tiny logistic regression, local SGD, who chance picks, FedAvg with
every shared setting, and `agrees`, the comparison.

They know nothing of the solver; from `trials.common.randomness` they take the numbers that name a run's
chance.
"""

from itertools import pairwise

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
LINEAR = (FEATURES, CLASSES)
"""Widths of logistic regression; of a network those of hidden layers stand between."""
D = CLASSES * (FEATURES + 1)
STEPS, LR, SEED = 4, 0.5, 11
TWO, SIZES = [5, 9], [5, 9, 3, 7, 4]


def layers(w, widths=LINEAR):
    """Weights (out, in) and biases (out,) of each layer of a network with ReLU between."""
    for inputs, outputs in pairwise(widths):
        size = inputs * outputs
        yield w[:size].reshape(outputs, inputs), w[size : size + outputs]
        w = w[size + outputs :]


def activations(w, x, widths=LINEAR):
    """What each layer is given, and the logits last."""
    given = [x]
    for weight, bias in layers(w, widths):
        x = given[-1] @ weight.T + bias
        given.append(np.maximum(x, 0))
    return [*given[:-1], x]


def loss(w, x, y, widths=LINEAR):
    z = activations(w, x, widths)[-1]
    return np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y])


def gradient(w, x, y, widths=LINEAR):
    *given, z = activations(w, x, widths)
    d = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    d[np.arange(len(y)), y] -= 1
    d /= len(y)
    parts = []
    for (weight, _), a in zip(reversed(list(layers(w, widths))), reversed(given), strict=True):
        parts = [(d.T @ a).ravel(), d.sum(0), *parts]
        d = (d @ weight) * (a > 0)
    return np.concatenate(parts)


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


def initial(k=-1, widths=LINEAR):
    """Client k's own initial weights, or the common ones: uniform below 1 / sqrt(inputs of the layer)."""
    sizes = [(a + 1) * b for a, b in pairwise(widths)]
    inputs = np.repeat(widths[:-1], sizes)
    return (2 * uniform("initial", SEED, k, np.arange(sum(sizes))) - 1) / np.sqrt(inputs)


def selected(t, n, count, stream="select"):
    return np.sort(np.argsort(uniform(stream, SEED, t, np.arange(n)))[:count])


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


def apart(a, b):
    return np.abs(np.array(a) - np.array(b)).max()


def spent(run, key):
    """What each round adds to a counter of the history."""
    return np.diff([entry[key] for entry in run.history]).tolist()
