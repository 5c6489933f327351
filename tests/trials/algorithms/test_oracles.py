"""Each algorithm against its equations in plain NumPy, on problems of a few weights.

The oracles know nothing of the solver. They take from `trials.common.randomness` the numbers that name a
run's chance (initial weights, who is selected, SAFL's masks), and from `minibatches` in one test
who is in a batch; its own properties are tested in test_solver.py.
"""

import numpy as np
import pytest

from tests.support.oracle import (
    EXECUTIONS,
    GENERAL,
    LR,
    SEED,
    STEPS,
    THREE,
    TWO,
    D,
    agrees,
    clients,
    gradient,
    initial,
    local_sgd,
    loss,
    run_of,
    selected,
    shares,
)
from tests.support.quadratics import Quadratic, parabolas
from tests.support.simulations import partitioned, rounds, settings, simulation
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedprox import FedProx
from trials.algorithms.folb import FOLB
from trials.algorithms.safl import SAFL
from trials.common.randomness import uniform
from trials.engine.training import minibatches
from trials.models import MODELS


def averaged(sizes, mu=0.0, aggregation="samples", momentum=0.0, decay=0.0):
    """FedAvg (mu = 0) and FedProx."""
    parts, w = list(clients(partitioned(sizes))), initial()
    p = shares(parts, range(len(sizes)), aggregation)
    while True:
        local = [
            local_sgd(w, [part] * STEPS, LR, lambda v, w=w: mu * (v - w), momentum, decay)
            for part in parts
        ]
        w = sum(p_k * w_k for p_k, w_k in zip(p, local, strict=True))
        yield w


def folb(sizes, mu, psi, decay=0.0):
    """(13), or (18) with psi. Weight decay belongs to F_k."""
    parts, w = list(clients(partitioned(sizes))), initial()
    while True:
        g = [gradient(w, *part) + decay * w for part in parts]
        local = [
            local_sgd(w, [part] * STEPS, LR, lambda v, w=w: mu * (v - w), decay=decay)
            for part in parts
        ]
        mean = sum(g) / len(g)
        importance = []
        for k, part in enumerate(parts):
            left = gradient(local[k], *part) + decay * local[k] + mu * (local[k] - w)
            gamma = np.linalg.norm(left) / np.linalg.norm(g[k])
            importance.append(g[k] @ mean - psi * gamma * (mean @ mean))
        total = sum(abs(i) for i in importance)
        w = w + sum(i / total * (w_k - w) for i, w_k in zip(importance, local, strict=True))
        yield w


def safl(sizes, epsilon, L, init, count):
    """SAFL (3), (6), (7)."""
    parts = list(clients(partitioned(sizes)))
    z = [initial(k) if init == "own" else initial() for k in range(len(sizes))]
    t = 0
    while True:
        t += 1
        ids = selected(t, len(sizes), count)
        for k in ids:
            v = z[k]
            if t > 1:
                masked = uniform("anneal", SEED, t, k, np.arange(D)) < np.exp(-t / L)
                u = np.where(masked, epsilon, 1.0)
                v = u * z_bar + (1 - u) * z[k]  # noqa: F821 - set at the end of round 1
            z[k] = local_sgd(v, [parts[k]] * STEPS, LR)
        eta = shares(parts, ids)
        z_bar = sum(eta_k * z[k] for eta_k, k in zip(eta, ids, strict=True))
        yield z_bar


def test_the_oracles_gradient_is_the_slope_of_its_loss():
    x, y = next(clients(partitioned(TWO)))
    w, h = initial(), 1e-6
    slope = [(loss(w + h * e, x, y) - loss(w - h * e, x, y)) / (2 * h) for e in np.eye(D)]
    np.testing.assert_allclose(gradient(w, x, y), slope, atol=1e-8)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_fedavg(aggregation, execution):
    oracle = averaged(TWO, aggregation=aggregation)
    agrees(run_of(FedAvg(lr=LR), TWO, aggregation=aggregation, execution=execution), oracle)


