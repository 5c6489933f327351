"""What clients' own models score on clients' own data, against NumPy; and the metric `personal`."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from tests.support.simulations import (
    ROOT,
    finish,
    honoured,
    local_work,
    partitioned,
    settings,
    simulation,
    timeless,
)
from trials.algorithm import Devices
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.local_only import LocalOnly
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.scoring.metrics import REGRESSION, TASKS, direction

SIZES = [5, 9, 7, 8]
every = pytest.mark.parametrize("name", sorted(ALGORITHMS))

OWN = ROOT / "tests" / "support" / "own_models.py"


def validated(sizes, tests=40, count=30):
    """Hand-made clients, with `count` of the test samples to validate on."""
    data = partitioned(sizes, tests=tests + count)
    return replace(data, val=data.test[::2][:count], test=np.setdiff1d(data.test, data.test[::2]))


def by_hand(data, pool, models):
    """Accuracy of each client's (w, b) on a pool, each label as often as in its own training data."""
    x, y, found = data.dataset.x[pool].astype(float), data.dataset.y[pool], []
    for k, flat in enumerate(models):
        right = (x @ flat[:6].reshape(3, 2).T + flat[6:]).argmax(1) == y
        held = data.dataset.y[data.train[data.offsets[k] : data.offsets[k + 1]]]
        each = [right[y == label].mean() for label in held if (y == label).any()]
        found.append(np.mean(each))
    return np.array(found)


def scores_of(run, entry):
    """Each client's test and validation accuracy by its model in the state, after `entry`."""
    own = run.state["z"][torch.arange(run.fed.n)].numpy()
    return [by_hand(run.fed.data, pool, own) for pool in (run.fed.data.test, run.fed.data.val)]


@pytest.mark.parametrize("execution", ["sequential", "batched"])
def test_each_client_is_scored_with_its_own_model_on_its_own_labels(execution):
    common = settings(metric="personal", execution=execution)
    run = simulation(LocalOnly(lr=0.8), validated(SIZES), common)
    entry = run.history[0]
    while True:
        test, val = scores_of(run, entry)
        assert entry["test_accuracy_personal"] == pytest.approx(test.mean(), abs=1e-12)
        assert entry["val_accuracy_personal"] == pytest.approx(val.mean(), abs=1e-12)
        if run.finished:
            break
        entry = run.advance()
    assert entry["test_accuracy_worst10"] == pytest.approx(test.min(), abs=1e-12)
    assert entry["test_accuracy_spread"] == pytest.approx(test.std(), abs=1e-12)
    assert abs(test.mean() - entry["test_accuracy"]) > 0.01  # the average on everybody's data
    assert run.task.metric == "accuracy_personal"


def test_the_worst_of_many_clients_are_those_whose_own_models_are():
    """More clients than are tested at a time; without the metric it is measured at both ends only."""
    run = finish(simulation(LocalOnly(lr=0.5), validated([3] * 150), settings(rounds=2)))
    first, middle, last = run.history
    test, _ = scores_of(run, last)
    assert last["test_accuracy_personal"] == pytest.approx(test.mean(), abs=1e-12)
    assert last["test_accuracy_worst10"] == pytest.approx(np.sort(test)[:15].mean(), abs=1e-12)
    assert last["test_accuracy_spread"] == pytest.approx(test.std(), abs=1e-12)
    assert "test_accuracy_personal" in first
    assert not [k for entry in run.history for k in entry if k == "val_accuracy_personal"]
    assert not [k for k in middle if "personal" in k]


def born(y, task=None):
    """Three clients with four training, two validation and two test samples of their own each."""
    owner = np.repeat([7, 3, 5], 8)
    nth = np.tile(np.arange(8), 3)
    x = np.random.default_rng(0).normal(size=(24, 2)).astype(np.float32)
    more = {} if task is None else {"task": task}
    dataset = Dataset(x, y, nth > 5, 1 if task else 3, owner, **more)
    ids = np.arange(24)
    train, val, test = ids[nth < 4], ids[(nth == 4) | (nth == 5)], ids[nth > 5]
    return FederatedData(dataset, train, np.array([0, 4, 8, 12]), val, test)


def test_clients_that_kept_their_samples_are_scored_on_those():
    data = born(np.arange(24) % 3)
    run = finish(simulation(LocalOnly(lr=0.8), data, settings(metric="personal")))
    own = run.state["z"][torch.arange(3)].numpy()
    for part, first in (("val", 4), ("test", 6)):
        each = []
        for k, flat in enumerate(own):
            ids = np.array([8 * k + first, 8 * k + first + 1])
            logits = data.dataset.x[ids].astype(float) @ flat[:6].reshape(3, 2).T + flat[6:]
            each.append((logits.argmax(1) == data.dataset.y[ids]).mean())
        found = run.history[-1][f"{part}_accuracy_personal"]
        assert found == pytest.approx(np.mean(each), abs=1e-12)


