"""DeFed against (5)-(6) in plain NumPy: every client's weights after every iteration."""

from functools import partial

import numpy as np
import pytest

from suite.studies.entries import load_data
from tests.support.defed import GRAPHS, LR, ONE, SIZES, TEN, DeFed, among, circle, hub, iterations
from tests.support.oracle import (
    EXECUTIONS,
    SEED,
    agrees,
    clients,
    gradient,
    initial,
    local_sgd,
    run_of,
    selected,
)
from tests.support.searches import entries_of
from tests.support.simulations import finish, partitioned, settings, simulation, state
from trials import topology
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.common.errors import UserError
from trials.common.randomness import uniform
from trials.engine.training import minibatches

USERS = 0.7 * np.eye(6) + 0.3 * np.roll(np.eye(6), 1, 0)
USERS = (USERS + USERS.T) / 2


def work(data, ids, t, batch, steps):
    """The minibatches of each client in `ids` in round t."""
    x, y = data.dataset.x.astype(float), data.dataset.y
    if batch == "full":
        parts = list(clients(data))
        return {k: [parts[k]] * steps for k in ids}
    plan = minibatches(data, ids, np.full(len(ids), steps), batch, (SEED, t))
    return {
        k: [(x[b], y[b]) for b in (s[p > 0] for s, p in zip(*parts, strict=True))]
        for k, *parts in zip(ids, plan.samples, plan.weight, strict=True)
    }


def defed(
    data,
    w,
    lr=LR,
    scale="one",
    init="common",
    count=None,
    batch="full",
    steps=1,
    decay=1.0,
    select=selected,
    **local,
):
    """w_k <- sum_j W_kj w_j + (LocalSGD(w_k) - w_k) with the gradients s_k g_k of (5), (6)."""
    n = data.clients
    m = np.diff(data.offsets)
    s = m / m.sum() if scale == "samples" else np.ones(n)
    models = np.array([initial(k) if init == "own" else initial() for k in range(n)])
    t = 0
    while True:
        t += 1
        ids = select(t, n, count or n)
        moved = np.zeros_like(models)
        for k, batches in work(data, ids, t, batch, steps).items():
            rate = lr * decay ** (t - 1)
            moved[k] = local_sgd(models[k], batches, s[k] * rate, **local) - models[k]
        models = among(w, ids) @ models + moved
        yield models


