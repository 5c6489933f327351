"""Which setting of an algorithm is which other algorithm, and what a round sends (table 7)."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.simulations import finish, partitioned, same, settings, simulation, state
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedprox import FedProx
from trials.algorithms.folb import FOLB
from trials.algorithms.safl import SAFL
from trials.federated_data import FederatedData

SIZES = [7, 12, 5, 9, 16]
COMMON = {
    "participation": 0.6,
    "batch_size": 4,
    "local_epochs": 2,
    "local_steps": None,
    "momentum": 0.5,
    "weight_decay": 0.01,
}


def ran(algorithm, data=None, level="iid", **given):
    return finish(simulation(algorithm, data or partitioned(SIZES), settings(**given), level=level))


def apart(a, b):
    return np.abs(state(a)["w"] - state(b)["w"]).max()


def same_server(a, b):
    """Assert that two runs end with the same server weights up to rounding."""
    assert not a.diverged
    assert not b.diverged
    assert apart(a, b) < 1e-10


@pytest.mark.parametrize("level", ["iid", "iid+system(steps=1..6)"])
def test_fedprox_without_mu_is_fedavg(level):
    fedavg = ran(FedAvg(lr=0.2), level=level, **COMMON)
    same(ran(FedProx(lr=0.2, mu=0.0), level=level, **COMMON), fedavg, 0.0)
    assert apart(ran(FedProx(lr=0.2, mu=0.5), level=level, **COMMON), fedavg) > 1e-3


def test_folb_on_equal_gradients_is_fedprox_with_plain_aggregation():
    """Clients with identical data do unequal work, so that their models differ."""
    data = partitioned([8])
    copies = FederatedData(
        data.dataset, np.tile(data.train, 4), 8 * np.arange(5), data.val, data.test
    )
    level = "iid+system(steps=1..9)"
    folb = ran(FOLB(lr=0.3, mu=0.1), copies, level)
    same(folb, ran(FedProx(lr=0.3, mu=0.1), copies, level, aggregation="plain"), 1e-12)


def test_folb_differs_from_fedprox_where_gradients_do():
    fedprox = ran(FedProx(lr=0.3, mu=0.1), aggregation="plain")
    assert apart(ran(FOLB(lr=0.3, mu=0.1)), fedprox) > 1e-3


def test_folb_heterogeneity_with_psi_0_is_plain():
    plain, without, with_psi = (
        ran(algorithm, **COMMON)
        for algorithm in (
            FOLB(lr=0.2, mu=0.1),
            FOLB(lr=0.2, mu=0.1, variant="heterogeneity", psi=0.0),
            FOLB(lr=0.2, mu=0.1, variant="heterogeneity", psi=5.0),
        )
    )
    same(without, plain, 0.0)
    assert apart(with_psi, plain) > 1e-3


def test_safl_with_epsilon_1_and_a_common_start_is_fedavg():
    same_server(ran(SAFL(lr=0.2, epsilon=1.0), **COMMON), ran(FedAvg(lr=0.2), **COMMON))


def test_safl_that_never_masks_is_fedavg():
    """p = exp(-t / L) = 0 for a tiny L."""
    fedavg = ran(FedAvg(lr=0.2), **COMMON)
    same_server(ran(SAFL(lr=0.2, epsilon=0.0, L=1e-4), **COMMON), fedavg)
    assert apart(ran(SAFL(lr=0.2, epsilon=0.0, L=80.0), **COMMON), fedavg) > 1e-3


def test_safl_with_epsilon_1_and_own_starts_is_fedavg_with_own_starts():
    """Where the clients began only matters in round 1."""
    own = {**COMMON, "init": "own"}
    same_server(ran(SAFL(lr=0.2, epsilon=1.0), **own), ran(FedAvg(lr=0.2), **own))
    assert apart(ran(FedAvg(lr=0.2), **own), ran(FedAvg(lr=0.2), **COMMON)) > 1e-3


class Fixed:
    """A federation that hands out the gradients it was made with and delivers what is sent."""

    def __init__(self, *gradients):
        self.gradients = list(gradients)

    def gradient(self, ids, w):
        return self.gradients.pop(0)

    def upload(self, ids, message):
        return message


def folb_weights(algorithm, *gradients):
    """The weights FOLB gives k clients, by the updates delta_k = e_k."""
    k, d = gradients[0].shape
    rows = [torch.cat([torch.from_numpy(g), torch.zeros(k, k)], 1) for g in gradients]
    w = torch.zeros(1, d + k, dtype=torch.float64)
    start = w.expand(k, -1)
    local = start.clone()
    local[:, d:] = torch.eye(k)
    after = algorithm.aggregate({"w": w[0]}, torch.arange(k), start, local, Fixed(*rows))["w"]
    assert (after[:d] == 0).all()
    return after[d:].numpy()


GRADIENTS = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-50, 50))
)


@given(GRADIENTS)
def test_folb_absolute_weights_sum_to_1(g):
    g = g.astype(float)
    p, mean = folb_weights(FOLB(), g), g.mean(0)
    if not g.sum(0).any():
        assert (p == 0).all()
        return
    assert np.abs(p).sum() == pytest.approx(1)
    agreement = g @ mean
    np.testing.assert_allclose(p * np.abs(agreement).sum(), agreement, atol=1e-9)


@given(GRADIENTS, st.data(), st.sampled_from([0.1, 1.0, 100.0]))
def test_folb_heterogeneity_absolute_weights_sum_to_1(g, more, psi):
    left = more.draw(arrays(np.int64, g.shape, elements=st.integers(-50, 50)))
    g, left = g.astype(float), left.astype(float)
    norm, mean = np.linalg.norm(g, axis=1), g.mean(0)
    gamma = np.divide(np.linalg.norm(left, axis=1), norm, out=np.zeros(len(g)), where=norm > 0)
    importance = g @ mean - psi * np.minimum(gamma, 1) * (mean @ mean)
    assume(np.abs(importance).sum() > 1e-6)
    p = folb_weights(FOLB(mu=0.0, variant="heterogeneity", psi=psi), g, left)
    assert np.abs(p).sum() == pytest.approx(1)
    np.testing.assert_allclose(p, importance / np.abs(importance).sum(), atol=1e-9)


@pytest.mark.parametrize(
    ("algorithm", "down", "up"),
    [
        (FedAvg(), lambda K, d, T: K * d * T, lambda K, d, T: K * d * T),
        (FedProx(), lambda K, d, T: K * d * T, lambda K, d, T: K * d * T),
        (FOLB(), lambda K, d, T: K * d * T, lambda K, d, T: 2 * K * d * T),
        (
            FOLB(variant="heterogeneity"),
            lambda K, d, T: K * d * T,
            lambda K, d, T: (2 * K * d + K) * T,
        ),
        (SAFL(), lambda K, d, T: K * d * (T - 1), lambda K, d, T: K * d * T),
    ],
    ids=["fedavg", "fedprox", "folb", "folb-heterogeneity", "safl"],
)
@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
def test_bytes_sent(algorithm, down, up, dtype, size):
    run = ran(algorithm, participation=0.6, dtype=dtype, local_steps=2)
    K, d = 3, run.fed.d
    for T, entry in enumerate(run.history):
        assert entry["uploaded_bytes"] == size * up(K, d, T)
        assert entry["downloaded_bytes"] == size * (down(K, d, T) if T else 0)
        assert entry["peer_bytes"] == 0
        assert entry["clients_uploaded"] == K * T
        assert entry["client_steps"] == 2 * K * T
