"""FedUmf against Algorithm 1 in its eager form: all clients train always.

What is under test replays a round for the few clients whose displacement is used. The oracle does
not: every client trains in every round and remembers g.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.support.fedumf import CASES, COMMON, COUNT, EAGER, LR, ROUNDS, SIZES, common, work
from tests.support.oracle import (
    EXECUTIONS,
    SEED,
    D,
    agrees,
    clients,
    gradient,
    initial,
    local_sgd,
    selected,
    shares,
)
from tests.support.simulations import (
    finish,
    partitioned,
    rounds,
    same,
    settings,
    simulation,
    state,
    timeless,
)
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.common.randomness import uniform


def FedUmf(**given):  # noqa: N802
    return ALGORITHMS["fedumf"](**{"lr": LR, **given})


def test_the_selection_has_all_cases():
    """Some are picked twice running, some after one round's pause, some after several."""
    chosen = [set(selected(t, len(SIZES), COUNT)) for t in range(1, ROUNDS + 1)]
    again = [k for before, now in pairwise(chosen) for k in before & now]
    pauses = [
        t - max((s for s in range(t) if k in chosen[s]), default=-1)
        for t in range(1, ROUNDS)
        for k in chosen[t] - chosen[t - 1]
    ]
    assert again
    assert 2 in pauses
    assert max(pauses) > 2


def repeated(t, n, count):
    """`count` draws with replacement."""
    return np.sort((uniform("select", SEED, t, np.arange(count)) * n).astype(int))


def independent(t, n, count):
    """Everyone with probability count / n, at least one."""
    u = uniform("select", SEED, t, np.arange(n))
    return np.flatnonzero(u < max(count / n, u.min() + 1e-18))


def fedumf(
    data, alpha, count=COUNT, level_steps=None, lr=LR, plain=False, select=selected, **given
):
    """Algorithm 1, line by line."""
    n, decay = data.clients, given.get("lr_decay", 1.0)
    parts, theta, g, before, t = list(clients(data)), initial(), np.zeros((n, D)), set(), 0
    local = {"momentum": given.get("momentum", 0.0), "decay": given.get("weight_decay", 0.0)}
    while True:
        t += 1
        ids = select(t, n, count)
        eta = lr * decay ** (t - 1)
        ratio = 1.0 if t == 1 else decay
        batches, w = work(data, t, given, level_steps), np.zeros((n, D))
        for i in range(n):
            v = theta
            if i in ids and i not in before:
                v = theta + alpha * ratio * g[i]
            w[i] = local_sgd(v, batches[i], eta, **local)
            g[i] = w[i] - v
        theta = shares(parts, ids, "plain" if plain else "samples") @ w[ids]
        before = set(ids)
        yield theta


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("alpha", [0.5, 1.0])
@pytest.mark.parametrize("case", CASES)
def test_fedumf(case, alpha, execution):
    given = CASES[case]
    oracle = fedumf(partitioned(SIZES), alpha, **given)
    agrees(common(FedUmf(alpha=alpha), execution=execution, **given), oracle)


def test_alpha_is_1_unless_said():
    agrees(common(ALGORITHMS["fedumf"]()), fedumf(partitioned(SIZES), 1.0, lr=0.1))


def test_the_papers_plain_mean():
    agrees(common(FedUmf(), aggregation="plain"), fedumf(partitioned(SIZES), 1.0, plain=True))


def test_zero_starts():
    oracle = fedumf(partitioned(SIZES), 1.0)
    started = simulation(FedUmf(), partitioned(SIZES), settings(init="zeros", **COMMON), seed=SEED)
    assert (started.state["w"] == 0).all()
    ours, theirs = next(rounds(started)), next(oracle)
    assert np.abs(ours - theirs).max() > 1e-3


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_system_heterogeneity(execution):
    """The replayed round has the number of steps the device managed then, not now."""
    oracle = fedumf(partitioned(SIZES), 1.0, level_steps=(1, 7))
    agrees(common(FedUmf(), level="iid+system(steps=1..7)", execution=execution), oracle)


