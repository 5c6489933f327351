"""Baselines against their equations in NumPy, their limits, and what they send."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from tests.support.oracle import (
    EXECUTIONS,
    GENERAL,
    LR,
    SEED,
    STEPS,
    D,
    agrees,
    clients,
    gradient,
    initial,
    local_sgd,
    selected,
    shares,
)
from tests.support.simulations import dealt, finish, rounds, settings, simulation, state
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
from trials.errors import UserError
from trials.federated_data import FederatedData
from trials.models import MODELS
from trials.models.base import Architecture
from trials.randomness import uniform
from trials.spec import refuse

SIZES = [5, 9, 3, 12]
N = len(SIZES)
PARTS = list(clients(dealt(SIZES)))
EVERYONE = np.arange(N)


@dataclass(frozen=True)
class Study:
    """The settings that an oracle and the run it judges have in common."""

    selected: int = N
    aggregation: str = "samples"
    lr_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    most_steps: int | None = None

    def rounds(self) -> Iterator[tuple[np.ndarray, float, np.ndarray]]:
        """Each round's clients, local rate and numbers J of local steps of all clients."""
        for t in count(1):
            u = uniform("steps", SEED, t, EVERYONE)
            steps = np.full(N, STEPS) if self.most_steps is None else 1 + u * self.most_steps
            yield selected(t, N, self.selected), LR * self.lr_decay ** (t - 1), steps.astype(int)

    def p(self, ids=EVERYONE):
        return shares(PARTS, ids, self.aggregation)

    @property
    def om(self):
        return N * self.p()

    def local(self, w, k, J, lr, extra=lambda v: 0.0):
        return local_sgd(w, [PARTS[k]] * J, lr, extra, self.momentum, self.weight_decay)

    def simulation(self, algorithm, execution="batched", **given):
        common = settings(
            participation=self.selected / N,
            aggregation=self.aggregation,
            lr_decay=self.lr_decay,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            execution=execution,
            **given,
        )
        level = "iid" if self.most_steps is None else f"iid+system(steps=1..{self.most_steps})"
        return simulation(algorithm, dealt(SIZES), common, level=level, seed=SEED)


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
    fedavg = simulation(Each(lr=LR), dealt(SIZES), common, seed=SEED)
    fedavg.advance()
    delta = fedavg.state["local"].numpy() - w
    run = simulation(FedNova(lr=LR), dealt(SIZES), common, seed=SEED)
    expected = w + (p @ J) * ((p / J) @ delta)
    np.testing.assert_allclose(next(rounds(run)), expected, atol=1e-12)


WORK = {
    "participation": 0.5,
    "batch_size": 4,
    "local_epochs": 2,
    "local_steps": None,
    "weight_decay": 0.01,
    "lr_decay": 0.9,
}


def end(algorithm, data=None, level="iid", **given):
    run = simulation(algorithm, data or dealt(SIZES), settings(**given), level=level, seed=SEED)
    return state(finish(run))["w"]


@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_fedavgm_without_momentum_is_fedavg(aggregation):
    common = {**WORK, "momentum": 0.5, "aggregation": aggregation}
    found = end(FedAvgM(lr=LR, beta=0.0, server_lr=1.0), **common)
    np.testing.assert_allclose(found, end(FedAvg(lr=LR), **common), atol=1e-12)
    assert np.abs(end(FedAvgM(lr=LR, beta=0.5), **common) - found).max() > 1e-3


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_fednova_with_equal_steps_is_fedavg(momentum):
    common = {"participation": 0.5, "momentum": momentum, "selection": "with_replacement"}
    found = end(FedNova(lr=LR), **common)
    np.testing.assert_allclose(found, end(FedAvg(lr=LR), **common), atol=1e-12)
    level = "iid+system(steps=1..6)"
    unequal = end(FedNova(lr=LR), level=level, **common)
    assert np.abs(unequal - end(FedAvg(lr=LR), level=level, **common)).max() > 1e-3


@pytest.mark.parametrize("clip_norm", [None, 0.1])
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_fedsgd_is_fedavg_with_one_full_step(aggregation, clip_norm):
    """Its own work does not depend on what local work the study asks for."""
    common = {
        "participation": 0.5,
        "selection": "with_replacement",
        "aggregation": aggregation,
        "weight_decay": 0.1,
        "lr_decay": 0.8,
        "clip_norm": clip_norm,
    }
    found = end(FedSGD(lr=LR), local_steps=7, batch_size=2, **common)
    np.testing.assert_allclose(found, end(FedAvg(lr=LR), local_steps=1, **common), atol=1e-12)


