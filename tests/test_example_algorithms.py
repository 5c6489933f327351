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
from tests.support import equations
from tests.support.commands import SINGLY, document, records, study_file, suite_here
from tests.support.oracle import (
    LR,
    SEED,
    SIZES,
    STEPS,
    TWO,
    D,
    Problem,
    agrees,
    apart,
    clients,
    gradient,
    initial,
    local_sgd,
    run_of,
    selected,
    shares,
)
from tests.support.simulations import ROOT, finish, partitioned, settings, simulation
from trials import algorithms
from trials.algorithms.fedavg import FedAvg
from trials.common.errors import UserError
from trials.common.randomness import uniform
from trials.engine.federation import SERVER

EXAMPLES = ROOT / "examples"
FILES = {"ditto": "Ditto", "fedrep": "FedRep", "dp_fedavg": "DPFedAvg", "fedbuff": "FedBuff"}
DITTO, FEDREP, PRIVATE, BUFFERED = (f"{EXAMPLES / f}.py:{name}" for f, name in FILES.items())
Ditto, FedRep, DPFedAvg, FedBuff = map(algorithms.resolve, (DITTO, FEDREP, PRIVATE, BUFFERED))
EVERYONE = torch.arange(2)


@pytest.mark.parametrize(
    ("name", "models", "given"),
    [
        (DITTO, ("logreg", "mlp(16,16)"), {"metric": "personal"}),
        (FEDREP, ("mlp(16,16)",), {"metric": "personal"}),
        (PRIVATE, ("logreg", "mlp(16,16)"), {"selection": "independent", "aggregation": "plain"}),
        (BUFFERED, ("logreg", "mlp(16,16)"), {}),
    ],
)
def test_it_keeps_the_contract(name, models, given):
    check_algorithm(name, models=models, settings={**SETTINGS, **given})


@pytest.mark.parametrize("name", [DITTO, FEDREP, PRIVATE, BUFFERED, f"{EXAMPLES / 'unseen.py'}"])
def test_an_example_is_at_most_80_lines(name):
    assert len(Path(name.partition(":")[0]).read_text().splitlines()) <= 80


# Ditto


def test_ditto_s_own_models_are_pulled_to_what_the_server_sent():
    problem, lam = Problem({"local_steps": 1}, sizes=tuple(TWO)), 0.7
    sent, own = initial(), [initial(), initial()]
    run, server = run_of(Ditto(lr=LR, lam=lam), TWO, local_steps=1), equations.fedavg(problem)
    while not run.finished:
        run.advance()
        own = [v - LR * (problem.slope(k, v) + lam * (v - sent)) for k, v in enumerate(own)]
        sent = next(server)["w"]
        np.testing.assert_allclose(run.state["v"][EVERYONE].numpy(), own, rtol=0, atol=1e-10)
        np.testing.assert_allclose(run.state["w"].numpy(), sent, rtol=0, atol=1e-10)
    assert apart(own, [sent, sent]) > 1e-2


# FedRep


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
            w[12:] -= LR * gradient(w, *part, (2, 2, 2, 3))[12:]
            w[:12] -= LR * gradient(w, *part, (2, 2, 2, 3))[:12]
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


def test_epsilon_is_the_published_one_and_is_recorded():
    epsilon = DPFedAvg.aggregate.__globals__["epsilon"]
    given = 0.01, 4.0, 10_000, 1e-5
    assert epsilon(*given) == pytest.approx(1.26, abs=0.005)  # Abadi et al. 2016, Section 3.2
    whole = min(10 * a / (2 * 4.0**2) - math.log(1e-5) / (a - 1) for a in range(2, 256))
    assert epsilon(1.0, 4.0, 10, 1e-5) == pytest.approx(whole)  # Mironov 2017, Corollary 3
    run = finish(run_of(DPFedAvg(lr=LR), participation=0.4, **DP))
    spent = [entry["epsilon"] for entry in run.history]
    assert spent == [epsilon(0.4, 1.0, t, 1e-5) for t in range(6)]
    assert spent == sorted(spent)
    assert spent[0] == 0


