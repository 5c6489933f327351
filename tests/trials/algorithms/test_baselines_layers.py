"""ASTW and FedMA, which look at layers, against NumPy on a small network laid out by hand."""

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from tests.support.oracle import (
    CLASSES,
    FEATURES,
    GENERAL,
    LR,
    SEED,
    STEPS,
    agrees,
    clients,
    selected,
    shares,
)
from tests.support.simulations import finish, partitioned, rounds, settings, simulation, state
from trials.algorithms.astw import ASTW
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedma_fixed_width import FedMAFixedWidth
from trials.common.randomness import uniform

SIZES = [5, 9, 3, 12]
N = len(SIZES)
PARTS = list(clients(partitioned(SIZES)))
UNITS = 3
NETWORK = f"mlp({UNITS},{UNITS})"
SHAPES = [(UNITS, FEATURES), (UNITS,), (UNITS, UNITS), (UNITS,), (CLASSES, UNITS), (CLASSES,)]
SPLITS = np.cumsum([np.prod(shape) for shape in SHAPES])
D = int(SPLITS[-1])
SHALLOW = int(SPLITS[1])


def unpacked(w):
    return [part.reshape(s) for part, s in zip(np.split(w, SPLITS[:-1]), SHAPES, strict=True)]


def packed(*parts):
    return np.concatenate([part.ravel() for part in parts])


def forward(w, x):
    W1, b1, W2, b2, W3, b3 = unpacked(w)
    h1 = np.maximum(x @ W1.T + b1, 0)
    h2 = np.maximum(h1 @ W2.T + b2, 0)
    return h1, h2, h2 @ W3.T + b3


def loss(w, x, y):
    z = forward(w, x)[2]
    return np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y])


def gradient(w, x, y):
    _, _, W2, _, W3, _ = unpacked(w)
    h1, h2, z = forward(w, x)
    d3 = (np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(CLASSES)[y]) / len(y)
    d2 = (d3 @ W3) * (h2 > 0)
    d1 = (d2 @ W2) * (h1 > 0)
    return packed(d1.T @ x, d1.sum(0), d2.T @ h1, d2.sum(0), d3.T @ h2, d3.sum(0))


def trained(w, k, lr=LR):
    for _ in range(STEPS):
        w = w - lr * gradient(w, *PARTS[k])
    return w


def initial():
    fan_in = np.repeat([FEATURES, UNITS], [SHALLOW, D - SHALLOW])
    return (2 * uniform("initial", SEED, -1, np.arange(D)) - 1) / np.sqrt(fan_in)


def run_of(algorithm, model=NETWORK, **given):
    return simulation(algorithm, partitioned(SIZES), settings(**given), model=model, seed=SEED)


def end(algorithm, model=NETWORK, **given):
    return state(finish(run_of(algorithm, model, **given)))["w"]


def test_the_gradient_is_the_slope_of_the_loss():
    w, h = initial(), 1e-6
    for x, y in PARTS:
        slope = [(loss(w + h * e, x, y) - loss(w - h * e, x, y)) / (2 * h) for e in np.eye(D)]
        np.testing.assert_allclose(gradient(w, x, y), slope, atol=1e-8)


def astw(A, loop, last, selected_, aggregation="samples", lr_decay=1.0):
    """Chen et al. 2020: deep layers are due in the `last` rounds of each loop.

    The server's copy of a part is what was uploaded, not what the client made of it since.
    """
    w, z, t = initial(), np.tile(initial(), (N, 1)), 0
    copies = {"shallow": {}, "deep": {}}
    places = {"shallow": slice(0, SHALLOW), "deep": slice(SHALLOW, D)}
    m = np.array(SIZES) if aggregation == "samples" else np.ones(N)
    while True:
        t += 1
        due = ["shallow", "deep"] if (t - 1) % loop >= loop - last else ["shallow"]
        for k in selected(t, N, selected_):
            start = z[k].copy()
            for part in due:
                start[places[part]] = w[places[part]]
            z[k] = trained(start, k, LR * lr_decay ** (t - 1))
            for part in due:
                copies[part][k] = (t, z[k, places[part]].copy())
        w = w.copy()
        for part in due:
            q = {k: m[k] * A ** -(t - tau) for k, (tau, _) in copies[part].items()}
            mixed = sum(q[k] * copy for k, (_, copy) in copies[part].items())
            w[places[part]] = mixed / sum(q.values())
        yield w


