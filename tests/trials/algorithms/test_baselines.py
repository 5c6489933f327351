"""Baselines against their equations in NumPy, their defaults, what they refuse, and what they send."""

import numpy as np
import pytest

from tests.support.baselines import PARTS, SIZES, N, Study
from tests.support.oracle import EXECUTIONS, LR, SEED, D, agrees, gradient, initial
from tests.support.simulations import finish, partitioned, rounds, settings, simulation
from trials.algorithms.fedadagrad import FedAdagrad
from trials.algorithms.fedadam import FedAdam
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedavgm import FedAvgM
from trials.algorithms.feddc import FedDC
from trials.algorithms.feddyn import FedDyn
from trials.algorithms.fednova import FedNova
from trials.algorithms.fedsgd import FedSGD
from trials.algorithms.fedyogi import FedYogi
from trials.algorithms.ida import IDA
from trials.algorithms.scaffold import SCAFFOLD
from trials.common.errors import UserError
from trials.run.spec import refuse

STUDIES = {
    "all": Study(),
    "some": Study(2, lr_decay=0.7),
    "plain": Study(3, aggregation="plain", weight_decay=0.1),
    "system": Study(3, most_steps=5, lr_decay=0.9),
}


def locals_(study, w, ids, J, lr):
    return np.array([study.local(w, k, J[k], lr) for k in ids])


def fedsgd(study):
    w = initial()
    for ids, lr, _ in study.rounds():
        g = np.array([gradient(w, *PARTS[k]) + study.weight_decay * w for k in ids])
        w = w - lr * study.p(ids) @ g
        yield {"w": w}


def fedavgm(study, beta, server_lr):
    w, v = initial(), np.zeros(D)
    for ids, lr, J in study.rounds():
        v = beta * v + study.p(ids) @ (locals_(study, w, ids, J, lr) - w)
        w = w + server_lr * v
        yield {"w": w, "v": v}


def adaptive(study, second, server_lr, beta1, tau):
    """Reddi et al. 2021, Algorithm 2; `second` maps V and Delta^2 to the new V."""
    w, M, V = initial(), np.zeros(D), np.full(D, tau**2)
    for ids, lr, J in study.rounds():
        delta = study.p(ids) @ (locals_(study, w, ids, J, lr) - w)
        M = beta1 * M + (1 - beta1) * delta
        V = second(V, delta**2)
        w = w + server_lr * M / (np.sqrt(V) + tau)
        yield {"w": w, "M": M, "V": V}


def fednova(study):
    """J_k is the sum of the coefficients with which local momentum adds up gradients."""
    w = initial()
    for ids, lr, J in study.rounds():
        p, delta = study.p(ids), locals_(study, w, ids, J, lr) - w
        a = np.array(
            [sum(study.momentum**i for j in range(J[k]) for i in range(j + 1)) for k in ids]
        )
        w = w + (p @ a) * ((p / a) @ delta)
        yield {"w": w}


def ida(study):
    w = initial()
    for ids, lr, J in study.rounds():
        z = locals_(study, w, ids, J, lr)
        r = 1 / (np.linalg.norm(study.p(ids) @ z - z, axis=1) + 1e-12)
        w = r / r.sum() @ z
        yield {"w": w}


def scaffold(study, server_lr):
    w, c, c_k = initial(), np.zeros(D), np.zeros((N, D))
    for ids, lr, J in study.rounds():
        v, new = np.zeros((N, D)), c_k.copy()
        for k in ids:
            v[k] = study.local(w, k, J[k], lr, lambda _, correction=c - c_k[k]: correction)
            new[k] = c_k[k] - c + (w - v[k]) / (J[k] * lr)
        w = w + server_lr * study.p(ids) @ (v[ids] - w)
        c = c + study.om[ids] @ (new - c_k)[ids] / N
        c_k = new
        yield {"w": w, "c": c, "c_k": c_k}


