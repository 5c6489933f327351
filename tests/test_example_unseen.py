"""examples/unseen.py: clients that training never sees."""

import numpy as np
import pytest
import torch

import suite
from suite.testing import check_partition
from tests.support.commands import SINGLY, document, study_file, suite_here
from tests.support.oracle import SEED
from tests.support.simulations import ROOT, finish, settings, simulation
from trials import datasets, heterogeneity
from trials.algorithms.fedavg import FedAvg
from trials.common.errors import UserError
from trials.federated_data import FederatedData, partition

EXAMPLES = ROOT / "examples"
APART = f"+{EXAMPLES / 'unseen.py'}:Unseen(0.4)"
GIVEN = {"clients": 10, "participation": 0.5, "val_fraction": 0.2, "batch_size": 8}


def apart_and_whole(dataset, level, **given):
    made = settings(**{**GIVEN, **given})
    return (partition(dataset, heterogeneity.parse(f"{level}{m}"), made) for m in (APART, "")), made


def test_clients_kept_apart_shape_no_training_and_are_scored_at_the_end():
    (data, whole), made = apart_and_whole(datasets.parse("digits").load(0, 10, None), "labels(2)")
    held = [set(ids) for ids in np.split(whole.train, whole.offsets[1:-1])]
    seen = [set(ids) for ids in np.split(data.train, data.offsets[1:-1])]
    apart_ = [set(ids) for ids in np.split(data.unseen_train, data.unseen_offsets[1:-1])]
    assert (len(seen), len(apart_)) == (6, 4)
    assert sorted(map(min, held)) == sorted(map(min, seen + apart_))
    bare = FederatedData(data.dataset, data.train, data.offsets, data.val, data.test)
    run, alone = (finish(simulation(FedAvg(lr=0.1), d, made, seed=SEED)) for d in (data, bare))
    assert torch.equal(run.state["w"], alone.state["w"])
    x, y = data.dataset.x, data.dataset.y
    w = run.state["w"].numpy()
    right = (x[data.test].reshape(-1, 64) @ w[:640].reshape(10, 64).T + w[640:]).argmax(1) == y[
        data.test
    ]
    recall = np.array([right[y[data.test] == label].mean() for label in range(10)])
    mixed = [np.bincount(y[list(ids)], minlength=10) / len(ids) for ids in apart_]
    assert run.history[-1]["test_accuracy_unseen"] == pytest.approx(np.mean(mixed @ recall))
    assert "test_accuracy_unseen" in run.history[0]
    measured = [entry for entry in run.history if "test_accuracy_unseen" in entry]
    assert measured == [run.history[0], *run.history[1:][-3:]], (
        "untrained, and where a score counts"
    )
    assert "test_accuracy_unseen" not in alone.history[-1]
    assert bare.fingerprint != data.fingerprint


def test_owners_kept_apart_choose_nothing_by_their_validation_samples():
    moons = datasets.parse(f"{EXAMPLES / 'own_dataset.py'}:Moons").load(0, None, None)
    (data, whole), _ = apart_and_whole(moons, "natural", clients=None)
    owner = moons.client
    strangers = set(owner[data.unseen_train])
    assert len(strangers) == 4
    assert not strangers & set(owner[np.concatenate([data.train, data.val])])
    assert set(whole.val) - set(data.val) == {i for i in whole.val if owner[i] in strangers}
    np.testing.assert_array_equal(data.test, whole.test)


def test_a_share_of_unseen_clients_leaves_one_to_train():
    with pytest.raises(UserError, match="0 < share < 1"):
        heterogeneity.parse(APART.replace("0.4", "1").replace("+", "iid+", 1))
    with pytest.raises(UserError, match="no client is left to train"):
        list(apart_and_whole(datasets.parse("digits").load(0, 1, None), "iid", clients=1)[0])
    assert check_partition(f"iid{APART}").startswith("5, 12 clients")


def test_methods_are_ranked_by_clients_that_training_never_saw(tmp_path):
    text = f"""
algorithms: [fedavg, fedprox]
datasets: [digits]
models: [logreg]
heterogeneity: ["labels(2){APART}"]
trials: 2
seeds: 2
settings: {{rounds: 4, clients: 10, participation: 0.5}}
"""
    study = study_file(tmp_path, text)
    suite_here("sweep", study, "--name", "apart", *SINGLY, cwd=tmp_path)
    board = document(
        suite_here("leaderboard", "apart", "--metric", "unseen", "--json", cwd=tmp_path)
    )
    runs = suite.load("apart", storage=tmp_path / "runs", curves=True)
    finals = runs[(runs["kind"] == "final") & (runs["algorithm"] == "fedavg")]
    (row,) = (row for row in board["rows"] if row["algorithm"] == "fedavg")
    scores = [np.mean(curve[1:][-3:]) for curve in finals["test_unseen"]]
    assert len(scores) == 2
    assert row["mean"] == pytest.approx(np.mean(scores))