def one_step(algorithm, sizes=SIZES, **given):
    return run_of(algorithm, sizes, **{**ONE, **given})


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("scale", ["one", "samples"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_one_full_batch_step(graph, scale, execution):
    oracle = defed(partitioned(SIZES), GRAPHS[graph], scale=scale)
    agrees(
        one_step(DeFed(lr=LR, topology=graph, grad_scale=scale), execution=execution),
        oracle,
        of="W",
    )


def test_defaults_are_the_papers_smallest_ring_at_the_same_rate():
    agrees(one_step(DeFed(lr=LR)), defed(partitioned(SIZES), circle(6, 2)), of="W")


@pytest.mark.parametrize("degree", [2, 4, 6, 8])
def test_the_papers_lattices_of_ten(degree):
    oracle = defed(partitioned(TEN), circle(10, degree))
    agrees(one_step(DeFed(lr=LR, topology=f"ring({degree})"), TEN), oracle, of="W")


def test_a_random_graph_belongs_to_the_partition_seed():
    text = "erdos_renyi(0.5)"
    w, other = (topology.parse(text).matrix(6, seed) for seed in (7, SEED))
    assert 0 < np.count_nonzero(np.triu(w, 1)) < 15
    assert (w != other).any()
    agrees(
        one_step(DeFed(lr=LR, topology=text), partition_seed=7),
        defed(partitioned(SIZES), w),
        of="W",
    )


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_a_matrix_of_ones_own(suffix, tmp_path):
    path = tmp_path / f"users.{suffix}"
    np.save(path, USERS) if suffix == "npy" else np.savetxt(path, USERS, delimiter=",", fmt="%.17g")
    agrees(
        one_step(DeFed(lr=LR, topology=f"file:{path}")), defed(partitioned(SIZES), USERS), of="W"
    )


@pytest.mark.parametrize("scale", ["one", "samples"])
def test_own_starts(scale):
    oracle = defed(partitioned(SIZES), hub(6), scale=scale, init="own")
    agrees(one_step(DeFed(lr=LR, topology="star", grad_scale=scale), init="own"), oracle, of="W")


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("scale", ["one", "samples"])
def test_one_minibatch_step(scale, execution):
    """A short minibatch is the mean over what is in it."""
    oracle = defed(partitioned(SIZES), circle(6, 2), scale=scale, batch=4)
    given = {"batch_size": 4, "execution": execution}
    agrees(one_step(DeFed(lr=LR, grad_scale=scale), **given), oracle, of="W")


@pytest.mark.parametrize("scale", ["one", "samples"])
def test_several_local_steps(scale):
    oracle = defed(partitioned(SIZES), hub(6), scale=scale, batch=4, steps=3)
    given = {"batch_size": 4, "local_steps": 3}
    agrees(one_step(DeFed(lr=LR, topology="star", grad_scale=scale), **given), oracle, of="W")


def test_momentum_weight_decay_and_a_decaying_rate():
    local = {"steps": 3, "batch": 4, "momentum": 0.5}
    oracle = defed(partitioned(SIZES), circle(6, 2), decay=0.6, **local)
    given = {"local_steps": 3, "batch_size": 4, "momentum": 0.5, "lr_decay": 0.6}
    agrees(one_step(DeFed(lr=LR), **given), oracle, of="W")


def decayed(data, w, shrink):
    """One full step with an l2 penalty."""
    parts = list(clients(data))
    models = np.array([initial()] * data.clients)
    while True:
        g = np.array(
            [gradient(v, *part) + shrink * v for v, part in zip(models, parts, strict=True)]
        )
        models = w @ models - LR * g
        yield models


def test_weight_decay_belongs_to_the_gradient():
    """The penalty 0.1 of the paper's experiments, taken at the client's own old model."""
    agrees(
        one_step(DeFed(lr=LR), weight_decay=0.2),
        decayed(partitioned(SIZES), circle(6, 2), 0.2),
        of="W",
    )


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("graph", ["ring(2)", "ring(4)", "star", "complete"])
@pytest.mark.parametrize("scale", ["one", "samples"])
def test_only_those_awake_work_and_exchange(graph, scale, execution):
    oracle = defed(partitioned(SIZES), GRAPHS[graph], scale=scale, count=3)
    given = {"participation": 0.5, "execution": execution}
    agrees(one_step(DeFed(lr=LR, topology=graph, grad_scale=scale), **given), oracle, of="W")


def drawn(t, n, count):
    """Those among `count` draws with replacement."""
    return np.unique((uniform("select", SEED, t, np.arange(count)) * n).astype(int))


def lucky(t, n, count):
    """Everyone with probability count / n."""
    u = uniform("select", SEED, t, np.arange(n))
    return np.flatnonzero(u < count / n) if (u < count / n).any() else np.array([u.argmin()])


@pytest.mark.parametrize(
    ("selection", "select"), [("with_replacement", drawn), ("independent", lucky)]
)
def test_whoever_is_awake_is_awake_once(selection, select):
    awake = [select(t, 6, 4).tolist() for t in range(1, 6)]
    assert len({len(ids) for ids in awake}) > 1
    oracle = defed(partitioned(SIZES), circle(6, 4), count=4, select=select)
    given = {"participation": 4 / 6, "selection": selection}
    run = agrees(one_step(DeFed(lr=LR, topology="ring(4)"), **given), oracle, of="W")
    assert run.history[-1]["client_steps"] == sum(map(len, awake))


def test_those_asleep_keep_their_model_to_the_bit():
    run = simulation(
        DeFed(lr=LR), partitioned(SIZES), settings(participation=0.5, **ONE), seed=SEED
    )
    before = state(run)["W"].copy()
    for t, after in enumerate(iterations(run), 1):
        awake = np.isin(np.arange(6), selected(t, 6, 3))
        np.testing.assert_array_equal(after[~awake], before[~awake])
        assert (np.abs(after - before)[awake].max(1) > 1e-4).all()
        before = after


def test_a_client_alone_awake_trains_alone():
    oracle = defed(partitioned(SIZES), circle(6, 2), count=1)
    run = agrees(one_step(DeFed(lr=LR), participation=0.1), oracle, of="W")
    assert run.history[-1]["peer_bytes"] == 0


@pytest.mark.parametrize("sizes", [[6], [6, 4], [6, 4, 5]])
@pytest.mark.parametrize("graph", ["ring(2)", "ring(8)", "complete", "star"])
def test_few_clients(sizes, graph):
    n = len(sizes)
    w = hub(n) if graph == "star" else np.full((n, n), 1 / n)
    agrees(one_step(DeFed(lr=LR, topology=graph), sizes), defed(partitioned(sizes), w), of="W")


@pytest.mark.parametrize("scale", ["one", "samples"])
def test_exact_averaging_is_fedavg_in_the_first_iteration_only(scale):
    """s_k = 1 gives the plain mean of local models; m_k / m moves it by 1 / K of the weighted one."""
    defed, fedavg = (
        simulation(
            algorithm, partitioned(SIZES), settings(aggregation=aggregation, **ONE), seed=SEED
        )
        for algorithm, aggregation in (
            (DeFed(lr=LR, topology="complete", grad_scale=scale), "samples"),
            (FedAvg(lr=LR), "plain" if scale == "one" else "samples"),
        )
    )
    share = 1 if scale == "one" else 1 / 6
    for t in range(2):
        defed.advance()
        fedavg.advance()
        moved = state(defed)["W"].mean(0) - initial()
        gap = np.abs(moved - share * (fedavg.state["w"].numpy() - initial())).max()
        assert (gap < 1e-12) if t == 0 else (gap > 1e-4)


@pytest.mark.parametrize("graph", ["erdos_renyi(0.5)", "ring(2)"])
def test_a_run_resumed_after_each_iteration_is_the_same(graph):
    data, common = partitioned(SIZES), settings(participation=0.5, batch_size=3, **ONE)
    make = partial(simulation, DeFed(lr=LR, topology=graph), data, common, seed=SEED)
    whole, broken = finish(make()), make()
    while not broken.finished:
        saved = broken.save()
        broken = make()
        broken.load(saved)
        broken.advance()
    np.testing.assert_array_equal(state(whole)["W"], state(broken)["W"])
    assert whole.history[-1]["peer_bytes"] == broken.history[-1]["peer_bytes"]


@pytest.mark.parametrize(
    ("graph", "words"),
    [("rign(2)", "ring"), ("ring(3)", "ring"), ("erdos_renyi(2)", "erdos_renyi")],
)
def test_a_wrong_topology_is_refused_when_it_is_asked_for(graph, words):
    with pytest.raises(UserError, match=words):
        ALGORITHMS["defed"].configured({"topology": graph})


@pytest.mark.parametrize("n", [5, 7])
def test_a_matrix_for_other_clients_is_refused_before_anything_starts(n, tmp_path):
    np.save(tmp_path / "users.npy", USERS)
    text = f"file:{tmp_path / 'users.npy'}"
    words = f"must be {n} x {n} for {n} clients, but is .6, 6."
    with pytest.raises(UserError, match=words):
        simulation(DeFed(topology=text), partitioned([4] * n), settings())
    search = {"defed.topology": {"default": text, "choices": [text, "ring(2)"]}}
    cells = entries_of(algorithms=["defed"], settings={"clients": n}, search=search)
    with pytest.raises(UserError, match=words):
        load_data(cells, None, "test")
    cells = entries_of(algorithms=["defed"], settings={"clients": 6}, search=search)
    assert load_data(cells, None, "test")


def test_system_heterogeneity_moves_by_what_was_done():
    data = partitioned(SIZES)
    common = settings(rounds=1)
    run = simulation(DeFed(lr=LR), data, common, level="iid+system(steps=1..5)", seed=SEED)
    steps = 1 + (uniform("steps", SEED, 1, np.arange(6)) * 5).astype(int)
    assert len(set(steps)) > 1
    parts, start = list(clients(data)), initial()
    expected = [local_sgd(start, [part] * j, LR) for part, j in zip(parts, steps, strict=True)]
    np.testing.assert_allclose(next(iterations(run)), expected, rtol=0, atol=1e-10)