def feddyn(study, alpha):
    """Acar et al. 2021, Algorithm 1, with g_k and h as printed: H_k = -g_k / a_k."""
    w, g, h = initial(), np.zeros((N, D)), np.zeros(D)
    a = alpha / study.om
    for ids, lr, J in study.rounds():
        local = np.array(
            [study.local(w, k, J[k], lr, lambda v, k=k, w=w: -g[k] + a[k] * (v - w)) for k in ids]
        )
        g[ids] -= a[ids, None] * (local - w)
        h = h - (local - w).sum(0) / N
        w = local.mean(0) - h
        yield {"w": w, "h": -g / a[:, None], "mean_h": -h, "selected": local.mean(0)}


def feddc(study, alpha):
    w, g, h_k, g_k = initial(), np.zeros(D), np.zeros((N, D)), np.zeros((N, D))
    om = study.om
    for ids, lr, J in study.rounds():
        local, before = np.zeros((N, D)), g_k.copy()
        for k in ids:
            a_k, target, linear = alpha / om[k], w - h_k[k], g / om[k] - g_k[k]
            local[k] = study.local(
                w, k, J[k], lr, lambda v, a=a_k, to=target, b=linear: a * (v - to) + b
            )
            delta = local[k] - w
            h_k[k] += delta
            g_k[k] += -g / om[k] - delta / (J[k] * lr)
        g = g + om @ (g_k - before) / N
        w = local[ids].mean(0) + h_k.sum(0) / N
        yield {"w": w, "h": h_k, "mean_h": h_k.mean(0), "g": g, "g_k": g_k}


def adagrad(V, squared):
    return V + squared


def adam(beta2):
    return lambda V, squared: beta2 * V + (1 - beta2) * squared


def yogi(beta2):
    return lambda V, squared: V - (1 - beta2) * squared * np.sign(V - squared)


CASES = {
    "fedsgd": (FedSGD(lr=LR), fedsgd),
    "fedavgm": (FedAvgM(lr=LR, beta=0.6, server_lr=0.8), lambda s: fedavgm(s, 0.6, 0.8)),
    "fedadagrad": (
        FedAdagrad(lr=LR, server_lr=0.2, beta1=0.3, tau=0.05),
        lambda s: adaptive(s, adagrad, 0.2, 0.3, 0.05),
    ),
    "fedadam": (
        FedAdam(lr=LR, server_lr=0.2, beta1=0.6, tau=0.05, beta2=0.8),
        lambda s: adaptive(s, adam(0.8), 0.2, 0.6, 0.05),
    ),
    "fedyogi": (
        FedYogi(lr=LR, server_lr=0.2, beta1=0.6, tau=0.05, beta2=0.8),
        lambda s: adaptive(s, yogi(0.8), 0.2, 0.6, 0.05),
    ),
    "fednova": (FedNova(lr=LR), fednova),
    "ida": (IDA(lr=LR), ida),
    "scaffold": (SCAFFOLD(lr=LR, server_lr=0.7), lambda s: scaffold(s, 0.7)),
    "feddyn": (FedDyn(lr=LR, alpha=0.3), lambda s: feddyn(s, 0.3)),
    "feddc": (FedDC(lr=LR, alpha=0.3), lambda s: feddc(s, 0.3)),
}


def test_selected_clients_leave_return_and_differ_in_their_work():
    """Otherwise states of absent clients would not be tested."""
    for study in (STUDIES["some"], STUDIES["system"]):
        taken = [ids.tolist() for _, (ids, _, _) in zip(range(5), study.rounds(), strict=False)]
        assert {k for ids in taken for k in ids} == set(range(N))
        assert any(
            k in taken[a] and k not in taken[b] and k in taken[c]
            for k in range(N)
            for a in range(5)
            for b in range(a, 5)
            for c in range(b, 5)
        )
    _, _, J = next(STUDIES["system"].rounds())
    assert len(set(J)) > 1


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
@pytest.mark.parametrize("name", CASES)
def test_equations(name, study, execution):
    algorithm, oracle = CASES[name]
    agrees(study.simulation(algorithm, execution), oracle(study))