@pytest.mark.parametrize("server_lr", [1.0, 0.5])
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_scaffold_begins_as_fedavg(aggregation, server_lr):
    common = {**WORK, "rounds": 1, "aggregation": aggregation}
    w = initial()
    moved = end(SCAFFOLD(lr=LR, server_lr=server_lr), **common) - w
    np.testing.assert_allclose(moved, server_lr * (end(FedAvg(lr=LR), **common) - w), atol=1e-12)
    common["rounds"] = 3
    assert np.abs(end(SCAFFOLD(lr=LR), **common) - end(FedAvg(lr=LR), **common)).max() > 1e-3


@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize("algorithm", [FedDyn(lr=LR, alpha=1e-9), FedDC(lr=LR, alpha=1e-9)])
@pytest.mark.parametrize("selected", [1, 2, 4])
def test_drifts_are_added_to_the_mean_from_round_1_on(algorithm, selected, aggregation):
    """Local models are FedAvg's there, but the server moves (1 + K / N) mean_S(w_k - w)."""
    given = {"rounds": 1, "participation": selected / N}
    moved = end(algorithm, aggregation=aggregation, **given) - initial()
    fedavg = end(FedAvg(lr=LR), aggregation="plain", **given) - initial()
    np.testing.assert_allclose(moved, (1 + selected / N) * fedavg, atol=1e-7)


MEANS = [
    (SCAFFOLD(lr=LR), [("c", "c_k", True)]),
    (FedDyn(lr=LR), [("mean_h", "h", False)]),
    (FedDC(lr=LR), [("mean_h", "h", False), ("g", "g_k", True)]),
]


@pytest.mark.parametrize("selection", ["without_replacement", "independent"])
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_server_vectors_are_means_of_client_states(aggregation, selection):
    given = {**WORK, "aggregation": aggregation, "selection": selection, "rounds": 6}
    om = Study(aggregation=aggregation).om
    for algorithm, pairs in MEANS:
        run = simulation(algorithm, dealt(SIZES), settings(**given), seed=SEED)
        for _ in rounds(run):
            found = state(run)
            for server, rows, weighted in pairs:
                mean = (om[:, None] * found[rows] if weighted else found[rows]).mean(0)
                np.testing.assert_allclose(found[server], mean, atol=1e-11, err_msg=server)
                assert np.abs(mean).max() > 1e-3


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_feddc_without_its_corrections_is_feddyn(execution):
    given = {**WORK, "execution": execution}
    feddyn, feddc, zeroed = (
        simulation(cls(lr=LR, alpha=0.3), dealt(SIZES), settings(**given), seed=SEED)
        for cls in (FedDyn, FedDC, FedDC)
    )
    for t, expected in enumerate(rounds(feddyn)):
        feddc.advance()
        zeroed.advance()
        nothing = {"g": torch.zeros_like(zeroed.state["w"]), "g_k": zeroed.fed.client_rows()}
        zeroed.state = {**zeroed.state, **nothing}
        np.testing.assert_allclose(zeroed.state["w"].numpy(), expected, atol=1e-12)
        assert (np.abs(feddc.state["w"].numpy() - expected).max() > 1e-3) == (t > 0)


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


@dataclass(frozen=True)
class Quadratic(Architecture):
    """F_k(w) = mean_i a_i (w - b_i)^2 / 2 of samples (a_i, b_i): one weight."""

    def parameters(self, shape, classes):
        return [("out.weight", (1,))]

    def forward(self, p, x):
        return x.new_zeros(len(x), 2) + p["out.weight"]

    def gradients(self, p, x, y, weight, loss) -> tuple[Tensor, list[Tensor]]:
        a, b = x.unbind(-1)
        apart = p["out.weight"] - b
        slope = (weight * a * apart).sum(-1, keepdim=True)
        return (weight * a * apart**2 / 2).sum(-1), [slope]


CURVATURE, OPTIMUM, HELD = np.array([0.5, 2.0, 1.0]), np.array([2.0, -4.0, 1.0]), [1, 3, 2]


