"""DeFed's consensus: how its models meet, how they are scored apart, what meeting sends."""

import numpy as np
import pytest
import torch

from tests.support.defed import GRAPHS, LR, ONE, SIZES, TEN, DeFed, among, circle, iterations
from tests.support.oracle import SEED, clients, gradient, selected
from tests.support.simulations import finish, partitioned, settings, simulation, state


@pytest.mark.parametrize("count", [6, 3])
@pytest.mark.parametrize("scale", ["one", "samples"])
@pytest.mark.parametrize("graph", [*GRAPHS, "erdos_renyi(0.5)"])
def test_the_mean_model_moves_by_the_mean_gradient(graph, scale, count):
    """W is doubly stochastic, awake or not, so that exchange leaves the mean where it is."""
    data = partitioned(SIZES)
    parts, m = list(clients(data)), np.array(SIZES)
    s = m / m.sum() if scale == "samples" else np.ones(6)
    common = settings(participation=count / 6, init="own", **ONE)
    run = simulation(DeFed(lr=LR, topology=graph, grad_scale=scale), data, common, seed=SEED)
    before = state(run)["W"].copy()
    for t, after in enumerate(iterations(run), 1):
        pull = sum(s[k] * gradient(before[k], *parts[k]) for k in selected(t, 6, count))
        np.testing.assert_allclose(
            after.mean(0), before.mean(0) - LR * pull / 6, rtol=0, atol=1e-12
        )
        before = after


def spread(models):
    return np.sqrt(((models - models.mean(0)) ** 2).sum(1).mean())


@pytest.mark.parametrize(("degree", "norm"), [(2, 0.873), (4, 0.647), (6, 0.374), (8, 0.111)])
def test_without_a_gradient_consensus_comes_at_the_spectral_norm(degree, norm):
    """No step loses less than the norm of W - 11'/K says; in the end each loses just that."""
    algorithm = DeFed(lr=1e-300, topology=f"ring({degree})")
    common = settings(init="own", rounds=12, **ONE)
    run = simulation(algorithm, partitioned(TEN), common, seed=SEED)
    mean = state(run)["W"].mean(0)
    errors = [spread(state(run)["W"])]
    for models in iterations(run):
        np.testing.assert_allclose(models.mean(0), mean, rtol=0, atol=1e-13)
        errors.append(spread(models))
    ratios = np.divide(errors[1:], errors[:-1])
    exact = np.linalg.norm(circle(10, degree) - 0.1, 2)
    assert exact == pytest.approx(norm, abs=5e-4)
    assert (ratios <= exact + 1e-6).all()
    assert ratios[-1] == pytest.approx(norm, abs=0.03)
    assert [entry["consensus_error"] for entry in run.history] == pytest.approx(errors, rel=1e-6)


def test_an_eigenvector_shrinks_by_its_eigenvalue_at_once():
    """The starts cos(2 pi k / K) on a ring: (1 + 2 cos(2 pi / K)) / 3 of them is left a step."""
    wave = np.cos(2 * np.pi * np.arange(10) / 10)
    run = simulation(DeFed(lr=1e-300), partitioned(TEN), settings(**ONE), seed=SEED)
    d = state(run)["W"].shape[1]
    run.state["W"] = torch.from_numpy(np.outer(wave, np.ones(d)))
    rate = (1 + 2 * np.cos(2 * np.pi / 10)) / 3
    assert rate == pytest.approx(0.873, abs=5e-4)
    for t, models in enumerate(iterations(run), 1):
        np.testing.assert_allclose(models, rate**t * np.outer(wave, np.ones(d)), rtol=0, atol=1e-12)


def accuracy(w, x, y):
    z = x @ w[:6].reshape(3, 2).T + w[6:]
    return np.mean(z.argmax(1) == y)


def cross_entropy(w, x, y):
    z = x @ w[:6].reshape(3, 2).T + w[6:]
    return np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y])


@pytest.mark.parametrize("sizes", [SIZES, [1, 40, 2]])
def test_scores_are_the_clients_mean_and_the_average_models(sizes):
    """A plain mean: a client's score on the shared test set does not depend on its own size."""
    data = partitioned(sizes, tests=40)
    x, y = data.dataset.x[data.test].astype(float), data.dataset.y[data.test]
    run = simulation(DeFed(lr=1.0), data, settings(init="own", **ONE), seed=SEED)
    apart = 0.0
    while True:
        models, entry = state(run)["W"], run.history[-1]
        mean = models.mean(0)
        for prefix, of in (("accuracy", accuracy), ("loss", cross_entropy)):
            scores = [of(w, x, y) for w in models]
            assert entry[f"test_{prefix}"] == pytest.approx(np.mean(scores), abs=1e-12)
            average = of(mean, x, y)
            assert entry[f"average_test_{prefix}"] == pytest.approx(average, abs=1e-12)
        apart = max(apart, abs(entry["test_loss"] - entry["average_test_loss"]))
        assert entry["consensus_error"] == pytest.approx(spread(models), rel=1e-9)
        if run.finished:
            break
        run.advance()
    assert apart > 1e-3


def test_a_common_start_is_consensus():
    run = simulation(DeFed(), partitioned(SIZES), settings(**ONE))
    assert run.history[0]["consensus_error"] == pytest.approx(0, abs=1e-12)
    run.advance()
    assert run.history[1]["consensus_error"] > 1e-3


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("degree", [2, 4, 6, 8])
def test_a_lattice_sends_K_l_d_floats_an_iteration(degree, dtype, size):  # noqa: N802
    algorithm = DeFed(topology=f"ring({degree})")
    run = finish(simulation(algorithm, partitioned(TEN), settings(dtype=dtype, local_steps=2)))
    for T, entry in enumerate(run.history):
        assert entry["peer_bytes"] == size * 10 * degree * run.fed.d * T
        assert entry["uploaded_bytes"] == entry["downloaded_bytes"] == 0
        assert entry["client_steps"] == 2 * 10 * T


@pytest.mark.parametrize(("graph", "edges"), [("star", 5), ("complete", 15), ("ring(8)", 15)])
def test_each_edge_carries_a_model_each_way(graph, edges):
    run = finish(simulation(DeFed(topology=graph), partitioned(SIZES), settings(**ONE)))
    assert [e["peer_bytes"] for e in run.history] == [
        8 * 2 * edges * run.fed.d * T for T in range(6)
    ]


@pytest.mark.parametrize("graph", ["ring(2)", "star", "complete"])
def test_those_asleep_send_nothing(graph):
    run = finish(
        simulation(
            DeFed(topology=graph), partitioned(SIZES), settings(participation=0.5, **ONE), seed=SEED
        )
    )
    total, found = 0, [0]
    for t in range(1, 6):
        w = among(GRAPHS[graph], selected(t, 6, 3))
        total += 8 * run.fed.d * np.count_nonzero(w - np.diag(np.diag(w)))
        found.append(total)
    assert [entry["peer_bytes"] for entry in run.history] == found
    assert [entry["client_steps"] for entry in run.history] == [3 * t for t in range(6)]
    full = 8 * run.fed.d * 5 * np.count_nonzero(GRAPHS[graph] - np.diag(np.diag(GRAPHS[graph])))
    assert total < full
