"""Where algorithms end, what their states add up to, and how their models are scored: numbers on paper."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from suite.studies.entries import load_data
from tests.support.equations import arranged, matched
from tests.support.oracle import GENERAL, SEED, Problem, activations, loss, selected, shares
from tests.support.searches import entries_of
from tests.support.simulations import (
    finish,
    partitioned,
    settings,
    simulation,
    state,
)
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.models import MODELS
from trials.models.base import Architecture
from trials.scoring.metrics import REGRESSION


class Parabola(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        curvature, optimum = x.unbind(-1)
        return (curvature.sqrt() * (self.weight - optimum)).unsqueeze(-1)


@dataclass(frozen=True)
class Quadratic(Architecture):
    """F_k(w) = a_k (w - b_k)^2 / 2, half a squared error from 0: one weight."""

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return Parabola()


def on_quadratics(monkeypatch, name, params, held, curvature, optimum, **given):
    """The server's weight after rounds from 0 on clients that hold so many alike samples (a_k, b_k)."""
    monkeypatch.setitem(MODELS, "quadratic", Quadratic)
    data = partitioned(held, shape=(2,), classes=1)
    data.dataset.x[data.train] = np.repeat(np.stack([curvature, optimum], 1), held, axis=0)
    data.dataset.x[data.test] = 1.0
    y = np.zeros(len(data.dataset.y), np.float32)
    data = replace(data, dataset=replace(data.dataset, y=y, task=REGRESSION))
    common = settings(init="zeros", loss="half_squared_error", **given)
    run = simulation(ALGORITHMS[name](**params), data, common, model="quadratic")
    return state(finish(run))["w"].item()


@pytest.mark.parametrize("execution", GENERAL)
@pytest.mark.parametrize(
    ("name", "params", "answer"), [("fedavg", {}, -1.875), ("fedprox", {"mu": 1.0}, -1.25)]
)
def test_answers_on_paper(name, params, answer, execution, monkeypatch):
    """Optima 2 and -4, sizes 1:3, two steps from 0 (the numbers of fedjax's fed_prox_test.py)."""
    given = {"rounds": 1, "local_steps": 2, "execution": execution}
    parabolas = [1, 3], np.ones(2), np.array([2.0, -4.0])
    w = on_quadratics(monkeypatch, name, {"lr": 0.5, **params}, *parabolas, **given)
    assert w == pytest.approx(answer, abs=1e-12)


UNLIKE = [1, 3, 2], np.array([0.5, 2.0, 1.0]), np.array([2.0, -4.0, 1.0])
CORRECTED = [("scaffold", {}), ("feddyn", {"alpha": 1.0}), ("feddc", {"alpha": 1.0})]


@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize(("name", "params"), [*CORRECTED, ("fedavg", {})])
def test_corrections_reach_the_optimum_of_unlike_quadratics_and_fedavg_does_not(
    name, params, aggregation, monkeypatch
):
    """Five steps shrink client k's distance by (1 - lr a_k)^5: its weight is what is missing to 1."""
    given = {"rounds": 100, "local_steps": 5, "eval_every": 100, "aggregation": aggregation}
    w = on_quadratics(monkeypatch, name, {"lr": 0.1, **params}, *UNLIKE, **given)
    held, curvature, optimum = UNLIKE
    m = np.array(held if aggregation == "samples" else [1, 1, 1])
    if name == "fedavg":
        pull = m * (1 - (1 - 0.1 * curvature) ** 5)
        assert abs(w - np.average(optimum, weights=m * curvature)) > 0.2
    else:
        pull = m * curvature
    assert w == pytest.approx(np.average(optimum, weights=pull), abs=1e-9)


# SAFL


@pytest.mark.parametrize("init", ["own", "common"])
@pytest.mark.parametrize("name", ["safl", "safl_extended", "ida_safl", "astw_safl"])
def test_the_second_model_is_the_mean_of_all_devices(name, init):
    """Theorem III.1: by size over all devices, the ones never selected at their initial weights."""
    problem = Problem({"participation": 0.4, "rounds": 2, "init": init})
    run = finish(problem.run(name, {"epsilon": 0.3, "L": 5.0}))
    never = set(range(5)) - {*problem.select(1), *problem.select(2)}
    assert never
    z = state(run)["z"]
    for k in never:
        np.testing.assert_allclose(z[k], problem.starts()[k], atol=1e-15)
    scored = run.algorithm.scored(run.state, run.fed)
    assert list(scored) == ["server", "devices"]
    mean = np.array(problem.sizes) / sum(problem.sizes) @ z
    np.testing.assert_allclose(scored["devices"].numpy(), mean, atol=1e-12)
    assert np.abs(mean - scored["server"].numpy()).max() > 1e-3


# DeFed


def scores(w, x, y):
    """Accuracy and cross-entropy."""
    return np.mean(activations(w, x)[-1].argmax(1) == y), loss(w, x, y)