# FedBuff, and simulated time

SIGMA = 1.0
LEVEL = f"iid+speed({SIGMA:g})"


def seconds_of_training(n):
    """Seconds of a client's local steps: each as long as exp(sigma z), z by Box and Muller."""
    u, v = (uniform(name, SEED, np.arange(n)) for name in ("speed", "speed angle"))
    return STEPS * np.exp(SIGMA * np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v))


def test_a_round_takes_as_long_as_its_slowest_client():
    run = run_of(FedAvg(lr=LR), level=LEVEL, participation=0.4)
    takes, now = seconds_of_training(5), 0.0
    for t in range(1, 6):
        now += takes[selected(t, 5, 2)].max()
        assert run.advance()["simulated_time"] == pytest.approx(now, rel=1e-12)
    assert "simulated_time" not in run_of(FedAvg(lr=LR)).advance()


def test_fedbuff_steps_when_the_buffer_is_full_with_updates_that_are_late():
    parts, takes = list(clients(partitioned(SIZES))), seconds_of_training(5)
    late = []

    def oracle():
        w, now, t, training = initial(), 0.0, 0, {}
        while True:
            t, arrived = t + 1, []
            order = np.argsort(uniform("fedbuff", SEED, t, np.arange(5)))
            waiting = [k for k in order if k not in training]
            while len(arrived) < 2:
                while waiting and len(training) < 3:
                    k = waiting.pop(0)
                    moved = local_sgd(w, [parts[k]] * STEPS, LR) - w
                    training[k] = now + takes[k], t, moved
                first = min(training, key=lambda k: training[k][0])
                now, *update = training.pop(first)
                arrived.append((first, *update))
            p = shares(parts, [k for k, *_ in arrived])
            late.extend(t - begun for _, begun, _ in arrived)
            scale = [1 / math.sqrt(1 + t - begun) for _, begun, _ in arrived]
            w = w + 0.7 * (p * scale) @ np.array([moved for *_, moved in arrived])
            yield w, now

    algorithm, expected = FedBuff(lr=LR, server_lr=0.7, buffer=2), oracle()
    run = run_of(algorithm, level=LEVEL, participation=0.6)
    for _ in range(5):
        entry, (w, now) = run.advance(), next(expected)
        np.testing.assert_allclose(run.state["w"].numpy(), w, rtol=0, atol=1e-10)
        assert entry["simulated_time"] == pytest.approx(now, rel=1e-12)
    assert max(late) > 0


# In a sweep


def test_fedbuff_is_ranked_by_simulated_time(tmp_path):
    text = f"""
algorithms: [fedavg, "{BUFFERED}"]
datasets: [digits]
models: [logreg]
heterogeneity: ["iid+speed(1)", iid]
trials: 2
seeds: 2
settings: {{rounds: 6, eval_every: 1, clients: 20, participation: 0.5}}
"""
    suite_here("sweep", study_file(tmp_path, text), "--name", "timed", *SINGLY, cwd=tmp_path)
    timed = ("leaderboard", "timed", "--at", "seconds", "--where", "heterogeneity=iid+speed(1)")
    board = document(suite_here(*timed, "--json", cwd=tmp_path))
    assert [row["rank"] for row in board["rows"]] == [1, 2]
    ends = {
        (run.tags["algorithm"], run.tags["seed"]): run.metrics["simulated_time"]
        for run in records(tmp_path, kind="final")
        if "speed" in run.tags["heterogeneity"]
    }
    assert {row["budget"] for row in board["rows"]} == {min(ends.values())}
    refused = suite_here("leaderboard", "timed", "--at", "seconds", cwd=tmp_path, code=2)
    assert "give the level +speed(sigma)" in refused.stderr