DEFAULTS = {
    "fedadagrad": (FedAdagrad, lambda s: adaptive(s, adagrad, 0.1, 0.0, 1e-3)),
    "fedadam": (FedAdam, lambda s: adaptive(s, adam(0.99), 0.1, 0.9, 1e-3)),
    "fedyogi": (FedYogi, lambda s: adaptive(s, yogi(0.99), 0.1, 0.9, 1e-3)),
    "fedavgm": (FedAvgM, lambda s: fedavgm(s, 0.9, 1.0)),
    "scaffold": (SCAFFOLD, lambda s: scaffold(s, 1.0)),
    "feddyn": (FedDyn, lambda s: feddyn(s, 0.01)),
    "feddc": (FedDC, lambda s: feddc(s, 0.01)),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name):
    """Those of the papers; V starts at tau^2 and is not bias-corrected."""
    cls, oracle = DEFAULTS[name]
    agrees(STUDIES["some"].simulation(cls(lr=LR), "batched"), oracle(STUDIES["some"]))


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_fednova_divides_by_the_coefficients_of_local_momentum(execution):
    study = Study(3, momentum=0.6, most_steps=5)
    agrees(study.simulation(FedNova(lr=LR), execution), fednova(study))


class Each(FedAvg):
    """FedAvg that shows the local models of the last round."""

    def aggregate(self, state, ids, start, local, fed):
        return {**super().aggregate(state, ids, start, local, fed), "local": local}


def test_fednova_with_minibatches_counts_each_clients_own_steps():
    """Batches of 4 make 2, 3, 1 and 3 steps an epoch."""
    common = settings(rounds=1, batch_size=4, local_steps=None, local_epochs=2)
    J, p, w = 2 * np.array([2, 3, 1, 3]), Study().p(), initial()
    fedavg = simulation(Each(lr=LR), partitioned(SIZES), common, seed=SEED)
    fedavg.advance()
    delta = fedavg.state["local"].numpy() - w
    run = simulation(FedNova(lr=LR), partitioned(SIZES), common, seed=SEED)
    expected = w + (p @ J) * ((p / J) @ delta)
    np.testing.assert_allclose(next(rounds(run)), expected, atol=1e-12)


REFUSED = {
    "init": ("own", [FedSGD, SCAFFOLD, FedDyn, FedDC, FedNova]),
    "momentum": (0.5, [SCAFFOLD, FedDC]),
    "selection": ("with_replacement", [SCAFFOLD, FedDyn, FedDC]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_settings(name):
    """Where the equations would no longer mean what they say."""
    value, refusing = REFUSED[name]
    for cls in refusing:
        refuse("it", cls, settings())
        with pytest.raises(UserError, match=name):
            refuse("it", cls, settings(**{name: value}))


SENT = {"scaffold": (2, 2, 0), "feddc": (2, 2, 0), "fednova": (1, 1, 1)}
"""Of all others K d down, K d up and no numbers besides."""


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("name", CASES)
def test_bytes_and_work(name, dtype, size):
    """Table 7, in multiples of K d; FedNova's clients also send one number each."""
    algorithm, (down, up, numbers) = CASES[name][0], SENT.get(name, (1, 1, 0))
    common = settings(participation=0.5, dtype=dtype, local_steps=3)
    run = finish(simulation(algorithm, partitioned(SIZES), common, seed=SEED))
    K, passes = 2, int(name == "fedsgd")
    assert len(run.history) == 6
    for T, entry in enumerate(run.history):
        assert entry["downloaded_bytes"] == size * down * K * D * T
        assert entry["uploaded_bytes"] == size * (up * K * D + numbers * K) * T
        assert entry["peer_bytes"] == 0
        assert entry["clients_uploaded"] == K * T
        assert entry["client_steps"] == (1 - passes) * 3 * K * T
        assert entry["gradient_passes"] == passes * K * T