@pytest.mark.parametrize("name", ["defed", "local_only"])
def test_devices_are_scored_by_a_mean_of_theirs(name):
    """DeFed's by the plain one, and their average model beside it; a client's alone by the sample-weighted one, also of
    clients that never had a turn.
    """
    sizes = [2, 30, 3, 9, 4]
    data = partitioned(sizes, tests=40)
    x, y = data.dataset.x[data.test].astype(float), data.dataset.y[data.test]
    common = settings(participation=0.4, rounds=2, init="own", aggregation="plain")
    run = simulation(ALGORITHMS[name](lr=1.0), data, common, seed=SEED)
    weights = np.full(5, 0.2) if name == "defed" else np.array(sizes) / sum(sizes)
    while True:
        models, entry = next(iter(state(run).values())), run.history[-1]
        each = np.array([scores(w, x, y) for w in models])
        expected = weights @ each
        assert [entry["test_accuracy"], entry["test_loss"]] == pytest.approx(expected, abs=1e-12)
        if name == "defed":
            average = [entry["average_test_accuracy"], entry["average_test_loss"]]
            assert average == pytest.approx(scores(models.mean(0), x, y), abs=1e-12)
        if run.finished:
            break
        run.advance()
    assert len({*selected(1, 5, 2), *selected(2, 5, 2)}) < 5


def test_a_topology_for_other_clients_is_refused_before_a_sweep_begins(tmp_path):
    np.save(tmp_path / "users.npy", np.full((6, 6), 1 / 6))
    text = f"file:{tmp_path / 'users.npy'}"
    search = {"defed.topology": {"default": text, "choices": [text, "ring(2)"]}}
    six, five = (
        entries_of(algorithms=["defed"], settings={"clients": n}, search=search) for n in (6, 5)
    )
    assert load_data(six, None, "test")
    with pytest.raises(UserError, match="must be 5 x 5 for 5 clients"):
        load_data(five, None, "test")


# FedMA

WIDTHS = (2, 3, 3, 3)


def aggregated(run, local):
    """The server's weights when clients end at these rows."""
    rows = torch.from_numpy(local)
    start = run.state["w"].expand(len(local), -1)
    run.fed.begin(1)
    ids = torch.arange(len(local))
    return run.algorithm.aggregate(run.state, ids, start, rows, run.fed)["w"].numpy()


@pytest.mark.parametrize("seed", range(10))
def test_fedma_finds_the_orders_that_trying_all_finds_whatever_they_were(seed):
    """Clients far from the server's weights, whose best order is rarely the one they have."""
    rng, problem = np.random.default_rng(seed), Problem(model="mlp(3,3)")
    run = problem.run("fedma_fixed_width", {})
    local, reference = rng.normal(size=(5, problem.d)), run.state["w"].numpy()
    ordered = np.array([matched(w, reference, WIDTHS) for w in local])
    assert np.abs(ordered - local).max() > 0
    expected = shares(problem.parts, range(5)) @ ordered
    np.testing.assert_allclose(aggregated(run, local), expected, atol=1e-12)
    near = reference + 0.3 * local
    orders = [[rng.permutation(3), rng.permutation(3)] for _ in range(5)]
    shuffled = np.array([arranged(w, of, WIDTHS) for w, of in zip(near, orders, strict=True)])
    np.testing.assert_allclose(aggregated(run, shuffled), aggregated(run, near), atol=1e-12)
    x = problem.parts[0][0]
    for w, other in zip(near, shuffled, strict=True):
        np.testing.assert_allclose(activations(w, x, WIDTHS)[-1], activations(other, x, WIDTHS)[-1])


def shuffle_lenet(views, rng):
    """Reorder maps and units of each layer but the last, with the next layer's inputs."""
    new = {name: value.clone() for name, value in views.items()}
    for name, after in pairwise(["conv1", "conv2", "hidden1", "hidden2", "out"]):
        order = torch.from_numpy(rng.permutation(len(new[f"{name}.bias"])))
        for part in ("weight", "bias"):
            new[f"{name}.{part}"] = new[f"{name}.{part}"][order]
        inputs = new[f"{after}.weight"]
        grouped = inputs.reshape(len(inputs), len(order), -1)[:, order]
        new[f"{after}.weight"] = grouped.reshape(inputs.shape)
    return torch.cat([value.flatten() for value in new.values()])


def test_fedma_matches_the_maps_of_convolutions():
    """LeNet-5 leaves 16 maps of 2x2 of these images, so that an input of a dense layer is not a map."""
    rng, data = np.random.default_rng(0), partitioned([4, 6], shape=(1, 20, 20))
    algorithm = ALGORITHMS["fedma_fixed_width"]()
    run = simulation(algorithm, data, settings(rounds=1), model="lenet5", seed=SEED)
    model, w = run.fed.model, run.state["w"]
    local = w + 0.02 * torch.from_numpy(rng.normal(size=(2, model.d))) * w.abs()
    shuffled = torch.stack([shuffle_lenet(model.views(row), rng) for row in local])
    assert (local - shuffled).abs().max() > 0.1
    expected = np.array([0.4, 0.6]) @ local.numpy()
    np.testing.assert_allclose(aggregated(run, shuffled.numpy()), expected, atol=1e-12)