@pytest.mark.parametrize("execution", GENERAL)
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize(
    ("loop", "share", "last"), [(3, 1 / 3, 1), (3, 0.5, 2), (4, 0.1, 1), (1, 1 / 3, 1), (2, 1, 2)]
)
def test_astw(loop, share, last, aggregation, execution):
    algorithm = ASTW(lr=LR, A=1.7, loop=loop, deep_share=share)
    common = {"participation": 0.5, "rounds": 12, "aggregation": aggregation, "lr_decay": 0.9}
    oracle = astw(1.7, loop, last, 2, aggregation, 0.9)
    agrees(run_of(algorithm, execution=execution, **common), oracle)


def test_astw_defaults():
    """A = e / 2, and deep layers in 5 of 15 rounds."""
    oracle = astw(np.e / 2, 15, 5, 2)
    agrees(run_of(ASTW(lr=0.5), participation=0.5, rounds=18), oracle)


def test_deep_layers_wait_for_their_rounds():
    run = run_of(ASTW(lr=LR, loop=3, deep_share=1 / 3), participation=0.5, rounds=7)
    before = run.state["w"].numpy().copy()
    for t, w in enumerate(rounds(run), start=1):
        moved = w != before
        assert moved[:SHALLOW].any()
        assert moved[SHALLOW:].any() == (t % 3 == 0)
        before = w


@pytest.mark.parametrize("model", [NETWORK, "logreg"])
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_astw_without_loops_and_age_is_fedavg_of_all(model, aggregation):
    common = {"batch_size": 4, "local_steps": 3, "momentum": 0.5, "aggregation": aggregation}
    found = end(ASTW(lr=LR, A=1.0, loop=1), model, **common)
    np.testing.assert_allclose(found, end(FedAvg(lr=LR), model, **common), atol=1e-12)


def test_astw_of_one_layer_has_no_deep_part():
    """The whole model is exchanged in every round of the loop."""
    found, expected = (
        end(ASTW(lr=LR, A=1.5, loop=loop), "logreg", participation=0.5) for loop in (15, 1)
    )
    np.testing.assert_array_equal(found, expected)
    apart = end(FedAvg(lr=LR), "logreg", participation=0.5) - found
    assert np.abs(apart).max() > 1e-3


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
def test_astw_sends_what_is_due(dtype, size):
    common = {"participation": 0.5, "rounds": 9, "local_steps": 2, "dtype": dtype}
    run, K, sent = finish(run_of(ASTW(lr=LR, loop=4, deep_share=0.5), **common)), 2, 0
    for T, entry in enumerate(run.history):
        sent += 0 if T == 0 else size * K * (D if (T - 1) % 4 >= 2 else SHALLOW)
        assert entry["uploaded_bytes"] == entry["downloaded_bytes"] == sent
        assert entry["clients_uploaded"] == K * T
        assert entry["client_steps"] == 2 * K * T
        assert entry["gradient_passes"] == entry["peer_bytes"] == 0


def apart(rows, reference):
    return ((rows - reference) ** 2).sum()


def arranged(w, first, second):
    """The same network with its hidden units in another order."""
    W1, b1, W2, b2, W3, b3 = unpacked(w)
    first, second = list(first), list(second)
    return packed(W1[first], b1[first], W2[second][:, first], b2[second], W3[:, second], b3)


def matched(w, reference):
    """Layer after layer the best of all orders of its units, found by trying each."""
    W1, b1, W2, b2, _, _ = unpacked(w)
    V1, c1, V2, c2, _, _ = unpacked(reference)
    orders = [list(order) for order in permutations(range(UNITS))]
    first = min(orders, key=lambda o: apart(W1[o], V1) + apart(b1[o], c1))
    second = min(orders, key=lambda o: apart(W2[o][:, first], V2) + apart(b2[o], c2))
    return arranged(w, first, second), (first, second)


def fedma(selected_, aggregation="samples"):
    w, t = initial(), 0
    while True:
        t += 1
        ids = selected(t, N, selected_)
        local = np.array([matched(trained(w, k), w)[0] for k in ids])
        w = shares(PARTS, ids, aggregation) @ local
        yield w


@pytest.mark.parametrize("execution", GENERAL)
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize("count", [2, 4])
def test_fedma(count, aggregation, execution):
    common = {"participation": count / N, "aggregation": aggregation, "execution": execution}
    agrees(run_of(FedMAFixedWidth(lr=LR), **common), fedma(count, aggregation))


def aggregated(run, local):
    """The server's weights when clients end at these rows."""
    ids = torch.arange(len(local))
    rows = torch.from_numpy(local)
    start = run.state["w"].expand(len(local), -1)
    run.fed.begin(1)
    return run.algorithm.aggregate(run.state, ids, start, rows, run.fed)["w"].numpy()