def on_quadratics(algorithm, monkeypatch, number=100, **given):
    """The server's weight after many rounds of five steps, and each client's weight in the aim."""
    monkeypatch.setitem(MODELS, "quadratic", Quadratic)
    data = dealt(HELD, shape=(2,), classes=2)
    data.dataset.x[data.train] = np.repeat(np.stack([CURVATURE, OPTIMUM], 1), HELD, axis=0)
    common = settings(rounds=number, local_steps=5, init="zeros", eval_every=number, **given)
    w = state(finish(simulation(algorithm, data, common, model="quadratic")))["w"].item()
    m = np.array(HELD) if common.aggregation == "samples" else np.ones(3)
    return w, m / m.sum()


def optimum(p, curvature=CURVATURE):
    return (p * curvature * OPTIMUM).sum() / (p * curvature).sum()


CORRECTED = [SCAFFOLD(lr=0.1), FedDyn(lr=0.1, alpha=1.0), FedDC(lr=0.1, alpha=1.0)]


@pytest.mark.parametrize("execution", GENERAL)
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize("algorithm", CORRECTED, ids=lambda a: type(a).__name__)
def test_corrections_reach_the_optimum_of_unlike_quadratics(
    algorithm, aggregation, execution, monkeypatch
):
    given = {"aggregation": aggregation, "execution": execution}
    w, p = on_quadratics(algorithm, monkeypatch, **given)
    assert w == pytest.approx(optimum(p), abs=1e-9)


@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_fedavg_stays_off_the_optimum_of_unlike_quadratics(aggregation, monkeypatch):
    """Five steps shrink client k's distance by (1 - lr a_k)^5: its weight is what is missing to 1."""
    w, p = on_quadratics(FedAvg(lr=0.1), monkeypatch, aggregation=aggregation)
    assert w == pytest.approx(optimum(p, 1 - (1 - 0.1 * CURVATURE) ** 5), abs=1e-12)
    assert abs(w - optimum(p)) > 0.2


ROWS = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-50, 50))
)


class Delivered:
    """A federation that delivers what is sent; client k holds k + 1 samples."""

    def upload(self, ids, message):
        return message

    def weights(self, ids):
        m = ids.double() + 1
        return m / m.sum()


@given(ROWS)
def test_ida_weights_sum_to_1_and_fall_with_distance(z):
    """A coordinate that is 1 for all clients is theirs and does not change distances."""
    k, d = z.shape
    rows = torch.from_numpy(np.hstack([z, np.ones((k, 1))]).astype(float))
    ids = torch.arange(k)
    before = {"w": torch.zeros(rows.shape[1], dtype=torch.float64)}
    after = IDA().aggregate(before, ids, torch.zeros_like(rows), rows, Delivered())["w"].numpy()
    assert after[d] == pytest.approx(1)
    p = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    r = 1 / (np.linalg.norm(z - p @ z, axis=1) + 1e-12)
    np.testing.assert_allclose(after[:d], r / r.sum() @ z, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ida_on_identical_clients_is_fedavg(dtype):
    data = dealt([8])
    copies = FederatedData(
        data.dataset, np.tile(data.train, 4), 8 * np.arange(5), data.val, data.test
    )
    found = end(IDA(lr=LR), copies, dtype=dtype)
    expected = end(FedAvg(lr=LR), copies, dtype=dtype)
    np.testing.assert_allclose(found, expected, atol=1e-12 if dtype == "float64" else 1e-6)


SENT = {"scaffold": (2, 2, 0), "feddc": (2, 2, 0), "fednova": (1, 1, 1)}
"""Of all others K d down, K d up and no numbers besides."""


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("name", CASES)
def test_bytes_and_work(name, dtype, size):
    """Table 7, in multiples of K d; FedNova's clients also send one number each."""
    algorithm, (down, up, numbers) = CASES[name][0], SENT.get(name, (1, 1, 0))
    common = settings(participation=0.5, dtype=dtype, local_steps=3)
    run = finish(simulation(algorithm, dealt(SIZES), common, seed=SEED))
    K, passes = 2, int(name == "fedsgd")
    assert len(run.history) == 6
    for T, entry in enumerate(run.history):
        assert entry["downloaded_bytes"] == size * down * K * D * T
        assert entry["uploaded_bytes"] == size * (up * K * D + numbers * K) * T
        assert entry["peer_bytes"] == 0
        assert entry["clients_uploaded"] == K * T
        assert entry["client_steps"] == (1 - passes) * 3 * K * T
        assert entry["gradient_passes"] == passes * K * T
