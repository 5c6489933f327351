"""What models are worth to each client, by hand: the worst and the spread, clients' own models and the metric `personal`,
and after fine-tuning.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support.simulations import (
    finish,
    honoured,
    local_work,
    partitioned,
    settings,
    simulation,
    timeless,
)
from trials.algorithms import ALGORITHMS
from trials.algorithms.local_only import LocalOnly
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.run.simulation import BLOCK
from trials.scoring.metrics import REGRESSION

SIZES = [5, 9, 7, 8]
OVER = ("_personal", "_worst10", "_spread")


def validated(sizes, tests=40, count=30):
    """Hand-made clients, with `count` of the test samples to validate on."""
    data = partitioned(sizes, tests=tests + count)
    return replace(data, val=data.test[::2][:count], test=np.setdiff1d(data.test, data.test[::2]))


def by_hand(data, pool, weights):
    """Accuracy of each client's (w, b) on a pool, each label as often as in its own training data."""
    x, y, found = data.dataset.x[pool].astype(float), data.dataset.y[pool], []
    for k, flat in enumerate(weights):
        right = (x @ flat[:6].reshape(3, 2).T + flat[6:]).argmax(1) == y
        held = data.dataset.y[data.train[data.offsets[k] : data.offsets[k + 1]]]
        each = [right[y == label].mean() for label in held if (y == label).any()]
        found.append(np.mean(each))
    return np.array(found)


def own_of(run):
    return run.state["z"][torch.arange(run.fed.n)].numpy()


