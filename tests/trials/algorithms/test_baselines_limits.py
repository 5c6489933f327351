"""Baselines at their limits: what they reduce to, what their states add up to, where they end."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.baselines import SIZES, N, Study
from tests.support.oracle import EXECUTIONS, GENERAL, LR, SEED, initial
from tests.support.quadratics import Quadratic, parabolas
from tests.support.simulations import finish, partitioned, rounds, settings, simulation, state
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedavgm import FedAvgM
from trials.algorithms.feddc import FedDC
from trials.algorithms.feddyn import FedDyn
from trials.algorithms.fednova import FedNova
from trials.algorithms.fedsgd import FedSGD
from trials.algorithms.ida import IDA
from trials.algorithms.scaffold import SCAFFOLD
from trials.federated_data import FederatedData
from trials.models import MODELS

WORK = {
    "participation": 0.5,
    "batch_size": 4,
    "local_epochs": 2,
    "local_steps": None,
    "weight_decay": 0.01,
    "lr_decay": 0.9,
}


def end(algorithm, data=None, level="iid", **given):
    run = simulation(
        algorithm, data or partitioned(SIZES), settings(**given), level=level, seed=SEED
    )
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
        run = simulation(algorithm, partitioned(SIZES), settings(**given), seed=SEED)
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
        simulation(cls(lr=LR, alpha=0.3), partitioned(SIZES), settings(**given), seed=SEED)
        for cls in (FedDyn, FedDC, FedDC)
    )
    for t, expected in enumerate(rounds(feddyn)):
        feddc.advance()
        zeroed.advance()
        nothing = {"g": torch.zeros_like(zeroed.state["w"]), "g_k": zeroed.fed.client_rows()}
        zeroed.state = {**zeroed.state, **nothing}
        np.testing.assert_allclose(zeroed.state["w"].numpy(), expected, atol=1e-12)
        assert (np.abs(feddc.state["w"].numpy() - expected).max() > 1e-3) == (t > 0)


CURVATURE, OPTIMUM, HELD = np.array([0.5, 2.0, 1.0]), np.array([2.0, -4.0, 1.0]), [1, 3, 2]


def on_quadratics(algorithm, monkeypatch, number=100, **given):
    """The server's weight after many rounds of five steps, and each client's weight in the aim."""
    monkeypatch.setitem(MODELS, "quadratic", Quadratic)
    data, more = parabolas(HELD, CURVATURE, OPTIMUM), {"loss": "half_squared_error", **given}
    common = settings(rounds=number, local_steps=5, init="zeros", eval_every=number, **more)
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
    data = partitioned([8])
    copies = FederatedData(
        data.dataset, np.tile(data.train, 4), 8 * np.arange(5), data.val, data.test
    )
    found = end(IDA(lr=LR), copies, dtype=dtype)
    expected = end(FedAvg(lr=LR), copies, dtype=dtype)
    np.testing.assert_allclose(found, expected, atol=1e-12 if dtype == "float64" else 1e-6)
