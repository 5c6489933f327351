"""The example algorithms against plain NumPy, against what they reduce to, and on a leaderboard by the
score that they are about.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from suite.testing import check_algorithm
from suite.testing.algorithms import SETTINGS
from tests.support.commands import SINGLY, document, records, study_file, suite_here
from tests.support.oracle import (
    LR,
    SEED,
    TWO,
    D,
    agrees,
    apart,
    clients,
    fedavg,
    gradient,
    initial,
    local_sgd,
    run_of,
    shares,
)
from tests.support.simulations import ROOT, finish, partitioned, settings, simulation
from trials import algorithms
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.local_only import LocalOnly
from trials.common.errors import UserError
from trials.common.randomness import uniform
from trials.engine.federation import SERVER

EXAMPLES = ROOT / "examples"
DITTO, FEDREP, PRIVATE = (
    f"{EXAMPLES / file}.py:{name}"
    for file, name in (("ditto", "Ditto"), ("fedrep", "FedRep"), ("dp_fedavg", "DPFedAvg"))
)
Ditto, FedRep, DPFedAvg = map(algorithms.resolve, (DITTO, FEDREP, PRIVATE))
EVERYONE = torch.arange(2)


@pytest.mark.parametrize(
    ("name", "models", "given"),
    [
        (DITTO, ("logreg", "mlp(16,16)"), {"metric": "personal"}),
        (FEDREP, ("mlp(16,16)",), {"metric": "personal"}),
        (PRIVATE, ("logreg", "mlp(16,16)"), {"selection": "independent", "aggregation": "plain"}),
    ],
)
def test_it_keeps_the_contract(name, models, given):
    check_algorithm(name, models=models, settings={**SETTINGS, **given})


@pytest.mark.parametrize("name", [DITTO, FEDREP, PRIVATE])
def test_an_example_is_at_most_80_lines(name):
    assert len(Path(name.partition(":")[0]).read_text().splitlines()) <= 80


# Ditto


def test_ditto_s_own_models_are_pulled_to_what_the_server_sent():
    parts, sent, own, lam = list(clients(partitioned(TWO))), initial(), [initial(), initial()], 0.7
    run, server = run_of(Ditto(lr=LR, lam=lam), TWO, local_steps=1), fedavg_of_one_step(TWO)
    while not run.finished:
        run.advance()
        own = [
            v - LR * (gradient(v, *part) + lam * (v - sent))
            for v, part in zip(own, parts, strict=True)
        ]
        sent = next(server)
        np.testing.assert_allclose(run.state["v"][EVERYONE].numpy(), own, rtol=0, atol=1e-10)
        np.testing.assert_allclose(run.state["w"].numpy(), sent, rtol=0, atol=1e-10)
    assert apart(own, [sent, sent]) > 1e-2


def fedavg_of_one_step(sizes):
    parts, w = list(clients(partitioned(sizes))), initial()
    while True:
        w = shares(parts, range(len(parts))) @ np.array(
            [local_sgd(w, [part], LR) for part in parts]
        )
        yield w


def test_ditto_without_a_pull_is_local_training_beside_fedavg():
    given = {"participation": 0.5, "batch_size": 2, "metric": "personal"}
    run = finish(run_of(Ditto(lr=LR, lam=0.0), **given))
    alone, averaged = (
        finish(run_of(LocalOnly(lr=LR), **given)),
        finish(run_of(FedAvg(lr=LR), **given)),
    )
    assert torch.equal(run.state["v"][run.fed.everyone], alone.state["z"][run.fed.everyone])
    assert torch.equal(run.state["w"], averaged.state["w"])
    score = "test_accuracy_personal"
    assert [e[score] for e in run.history] == [e[score] for e in alone.history]


# FedRep


def network(w, x):
    """`mlp(2,2)` of 2 features and 3 classes: what each layer gives, the logits last."""
    one = np.maximum(0, x @ w[:4].reshape(2, 2).T + w[4:6])
    two = np.maximum(0, one @ w[6:10].reshape(2, 2).T + w[10:12])
    return one, two, two @ w[12:18].reshape(3, 2).T + w[18:]


def slope(w, x, y):
    """The gradient of its mean cross-entropy."""
    one, two, z = network(w, x)
    dz = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    dz[np.arange(len(y)), y] -= 1
    dz /= len(y)
    d2 = (dz @ w[12:18].reshape(3, 2)) * (two > 0)
    d1 = (d2 @ w[6:10].reshape(2, 2)) * (one > 0)
    layers = ((d1, x), (d2, one), (dz, two))
    return np.concatenate([part for d, a in layers for part in ((d.T @ a).ravel(), d.sum(0))])


def test_fedrep_averages_bodies_and_leaves_each_client_its_head():
    data, common = partitioned(TWO), settings(local_steps=1, metric="personal")
    run = simulation(FedRep(lr=LR), data, common, "mlp(2,2)", seed=SEED)
    parts, body = list(clients(data)), run.state["w"].numpy()[:12].copy()
    heads = [run.state["w"].numpy()[12:].copy()] * 2
    first = body
    while not run.finished:
        run.advance()
        bodies = []
        for k, part in enumerate(parts):
            w = np.concatenate([body, heads[k]])
            w[12:] -= LR * slope(w, *part)[12:]
            w[:12] -= LR * slope(w, *part)[:12]
            bodies.append(w[:12])
            heads[k] = w[12:]
        body = shares(parts, [0, 1]) @ np.array(bodies)
        expected = [np.concatenate([body, head]) for head in heads]
        found = run.algorithm.personal(run.state, run.fed).numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    assert apart(*heads) > 1e-2
    assert apart(body, first) > 1e-3
    sent = run.fed.settings.rounds * 2 * 12 * 8
    assert run.fed.counters["uploaded_bytes"] == run.fed.counters["downloaded_bytes"] == sent


def test_fedrep_refuses_a_model_without_a_body():
    with pytest.raises(UserError, match="needs a model of two or more layers"):
        run_of(FedRep(lr=LR), TWO)


# DP-FedAvg

DP = {"selection": "independent", "aggregation": "plain"}


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_updates_are_clipped_and_noise_is_added_to_their_sum(noise):
    clip, parts = 0.2, list(clients(partitioned(TWO)))

    def oracle():
        w, normal, t = initial(), torch.special.ndtri, 0
        while True:
            t += 1
            moved = [-LR * gradient(w, *part) for part in parts]
            assert max(map(np.linalg.norm, moved)) > clip or t > 1
            cut = [u * min(1, clip / np.linalg.norm(u)) for u in moved]
            u = torch.from_numpy(uniform("dp_fedavg", SEED, t, SERVER, np.arange(D)))
            w = w + (sum(cut) + noise * clip * normal(u).numpy()) / 2
            yield w

    agrees(run_of(DPFedAvg(lr=LR, clip=clip, noise=noise), TWO, local_steps=1, **DP), oracle())


def test_without_noise_and_with_a_clip_that_nothing_meets_it_is_fedavg():
    run = run_of(DPFedAvg(lr=LR, clip=math.inf, noise=0.0), **DP)
    agrees(run, fedavg(partitioned([5, 9, 3, 7, 4]), aggregation="plain"))


def test_epsilon_is_the_published_one_and_is_recorded():
    epsilon = DPFedAvg.aggregate.__globals__["epsilon"]
    assert epsilon(0.01, 4.0, 10_000, 1e-5) == pytest.approx(
        1.26, abs=0.005
    )  # Abadi et al. 2016, 3.2
    whole = min(10 * a / (2 * 4.0**2) - math.log(1e-5) / (a - 1) for a in range(2, 256))
    assert epsilon(1.0, 4.0, 10, 1e-5) == pytest.approx(whole)  # Mironov 2017, Corollary 3
    run = finish(run_of(DPFedAvg(lr=LR), participation=0.4, **DP))
    spent = [entry["epsilon"] for entry in run.history]
    assert spent == [epsilon(0.4, 1.0, t, 1e-5) for t in range(6)]
    assert spent == sorted(spent)
    assert spent[0] == 0


# In a sweep

STUDY = f"""
algorithms: [fedavg, "{DITTO}", "{FEDREP}"]
datasets: [digits]
models: ["mlp(8,8)"]
heterogeneity: ["labels(2)"]
trials: 2
seeds: 1
settings: {{rounds: 4, eval_every: 1, clients: 5, participation: 1.0, metric: personal}}
"""


def test_personalised_examples_are_searched_and_ranked_by_their_personal_score(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    study = study_file(tmp_path, STUDY)
    suite_here("sweep", study, "--name", "own", "--trust", *SINGLY, cwd=tmp_path)
    board = document(suite_here("leaderboard", "own", "--json", cwd=tmp_path))
    assert board["metric"] == "test_accuracy_personal"
    assert {row["algorithm"]: row["rank"] is not None for row in board["rows"]} == {
        "fedavg": True,
        DITTO: True,
        FEDREP: True,
    }
    for run in records(tmp_path, kind="search", algorithm=DITTO):
        assert run.tags["metric"] == "accuracy_personal"
