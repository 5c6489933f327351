"""What clients make of the final model by themselves, against softmax regression written out here."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.support.simulations import finish, partitioned, settings, simulation, timeless
from trials.algorithm import Devices
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.local_only import LocalOnly

SIZES = [5, 9, 7]
EXECUTIONS = ["sequential", "batched"]


def tuned_by_hand(data, w, rate, epochs, momentum=0.0):
    """Each client's weights (3, 3): a row a label, its bias last; full-batch steps of softmax
    regression from w.
    """
    found = []
    for k in range(data.clients):
        ids = data.train[data.offsets[k] : data.offsets[k + 1]]
        x = np.hstack([data.dataset.x[ids].astype(float), np.ones((len(ids), 1))])
        one_hot = np.eye(3)[data.dataset.y[ids]]
        own, velocity = w.copy(), np.zeros_like(w)
        for _ in range(epochs):
            exponents = np.exp(x @ own.T)
            shares = exponents / exponents.sum(1, keepdims=True)
            velocity = momentum * velocity + (shares - one_hot).T @ x / len(ids)
            own = own - rate * velocity
        found.append(own)
    return found


def measured_by_hand(data, models):
    """Accuracy of each client's model on the test samples, each label as often as in its own data."""
    x = np.hstack([data.dataset.x[data.test].astype(float), np.ones((len(data.test), 1))])
    y, found = data.dataset.y[data.test], []
    for k, w in enumerate(models):
        right = (x @ w.T).argmax(1) == y
        held = data.dataset.y[data.train[data.offsets[k] : data.offsets[k + 1]]]
        counts = [(held == label).sum() for label in np.unique(y)]
        accuracies = [right[y == label].mean() for label in np.unique(y)]
        found.append(np.dot(counts, accuracies) / np.sum(counts))
    return np.array(found)


def matrix(flat):
    """The (3, 3) matrix of a model's (9,) weights: 3 x 2, then 3 biases."""
    return np.hstack([flat[:6].reshape(3, 2), flat[6:].reshape(3, 1)])


def agree(entry, expected):
    assert entry["test_accuracy_fine_tuned"] == pytest.approx(expected.mean(), abs=1e-12)
    assert entry["test_accuracy_fine_tuned_worst10"] == pytest.approx(expected.min(), abs=1e-12)
    assert entry["test_accuracy_fine_tuned_spread"] == pytest.approx(expected.std(), abs=1e-12)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_each_client_trains_the_final_model_and_is_tested_on_its_own_labels(execution, momentum):
    data = partitioned(SIZES, tests=40)
    common = settings(fine_tune=3, lr_decay=0.9, momentum=momentum, execution=execution)
    run = finish(simulation(FedAvg(lr=0.8), data, common))
    rate = 0.8 * 0.9**4  # the fifth round's
    models = tuned_by_hand(data, matrix(run.state["w"].numpy()), rate, 3, momentum)
    expected = measured_by_hand(data, models)
    agree(run.history[-1], expected)
    shared = measured_by_hand(data, [matrix(run.state["w"].numpy())] * 3)
    assert np.abs(expected - shared).max() > 0.01  # else nothing was tried


def test_before_training_it_is_what_clients_reach_alone():
    data = partitioned(SIZES, tests=40)
    run = simulation(FedAvg(lr=0.8), data, settings(fine_tune=4))
    models = tuned_by_hand(data, matrix(run.state["w"].numpy()), 0.8, 4)
    agree(run.history[0], measured_by_hand(data, models))


def test_clients_with_models_of_their_own_go_on_from_those():
    data = partitioned(SIZES, tests=40)
    run = finish(simulation(LocalOnly(lr=0.3), data, settings(fine_tune=2)))
    own = run.state["z"][torch.arange(3)].numpy()
    models = [
        tuned_by_hand(data, matrix(start), 0.3, 2)[client] for client, start in enumerate(own)
    ]
    agree(run.history[-1], measured_by_hand(data, models))


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "safl", "feddyn"])
def test_it_changes_nothing_else_and_is_not_counted(name):
    data = partitioned(SIZES, tests=40)
    plain = finish(simulation(ALGORITHMS[name](), data, settings()))
    tuned = finish(simulation(ALGORITHMS[name](), data, settings(fine_tune=2)))
    left = [
        {k: v for k, v in entry.items() if "fine_tuned" not in k}
        for entry in timeless(tuned.history)
    ]
    assert left == timeless(plain.history)
    assert {round(e["round"]) for e in tuned.history if "test_accuracy_fine_tuned" in e} == {0, 5}


def test_clients_of_many_blocks_are_each_tested_once():
    """More clients than are fine-tuned at a time, each with one label of three."""
    data = partitioned([3] * 150, tests=30)
    run = finish(simulation(FedAvg(lr=0.5), data, settings(fine_tune=1, rounds=1)))
    models = tuned_by_hand(data, matrix(run.state["w"].numpy()), 0.5, 1)
    found, expected = run.history[-1], measured_by_hand(data, models)
    assert found["test_accuracy_fine_tuned"] == pytest.approx(expected.mean(), abs=1e-12)
    worst = np.sort(expected)[:15].mean()
    assert found["test_accuracy_fine_tuned_worst10"] == pytest.approx(worst, abs=1e-12)


def test_the_models_of_some_devices_only_are_not_fine_tuned():
    """Which device has which is not said."""

    @dataclass(frozen=True)
    class Two(FedAvg):
        def scored(self, state, fed):
            return {"two": Devices(state["w"].expand(2, -1), torch.tensor([0.5, 0.5]))}

    run = simulation(Two(), partitioned(SIZES), settings(fine_tune=1))
    assert not [key for key in run.history[0] if "fine_tuned" in key]