@pytest.mark.parametrize("count", [1, 3, 4])
def test_other_participations(count):
    oracle = fedumf(partitioned(SIZES), 1.0, count=count)
    agrees(common(FedUmf(), participation=count / len(SIZES)), oracle)


@pytest.mark.parametrize(
    ("selection", "select"), [("with_replacement", repeated), ("independent", independent)]
)
def test_other_selections(selection, select):
    """Who was selected before is a set, who is averaged may repeat."""
    chosen = [select(t, len(SIZES), 3).tolist() for t in range(1, ROUNDS + 1)]
    assert chosen != [selected(t, len(SIZES), 3).tolist() for t in range(1, ROUNDS + 1)]
    oracle = fedumf(partitioned(SIZES), 1.0, count=3, select=select)
    agrees(common(FedUmf(), participation=0.6, selection=selection), oracle)


def test_clipped_steps():
    """A replayed round is clipped like any other."""
    agrees(common(FedUmf(), clip_norm=0.25), clipped_umf(partitioned(SIZES), 0.25))


def clipped_umf(data, longest):
    n = data.clients
    parts, theta, g, before, t = list(clients(data)), initial(), np.zeros((n, D)), set(), 0
    while True:
        t += 1
        ids, w = selected(t, n, COUNT), np.zeros((n, D))
        for i in range(n):
            v = theta + (g[i] if i in ids and i not in before else 0)
            w[i] = v
            for _ in range(4):
                step = gradient(w[i], *parts[i])
                w[i] = w[i] - LR * step * min(1, longest / np.linalg.norm(step))
            g[i] = w[i] - v
        theta, before = shares(parts, ids) @ w[ids], set(ids)
        yield theta


class Eager(ALGORITHMS["fedumf"]):
    """Algorithm 1 as printed: everyone trains every round and keeps g."""

    def init(self, fed):
        return {**super().init(fed), "g": fed.client_rows()}

    def round(self, state, fed):
        everyone, ids = torch.arange(fed.n), fed.select()
        before = set() if fed.round == 1 else set(selected(fed.round - 1, fed.n, len(ids)))
        start = fed.broadcast(everyone, state["w"]).clone()
        fresh = torch.tensor([i for i in ids.tolist() if i not in before], dtype=torch.int64)
        if fed.round > 1 and len(fresh):
            ratio = self.lr / (LR * fed.settings.lr_decay ** (fed.round - 2))
            start[fresh] = start[fresh] + self.alpha * ratio * state["g"][fresh]
        local = fed.train(everyone, start, self.lr, self.direction, start=start)
        state["g"].write(everyone, local - start)
        return {**state, "w": fed.weights(ids) @ fed.upload(ids, local[ids])}


COUNTED = ("uploaded_bytes", "downloaded_bytes", "peer_bytes", "clients_uploaded", "client_steps")