def test_aggregation_matters_to_the_oracle():
    a, b = averaged(TWO), averaged(TWO, aggregation="plain")
    assert np.abs(next(a) - next(b)).max() > 1e-3


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_fedprox(aggregation, execution):
    mu = 0.8
    assert np.abs(next(averaged(TWO, mu)) - next(averaged(TWO))).max() > 1e-2
    oracle = averaged(TWO, mu, aggregation)
    agrees(run_of(FedProx(lr=LR, mu=mu), TWO, aggregation=aggregation, execution=execution), oracle)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_folb_plain(execution):
    agrees(run_of(FOLB(lr=LR, mu=0.3), TWO, execution=execution), folb(TWO, 0.3, psi=0.0))


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("psi", [0.5, 10.0])
def test_folb_heterogeneity(psi, execution):
    algorithm = FOLB(lr=LR, mu=0.3, variant="heterogeneity", psi=psi)
    assert np.abs(next(folb(TWO, 0.3, psi)) - next(folb(TWO, 0.3, 0.0))).max() > 1e-3
    agrees(run_of(algorithm, TWO, execution=execution), folb(TWO, 0.3, psi))


@pytest.mark.parametrize("variant", ["plain", "heterogeneity"])
def test_folb_with_weight_decay(variant):
    psi = 1.0 if variant == "heterogeneity" else 0.0
    algorithm = FOLB(lr=LR, mu=0.3, variant=variant)
    agrees(run_of(algorithm, TWO, weight_decay=0.2), folb(TWO, 0.3, psi, decay=0.2))


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("init", ["own", "common"])
@pytest.mark.parametrize(("sizes", "count"), [(TWO, 2), (THREE, 2)])
def test_safl(sizes, count, init, execution):
    oracle = safl(sizes, 0.3, 5.0, init, count)
    given = {"init": init, "participation": count / len(sizes), "execution": execution}
    agrees(run_of(SAFL(lr=LR, epsilon=0.3, L=5.0), sizes, **given), oracle)


def test_safl_always_masked_with_epsilon_0_is_local_training():
    parts = list(clients(partitioned(TWO)))
    own = [initial(k) for k in range(2)]

    def alone():
        while True:
            for k in range(2):
                own[k] = local_sgd(own[k], [parts[k]] * STEPS, LR)
            yield shares(parts, [0, 1]) @ np.array(own)

    agrees(run_of(SAFL(lr=LR, epsilon=0.0, L=np.inf), TWO, init="own"), alone())


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 0.0), (0.0, 0.2), (0.6, 0.1)])
def test_momentum_and_weight_decay(momentum, decay, execution):
    common = {"momentum": momentum, "weight_decay": decay, "execution": execution}
    oracle = averaged(TWO, momentum=momentum, decay=decay)
    agrees(run_of(FedAvg(lr=LR), TWO, **common), oracle)
    oracle = averaged(TWO, mu=0.5, momentum=momentum, decay=decay)
    agrees(run_of(FedProx(lr=LR, mu=0.5), TWO, **common), oracle)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_minibatches_with_a_short_last_one(execution):
    data, ids, epochs = partitioned(TWO), np.arange(2), 2
    steps = epochs * np.array([2, 3])

    def oracle():
        w, p, t = initial(), shares(list(clients(data)), ids), 0
        while True:
            t += 1
            plan = minibatches(data, ids, steps, 4, (SEED, t))
            local = []
            for k in ids:
                taken = [
                    plan.samples[k, j][plan.weight[k, j] > 0].tolist() for j in range(steps[k])
                ]
                assert [len(b) for b in taken] == epochs * ([4, 1] if k == 0 else [4, 4, 1])
                x, y = data.dataset.x.astype(float), data.dataset.y
                local.append(local_sgd(w, [(x[b], y[b]) for b in taken], LR))
            w = p @ np.array(local)
            yield w

    common = {"batch_size": 4, "local_epochs": epochs, "local_steps": None}
    agrees(run_of(FedAvg(lr=LR), TWO, execution=execution, **common), oracle())


@pytest.mark.parametrize("execution", GENERAL)
@pytest.mark.parametrize(
    ("algorithm", "answer"), [(FedAvg(lr=0.5), -1.875), (FedProx(lr=0.5, mu=1.0), -1.25)]
)
def test_answers_on_paper(algorithm, answer, execution, monkeypatch):
    """Optima 2 and -4, sizes 1:3, two steps from 0 (the numbers of fedjax's fed_prox_test.py)."""
    monkeypatch.setitem(MODELS, "quadratic", Quadratic)
    data = parabolas([1, 3], np.ones(2), np.array([2.0, -4.0]))
    more = {"init": "zeros", "execution": execution, "loss": "half_squared_error"}
    common = settings(rounds=1, local_steps=2, **more)
    run = simulation(algorithm, data, common, model="quadratic")
    assert next(rounds(run)).item() == pytest.approx(answer, abs=1e-12)
