"""Plain NumPy to compare runs with: a tiny logistic regression, local SGD, who chance picks, a federation with all that
its settings say of a round, and `agrees`, the comparison.

They know nothing of the solver; from `trials.common.randomness` they take the numbers that name a run's
chance.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, pairwise
from typing import Any

import numpy as np

from tests.support.simulations import partitioned, settings, simulation, state
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.common.randomness import uniform
from trials.engine.federation import Federation
from trials.engine.training import minibatches
from trials.federated_data import FederatedData
from trials.run.spec import TrialSpec
from trials.settings import Settings

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


WIDTHS = {"logreg": (2, 3), "mlp(4,3)": (2, 4, 3, 3), "mlp(3,3)": (2, 3, 3, 3)}
SYSTEM = "iid+system(steps=1..5)"


@dataclass
class Problem:
    """A federation of small clients: its data, its chance, and local SGD on it."""

    given: dict[str, Any] = field(default_factory=dict)
    level: str = "iid"
    model: str = "logreg"
    sizes: tuple[int, ...] = (5, 9, 3, 7, 6)
    gradient: Callable[..., Any] = gradient
    """Of the mean loss, at (weights, x, y, widths)."""

    @cached_property
    def settings(self) -> Settings:
        return settings(**self.given)

    @cached_property
    def data(self):
        return partitioned(list(self.sizes))

    @cached_property
    def parts(self):
        return list(clients(self.data))

    @property
    def n(self):
        return len(self.sizes)

    @property
    def widths(self):
        return WIDTHS[self.model]

    @property
    def d(self):
        return sum((a + 1) * b for a, b in pairwise(self.widths))

    @property
    def own(self):
        return self.settings.init == "own"

    def run(self, name, params, execution=None, federation=Federation):
        """The simulation that the equations are compared with, at round 0."""
        common = settings(**self.given, execution=execution)
        algorithm = ALGORITHMS[name](**{"lr": LR, **params})
        return simulation(algorithm, self.data, common, self.model, self.level, SEED, federation)

    def initial(self, k=-1):
        if self.settings.init == "zeros":
            return np.zeros(self.d)
        return initial(k, self.widths)

    def starts(self):
        """Each client's first weights, (n, d)."""
        return np.array([self.initial(k if self.own else -1) for k in range(self.n)])

    @property
    def count(self):
        return max(1, round(self.settings.participation * self.n))

    def select(self, t, stream="select"):
        if self.settings.selection == "with_replacement":
            return np.sort((self.n * uniform(stream, SEED, t, np.arange(self.count))).astype(int))
        if self.settings.selection == "independent":
            u = uniform(stream, SEED, t, np.arange(self.n))
            return np.flatnonzero(u < max(self.settings.participation, u.min() + 1e-18))
        return selected(t, self.n, self.count, stream)

    def rounds(self):
        """Round, clients and rate of each round."""
        for t in count(1):
            yield t, self.select(t), LR * self.settings.lr_decay ** (t - 1)

    def p(self, ids=None):
        ids = range(self.n) if ids is None else ids
        return shares(self.parts, ids, self.settings.aggregation)

    @property
    def om(self):
        return self.n * self.p()

    def per_epoch(self, k):
        batch = self.settings.batch_size
        return 1 if batch == "full" else -(-self.sizes[k] // batch)

    def steps(self, t, k):
        """J_k: the local steps of client k in round t."""
        if self.level == SYSTEM:
            return 1 + int(uniform("steps", SEED, t, k).item() * 5)
        return self.settings.local_steps or self.settings.local_epochs * self.per_epoch(k)

    def batches(self, t, k):
        """Client k's minibatches of round t."""
        steps, batch = self.steps(t, k), self.settings.batch_size
        if batch == "full":
            return [self.parts[k]] * steps
        return batches_of(self.data, k, steps, batch, t)

    def slope(self, k, w):
        """The gradient of F_k, weight decay in it."""
        return self.gradient(w, *self.parts[k], self.widths) + self.settings.weight_decay * w

    def cut(self, step):
        return cut(step, self.settings.clip_norm or np.inf)

    def sgd(self, w, batches, lr, extra=lambda v: 0.0):
        s = self.settings
        common = s.momentum, s.weight_decay, s.clip_norm or np.inf
        return local_sgd(
            w, batches, lr, extra, *common, lambda *at: self.gradient(*at, self.widths)
        )

    def local(self, w, k, t, lr, extra=lambda v: 0.0):
        """Where client k ends that began at w."""
        return self.sgd(w, self.batches(t, k), lr, extra)

    def locals(self, starts, ids, t, lr, extra=lambda k: lambda v: 0.0):
        """Where the clients end that began at rows or at one common w, (k, d)."""
        rows = np.broadcast_to(starts, (len(ids), self.d))
        pairs = zip(rows, ids, strict=True)
        return np.array([self.local(w, k, t, lr, extra(k)) for w, k in pairs])


def batches_of(data, k, steps, batch, t):
    plan = minibatches(data, np.array([k]), np.array([steps]), batch, (SEED, t))
    taken = [plan.samples[0, j][plan.weight[0, j] > 0] for j in range(steps)]
    return [(data.dataset.x[b].astype(float), data.dataset.y[b]) for b in taken]


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