@pytest.mark.parametrize("level", ["iid", "iid+system(steps=1..6)"])
@pytest.mark.parametrize("model", ["logreg", "mlp(5,4)"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lazy_is_eager_to_the_bit(level, model, dtype):
    common = settings(
        execution="sequential", lr_decay=0.9, momentum=0.5, dtype=dtype, weight_decay=0.01, **EAGER
    )
    lazy, eager = (
        simulation(cls(lr=LR, alpha=0.5), partitioned(SIZES), common, model, level, SEED)
        for cls in (ALGORITHMS["fedumf"], Eager)
    )
    for one, other in zip(rounds(lazy), rounds(eager), strict=True):
        np.testing.assert_array_equal(one, other)
    for a, b in zip(lazy.history, eager.history, strict=True):
        for name in COUNTED:
            assert a[name] == b[name], name
        for name in a:
            if name.startswith(("test_", "val_")):
                assert a[name] == b[name]
    moved = finish(simulation(FedAvg(lr=LR), partitioned(SIZES), common, model, level, SEED))
    assert np.abs(state(moved)["w"] - state(lazy)["w"]).max() > 1e-3


def test_lazy_is_eager_in_batches():
    common = settings(execution="batched", **EAGER)
    lazy, eager = (
        finish(simulation(cls(lr=LR), partitioned(SIZES), common, "mlp(5,4)", seed=SEED))
        for cls in (ALGORITHMS["fedumf"], Eager)
    )
    assert np.abs(state(lazy)["w"] - state(eager)["w"]).max() < 1e-12


@pytest.mark.parametrize("name", ["fedumf", "fedumf_feddc"])
@pytest.mark.parametrize("gap", [1, 3])
def test_a_run_resumed_anywhere_is_the_same(name, gap):
    common = settings(eval_every=gap, lr_decay=0.9, momentum=0.5, **EAGER)
    level = "iid+system(steps=1..6)"

    def make():
        algorithm = ALGORITHMS[name](lr=LR)
        return simulation(algorithm, partitioned(SIZES), common, level=level, seed=SEED)

    whole, broken = finish(make()), make()
    while not broken.finished:
        saved = broken.save()
        broken = make()
        broken.load(saved)
        broken.advance()
    same(whole, broken, 0.0)
    assert timeless(whole.history) == timeless(broken.history)


@pytest.mark.parametrize("level", ["iid", "iid+system(steps=1..6)"])
def test_alpha_0_is_fedavg(level):
    common = settings(momentum=0.5, lr_decay=0.9, **EAGER)
    without, fedavg, fused = (
        finish(simulation(algorithm, partitioned(SIZES), common, level=level, seed=SEED))
        for algorithm in (FedUmf(alpha=0.0), FedAvg(lr=LR), FedUmf(alpha=1.0))
    )
    assert np.abs(state(without)["w"] - state(fedavg)["w"]).max() < 1e-12
    assert np.abs(state(fused)["w"] - state(fedavg)["w"]).max() > 1e-3


def test_everyone_selected_is_fedavg():
    common = settings(**{**EAGER, "participation": 1.0})
    fused, fedavg = (
        finish(simulation(algorithm, partitioned(SIZES), common, seed=SEED))
        for algorithm in (FedUmf(alpha=1.0), FedAvg(lr=LR))
    )
    assert np.abs(state(fused)["w"] - state(fedavg)["w"]).max() < 1e-12
    assert fused.history[-1]["client_steps"] == fedavg.history[-1]["client_steps"]
    assert fused.history[-1]["downloaded_bytes"] == fedavg.history[-1]["downloaded_bytes"]


def test_the_first_round_is_fedavgs_and_the_second_is_not():
    common = settings(**EAGER)
    fused, fedavg = (
        simulation(algorithm, partitioned(SIZES), common, seed=SEED)
        for algorithm in (FedUmf(alpha=1.0), FedAvg(lr=LR))
    )
    assert np.abs(next(rounds(fused)) - next(rounds(fedavg))).max() < 1e-14
    assert np.abs(next(rounds(fused)) - next(rounds(fedavg))).max() > 1e-3


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_all_receive_and_work_and_the_selected_send(dtype, size, execution):
    common = settings(dtype=dtype, execution=execution, **COMMON)
    run = finish(simulation(FedUmf(), partitioned(SIZES), common, seed=SEED))
    n, d = len(SIZES), run.fed.d
    for T, entry in enumerate(run.history):
        assert entry["downloaded_bytes"] == size * n * d * T
        assert entry["uploaded_bytes"] == size * COUNT * d * T
        assert entry["clients_uploaded"] == COUNT * T
        assert entry["client_steps"] == 4 * n * T
        assert entry["peer_bytes"] == 0
        assert entry["gradient_passes"] == 0


def test_steps_counted_are_those_of_all_devices():
    level, common = "iid+system(steps=1..7)", settings(**COMMON)
    run = finish(simulation(FedUmf(), partitioned(SIZES), common, level=level, seed=SEED))
    draws = [1 + (uniform("steps", SEED, t, np.arange(5)) * 7).astype(int) for t in range(1, 9)]
    expected = np.concatenate([[0], np.cumsum([d.sum() for d in draws])])
    assert [entry["client_steps"] for entry in run.history] == expected.tolist()