def agree(entry, name, each):
    """The mean over clients, the worst tenth and the spread."""
    tenth, ends = -(-len(each) // 10), {"_spread": each.std()}
    ends["_worst10"] = np.sort(each)[:tenth].mean()
    ends["_personal" if name == "test_accuracy" else ""] = each.mean()
    for end, value in ends.items():
        assert entry[f"{name}{end}"] == pytest.approx(value, abs=1e-12)


# What a client is tested on


def federated(y, test, owners, client=None):
    """Training samples 0, 1, ... partitioned as `owners` lists them; the rest is test."""
    y, n = np.array(y), len(y)
    client = None if client is None else np.array(client)
    dataset = Dataset(np.zeros((n, 2), np.float32), y, np.isin(np.arange(n), test), 3, client)
    train, offsets = np.concatenate(owners), np.cumsum([0, *map(len, owners)])
    return FederatedData(dataset, train, offsets, np.array([], int), np.array(test))


def test_labels_are_mixed_as_the_client_holds_them():
    """Client 0 holds label 0 three times and label 1 once; label 2 is in no test set."""
    y = [0, 0, 0, 1, 1, 2, 2, 0, 1, 1]
    _, groups, shares = federated(y, [7, 8, 9], [[0, 1, 2, 3], [4, 5], [6]]).client_tests
    assert [g.tolist() for g in groups] == [[7], [8, 9]]
    np.testing.assert_allclose(shares, [[0.75, 0.25], [0.0, 1.0]], err_msg="two clients are known")
    assert federated([0.5, 1.5, 2.5], [2], [[0], [1]]).client_tests is None, "a regression"


def test_clients_with_their_own_test_samples_are_tested_on_those():
    """Unless they are dealt anew."""
    client, born, dealt = [5, 5, 8, 8, 9, 8, 5, 8], [[0, 1], [2, 3], [4]], [[0, 2], [1, 3], [4]]
    _, groups, shares = federated([0, 1] * 4, [5, 6, 7], born, client).client_tests
    assert [g.tolist() for g in groups] == [[6], [5, 7]], "nobody tests client 9"
    np.testing.assert_array_equal(shares, np.eye(2))
    shares = federated([0, 1] * 4, [5, 6, 7], dealt, client).client_tests.shares
    np.testing.assert_allclose(shares, [[1, 0], [0, 1], [1, 0]])


# With which models


@pytest.mark.parametrize("sizes", [[3] * (BLOCK + 1), [3, 4, 5]], ids=["many", "few"])
def test_the_final_models_on_every_client(sizes):
    """Also of one client more than are tested at a time; without the metric of round 0 and the evaluations of a score only."""
    for name, lr in (("fedavg", 0.5), ("local_only", 0.5)):
        common = settings(rounds=8, eval_every=2)
        run = finish(simulation(ALGORITHMS[name](lr=lr), validated(sizes), common))
        n, data = len(sizes), run.fed.data
        own = own_of(run) if name == "local_only" else [run.state["w"].numpy()] * n
        agree(run.history[-1], "test_accuracy", by_hand(data, data.test, own))
        assert [any(k.endswith(OVER) for k in entry) for entry in run.history] == [1, 0, 1, 1, 1]
        assert run.own_models == (name == "local_only")


@pytest.mark.parametrize("execution", ["sequential", "batched"])
def test_each_client_is_scored_with_its_own_model_on_its_own_labels(execution):
    common = settings(metric="personal", execution=execution)
    run = simulation(LocalOnly(lr=0.8), validated(SIZES), common)
    while True:
        entry, own = run.history[-1], own_of(run)
        test, val = (
            by_hand(run.fed.data, pool, own) for pool in (run.fed.data.test, run.fed.data.val)
        )
        assert entry["test_accuracy_personal"] == pytest.approx(test.mean(), abs=1e-12)
        assert entry["val_accuracy_personal"] == pytest.approx(val.mean(), abs=1e-12)
        if run.finished:
            break
        run.advance()
    agree(entry, "test_accuracy", test)
    assert abs(test.mean() - entry["test_accuracy"]) > 0.01  # the average on everybody's data
    assert run.task.metric == "accuracy_personal"


def test_clients_that_kept_their_samples_are_scored_on_those():
    """Three with four training, two validation and two test samples of their own each; the error of a regression, too."""
    nth, ids = np.tile(np.arange(8), 3), np.arange(24)
    x = np.random.default_rng(0).normal(size=(24, 2)).astype(np.float32)
    y = np.random.default_rng(1).normal(size=24).astype(np.float32)
    dataset = Dataset(x, y, nth > 5, 1, np.repeat([7, 3, 5], 8), task=REGRESSION)
    parts = ids[(nth == 4) | (nth == 5)], ids[nth > 5]
    data = FederatedData(dataset, ids[nth < 4], np.array([0, 4, 8, 12]), *parts)
    run = finish(simulation(LocalOnly(lr=0.05), data, settings(metric="personal"), "linear"))
    for part, first in (("val", 4), ("test", 6)):
        each = []
        for k, flat in enumerate(own_of(run)):
            kept = np.array([8 * k + first, 8 * k + first + 1])
            off = x[kept].astype(float) @ flat[:2] + flat[2:] - y[kept].astype(float)
            each.append((off**2).mean())
        assert run.history[-1][f"{part}_mse_personal"] == pytest.approx(np.mean(each), rel=1e-9)
    assert run.history[-1]["test_mse_worst10"] == pytest.approx(np.max(each), rel=1e-9)


def test_a_server_s_model_is_everyone_s_where_that_is_ranked():
    """SAFL ranks the server's and keeps clients' own: the setting says which are asked."""
    data, safl = validated(SIZES), ALGORITHMS["safl"](lr=0.8)
    pooled = finish(simulation(safl, data, settings()))
    asked = finish(simulation(safl, data, settings(metric="personal")))
    server = by_hand(data, data.test, [pooled.state["w"].numpy()] * 4)
    own = by_hand(data, data.test, own_of(pooled))
    assert np.abs(server - own).max() > 0.01
    agree(pooled.history[-1], "test_accuracy", server)
    agree(asked.history[-1], "test_accuracy", own)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_has_it_and_nothing_else_changes(name):
    """Nor does fine-tuning, which is not counted."""
    given, level = honoured(name, {"eval_every": 1, **local_work(name)}, "iid")
    plain, run = (
        finish(simulation(ALGORITHMS[name](), validated(SIZES), settings(**more), level=level))
        for more in (given, {**given, "metric": "personal", "fine_tune": 1})
    )
    left = []
    for history in (timeless(run.history), timeless(plain.history)):
        names = [k for k in history[1] if not k.endswith(OVER)]
        left.append([[entry[k] for k in names if k in entry] for entry in history])
    assert left[0] == left[1]
    for entry in run.history:
        assert np.isfinite([entry["test_accuracy_personal"], entry["val_accuracy_personal"]]).all()
    tuned = [e["round"] for e in run.history if "test_accuracy_fine_tuned" in e]
    assert tuned == [0, run.fed.settings.rounds]


# Fine-tuning


def tuned_by_hand(data, starts, rate, epochs, momentum=0.0):
    """Each client's weights after full-batch steps of softmax regression from its start (9,)."""
    found = []
    for k, start in enumerate(starts):
        ids = data.train[data.offsets[k] : data.offsets[k + 1]]
        x, one_hot = data.dataset.x[ids].astype(float), np.eye(3)[data.dataset.y[ids]]
        own, velocity = start.copy(), np.zeros(9)
        for _ in range(epochs):
            exponents = np.exp(x @ own[:6].reshape(3, 2).T + own[6:])
            dz = (exponents / exponents.sum(1, keepdims=True) - one_hot) / len(ids)
            velocity = momentum * velocity + np.concatenate([(dz.T @ x).ravel(), dz.sum(0)])
            own = own - rate * velocity
        found.append(own)
    return found


@pytest.mark.parametrize("execution", ["sequential", "batched"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_each_client_trains_the_final_model_and_is_tested_on_its_own_labels(execution, momentum):
    """At the fifth round's rate; clients with models of their own go on from those."""
    data = partitioned(SIZES, tests=40)
    common = settings(fine_tune=3, lr_decay=0.9, momentum=momentum, execution=execution)
    for name in ("fedavg", "local_only"):
        run = finish(simulation(ALGORITHMS[name](lr=0.8), data, common))
        starts = own_of(run) if name == "local_only" else [run.state["w"].numpy()] * 4
        tuned = tuned_by_hand(data, starts, 0.8 * 0.9**4, 3, momentum)
        each = by_hand(data, data.test, tuned)
        agree(run.history[-1], "test_accuracy_fine_tuned", each)
        if name == "fedavg":
            assert np.abs(each - by_hand(data, data.test, starts)).max() > 0.01


# On all training samples


def test_training_samples_are_scored_where_it_is_asked_for_and_nothing_else_changes():
    """Accuracy and loss of the server's model; a round's own `train_loss` is of its local training."""
    plain, asked = (
        finish(simulation(ALGORITHMS["fedavg"](lr=0.5), validated(SIZES), settings(**more)))
        for more in ({}, {"score_training": True})
    )
    data, w = asked.fed.data, asked.state["w"].numpy()
    x, y = data.dataset.x[data.train].astype(float), data.dataset.y[data.train]
    logits = x @ w[:6].reshape(3, 2).T + w[6:]
    loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]
    last = asked.history[-1]
    assert last["train_accuracy"] == pytest.approx((logits.argmax(1) == y).mean(), abs=1e-12)
    assert last["global_train_loss"] == pytest.approx(loss.mean(), abs=1e-12)
    for before, after in zip(timeless(plain.history), timeless(asked.history), strict=True):
        assert {key: after[key] for key in before} == before
