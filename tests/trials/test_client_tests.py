"""Scores of the worst clients and their spread, by hand and in real runs."""

from unittest.mock import patch

import numpy as np
import pytest
import torch

from tests.support.simulations import ROOT, partitioned, settings, simulation
from trials import models
from trials.algorithms.fedavg import FedAvg
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.models.base import Model

METRICS = {"test_accuracy_worst10", "test_accuracy_spread"}

OWN = ROOT / "tests" / "support" / "own_models.py"


def federated(y, test, owners, client=None) -> FederatedData:
    """Training samples 0, 1, ... partitioned as `owners` lists them; the rest is test."""
    y, n = np.array(y), len(y)
    x = np.zeros((n, 2), np.float32)
    mask = np.zeros(n, bool)
    mask[test] = True
    dataset = Dataset(x, y, mask, 3, None if client is None else np.array(client))
    train = np.concatenate([np.array(ids) for ids in owners])
    offsets = np.cumsum([0, *map(len, owners)])
    return FederatedData(dataset, train, offsets, np.array([], int), np.array(test))


def test_labels_are_mixed_as_the_client_holds_them():
    """Client 0 holds label 0 three times and label 1 once; label 2 is in no test set."""
    y = [0, 0, 0, 1, 1, 2, 2, 0, 1, 1]
    data = federated(y, [7, 8, 9], [[0, 1, 2, 3], [4, 5], [6]])
    _, groups, shares = data.client_tests
    assert [g.tolist() for g in groups] == [[7], [8, 9]]
    np.testing.assert_allclose(shares, [[0.75, 0.25], [0.0, 1.0]], err_msg="two clients are known")


def test_clients_with_their_own_test_samples_are_tested_on_those():
    client = [5, 5, 8, 8, 9, 8, 5, 8]
    data = federated([0, 1] * 4, [5, 6, 7], [[0, 1], [2, 3], [4]], client)
    _, groups, shares = data.client_tests
    assert [g.tolist() for g in groups] == [[6], [5, 7]], "nobody tests client 9"
    np.testing.assert_array_equal(shares, np.eye(2))


def test_dealt_anew_born_owners_count_no_more():
    client = [5, 5, 8, 8, 9, 8, 5, 8]
    data = federated([0, 1] * 4, [5, 6, 7], [[0, 2], [1, 3], [4]], client)
    shares = data.client_tests.shares
    np.testing.assert_allclose(shares, [[1, 0], [0, 1], [1, 0]])


def test_a_regression_without_owners_has_none():
    data = federated([0.5, 1.5, 2.5], [2], [[0], [1]])
    assert data.client_tests is None


@pytest.mark.parametrize("sizes", [[5] * 20, [3, 4, 5]])
def test_the_final_model_on_every_client(sizes):
    """Against accuracies by label, computed here; recorded of round 0 and the last round only."""
    run = simulation(FedAvg(lr=0.5), partitioned(sizes), settings(rounds=4, eval_every=2))
    while not run.finished:
        run.advance()
    first, middle, last = run.history
    assert set(first) >= METRICS
    assert not METRICS & set(middle)
    data, w = run.fed.data, run.state["w"]
    y = data.dataset.y
    right = {
        label: float(run.fed.evaluate(w, data.test[y[data.test] == label])["accuracy"])
        for label in np.unique(y[data.test])
    }
    each = []
    for k in range(data.clients):
        own = y[data.train[data.offsets[k] : data.offsets[k + 1]]]
        known = [right[label] for label in own if label in right]
        each.append(np.mean(known))
    worst = sorted(each)[: max(1, -(-len(sizes) // 10))]
    assert last["test_accuracy_worst10"] == pytest.approx(np.mean(worst))
    assert last["test_accuracy_spread"] == pytest.approx(np.std(each))


def test_a_model_that_looks_at_the_whole_batch_has_none(monkeypatch):
    """Scored label by label it would meet batches that it never meets."""
    for tracked in (True, False):
        name = f"{OWN}:by_batch(tracked={tracked})"
        assert Model(models.parse(name), (2,), 3).one_by_one is tracked
    monkeypatch.setattr(Model, "one_by_one", False)
    run = simulation(FedAvg(lr=0.5), partitioned([5, 5]), settings(rounds=1))
    run.advance()
    assert not METRICS & {key for entry in run.history for key in entry}


@pytest.mark.parametrize(
    ("model", "labels"),
    [(f"{OWN}:by_batch", 3), (f"{OWN}:by_batch(tracked=True)", 2)],
)
def test_a_model_that_sees_its_batch_is_evaluated_on_batches_of_all_labels(model, labels):
    """The samples lie label by label, as those of folders do; 512 are in a batch."""
    data = partitioned([4, 4], (3, 4, 4), tests=1200)
    ids = data.test[np.argsort(data.dataset.y[data.test], kind="stable")]
    fed = simulation(FedAvg(), data, settings(rounds=1, dtype="float32"), model).fed
    seen = []

    def outputs(w, x):
        seen.append(len(x))
        return torch.zeros(len(x), 3)

    def loss(outputs, y):
        seen[-1] = len(set(y.tolist()))
        return torch.zeros(len(y))

    with patch.object(fed.model, "logits", outputs), patch.object(fed.model, "loss", loss):
        fed.evaluate(torch.zeros(fed.model.d), ids)
    assert seen[0] == labels
    assert len(seen) == 3