def test_the_error_of_a_regression_is_each_client_s_own():
    y = np.random.default_rng(1).normal(size=24).astype(np.float32)
    data = born(y, REGRESSION)
    run = finish(simulation(LocalOnly(lr=0.05), data, settings(metric="personal"), "linear"))
    own = run.state["z"][torch.arange(3)].numpy()
    each = []
    for k, flat in enumerate(own):
        ids = np.array([8 * k + 6, 8 * k + 7])
        off = data.dataset.x[ids].astype(float) @ flat[:2] + flat[2:] - y[ids].astype(float)
        each.append((off**2).mean())
    last = run.history[-1]
    assert last["test_mse_personal"] == pytest.approx(np.mean(each), rel=1e-9)
    assert last["test_mse_worst10"] == pytest.approx(np.max(each), rel=1e-9)


def test_a_server_s_model_is_everyone_s_where_that_is_ranked():
    """SAFL ranks the server's and keeps clients' own: the setting says which are asked."""
    data = validated(SIZES)
    pooled = finish(simulation(ALGORITHMS["safl"](lr=0.8), data, settings()))
    asked = finish(simulation(ALGORITHMS["safl"](lr=0.8), data, settings(metric="personal")))
    server = by_hand(data, data.test, [pooled.state["w"].numpy()] * 4)
    own = by_hand(data, data.test, pooled.state["z"][torch.arange(4)].numpy())
    assert np.abs(server - own).max() > 0.01
    for run, each in ((pooled, server), (asked, own)):
        last = run.history[-1]
        assert last["test_accuracy_personal"] == pytest.approx(each.mean(), abs=1e-12)
        assert last["test_accuracy_worst10"] == pytest.approx(each.min(), abs=1e-12)


@every
def test_every_algorithm_has_it_and_nothing_else_changes(name):
    given, level = honoured(name, {"eval_every": 1, **local_work(name)}, "iid")
    data = validated(SIZES)
    plain = finish(simulation(ALGORITHMS[name](), data, settings(**given), level=level))
    asked = settings(**given, metric="personal")
    run = finish(simulation(ALGORITHMS[name](), data, asked, level=level))
    for entry in run.history:
        assert np.isfinite([entry["test_accuracy_personal"], entry["val_accuracy_personal"]]).all()
    over = ("_personal", "_worst10", "_spread")
    left = [
        [{k: v for k, v in entry.items() if not k.endswith(over)} for entry in timeless(of.history)]
        for of in (run, plain)
    ]
    assert left[0] == left[1]
    ranked = next(iter(run.algorithm.scored(run.state, run.fed).values()))
    if run.algorithm.personal(run.state, run.fed) is None:
        each = by_hand(data, data.test, [ranked.numpy()] * 4)
        assert run.history[-1]["test_accuracy_personal"] == pytest.approx(each.mean(), abs=1e-12)
        uneven = "test_accuracy_worst10", "test_accuracy_spread"
        assert [run.history[-1][k] for k in uneven] == [plain.history[-1][k] for k in uneven]


def test_models_of_some_devices_only_are_nobody_s():
    @dataclass(frozen=True)
    class Two(FedAvg):
        def scored(self, state, fed):
            return {"two": Devices(state["w"].expand(2, -1), torch.tensor([0.5, 0.5]))}

    assert not [
        k for k in simulation(Two(), partitioned(SIZES), settings()).history[0] if "worst" in k
    ]
    with pytest.raises(UserError, match="metric personal needs a model of every client"):
        simulation(Two(), partitioned(SIZES), settings(metric="personal"))


def test_models_that_are_not_one_a_client_are_refused():
    @dataclass(frozen=True)
    class Three(FedAvg):
        def personal(self, state, fed):
            return state["w"].expand(3, -1)

    finish(simulation(Three(), partitioned(SIZES), settings()))
    with pytest.raises(UserError, match=r"personal\(\) gives the shape \(3, 9\), not \(4, 9\)"):
        simulation(Three(), partitioned(SIZES), settings(metric="personal"))


def test_where_no_client_has_test_data_it_is_refused():
    data = partitioned(SIZES)
    numbers = Dataset(
        data.dataset.x, np.zeros(35, np.float32), data.dataset.test, 1, task=REGRESSION
    )
    with pytest.raises(UserError, match="metric personal needs test data of each client"):
        simulation(FedAvg(), replace(data, dataset=numbers), settings(metric="personal"), "linear")
    images = partitioned(SIZES, (3, 16, 16))
    common = settings(metric="personal", dtype="float32")
    with pytest.raises(UserError, match="needs a model that scores each sample by itself"):
        simulation(FedAvg(), images, common, f"{OWN}:by_batch")


def test_it_is_better_where_the_pooled_metric_is():
    for task in TASKS.values():
        assert direction(task.metric) == task.direction == TASKS[task.pooled].direction
    assert direction("accuracy_personal_spread") == "minimize"