@pytest.mark.parametrize("seed", range(20))
def test_fedma_finds_the_orders_that_trying_all_finds(seed):
    """Clients far from the server's weights, whose best order is rarely the one they have."""
    rng = np.random.default_rng(seed)
    run = run_of(FedMAFixedWidth(lr=LR))
    local, reference = rng.normal(size=(N, D)), run.state["w"].numpy()
    found = [matched(w, reference) for w in local]
    assert any(order != [list(range(UNITS))] * 2 for order in map(list, (o for _, o in found)))
    expected = shares(PARTS, range(N)) @ np.array([w for w, _ in found])
    np.testing.assert_allclose(aggregated(run, local), expected, atol=1e-12)


def test_fedma_does_not_see_in_which_order_clients_have_their_units():
    rng = np.random.default_rng(0)
    run = run_of(FedMAFixedWidth(lr=LR))
    local = run.state["w"].numpy() + 0.3 * rng.normal(size=(N, D))
    expected = aggregated(run, local)
    for _ in range(10):
        shuffled = np.array(
            [arranged(w, rng.permutation(UNITS), rng.permutation(UNITS)) for w in local]
        )
        for w, same in zip(local, shuffled, strict=True):
            np.testing.assert_allclose(forward(w, PARTS[0][0])[2], forward(same, PARTS[0][0])[2])
        np.testing.assert_allclose(aggregated(run, shuffled), expected, atol=1e-12)
    fedavg = aggregated(run_of(FedAvg(lr=LR)), shuffled)
    assert np.abs(fedavg - expected).max() > 1e-2


IMAGES = (1, 20, 20)
"""LeNet-5 leaves 16 maps of 2x2 of them, so that an input of a dense layer is not a map."""


def shuffle_lenet(views, rng):
    """Reorder maps and units of each layer but the last, with the next layer's inputs."""
    new = {name: value.clone() for name, value in views.items()}
    layers = ["conv1", "conv2", "hidden1", "hidden2", "out"]
    for name, after in pairwise(layers):
        order = torch.from_numpy(rng.permutation(len(new[f"{name}.bias"])))
        new[f"{name}.weight"], new[f"{name}.bias"] = (
            new[f"{name}.{part}"][order] for part in ("weight", "bias")
        )
        inputs = new[f"{after}.weight"]
        grouped = inputs.reshape(len(inputs), len(order), -1)[:, order]
        new[f"{after}.weight"] = grouped.reshape(inputs.shape)
    return torch.cat([value.flatten() for value in new.values()])


def test_fedma_matches_the_maps_of_convolutions():
    rng, data = np.random.default_rng(0), partitioned([4, 6], shape=IMAGES)
    run = simulation(FedMAFixedWidth(), data, settings(rounds=1), model="lenet5", seed=SEED)
    model, w = run.fed.model, run.state["w"]
    noise = torch.from_numpy(rng.normal(size=(2, model.d)))
    local = w + 0.02 * noise * w.abs()
    shuffled = torch.stack([shuffle_lenet(model.views(row), rng) for row in local])
    x = torch.from_numpy(data.dataset.x[:3]).double()
    assert (local - shuffled).abs().max() > 0.1
    for a, b in zip(local, shuffled, strict=True):
        torch.testing.assert_close(model.logits(a, x), model.logits(b, x))
    expected = np.array([0.4, 0.6]) @ local.numpy()
    np.testing.assert_allclose(aggregated(run, shuffled.numpy()), expected, atol=1e-12)


@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_fedma_has_nothing_to_match_in_one_layer(aggregation):
    common = {"participation": 0.5, "aggregation": aggregation, "local_steps": 5}
    found = end(FedMAFixedWidth(lr=LR), "logreg", **common)
    np.testing.assert_allclose(found, end(FedAvg(lr=LR), "logreg", **common), atol=1e-14)


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
def test_fedma_sends_what_fedavg_sends(dtype, size):
    """In one pass of all layers: about K d each way."""
    run = finish(run_of(FedMAFixedWidth(), participation=0.5, dtype=dtype, local_steps=2))
    for T, entry in enumerate(run.history):
        assert entry["uploaded_bytes"] == entry["downloaded_bytes"] == size * 2 * D * T
        assert entry["clients_uploaded"] == 2 * T
        assert entry["client_steps"] == 2 * 2 * T
        assert entry["gradient_passes"] == entry["peer_bytes"] == 0
