"""The unranked references: one model on the pooled data, and clients that never talk."""

import numpy as np
import pytest

from tests.support.oracle import (
    EXECUTIONS,
    SEED,
    agrees,
    clients,
    initial,
    local_sgd,
    run_of,
    selected,
)
from tests.support.simulations import finish, partitioned, settings, simulation, state
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.common.randomness import uniform
from trials.engine.training import minibatches
from trials.federated_data import FederatedData

LR = 0.3
SIZES = [5, 9, 3, 7, 4]
SYSTEM = "iid+system(steps=1..7)"


def Centralized(**given):  # noqa: N802
    return ALGORITHMS["centralized"](**{"lr": LR, **given})


def LocalOnly(**given):  # noqa: N802
    return ALGORITHMS["local_only"](**{"lr": LR, **given})


def pooled(data):
    """The same samples on one client."""
    offsets = np.array([0, len(data.train)])
    return FederatedData(data.dataset, data.train, offsets, data.val, data.test)


def federated_steps(data, t, given, level="iid"):
    """How many minibatches each selected client of round t processes."""
    n = data.clients
    ids = selected(t, n, max(1, round(given.get("participation", 1.0) * n)))
    m, batch = np.diff(data.offsets)[ids], given.get("batch_size", "full")
    if level != "iid":
        return ids, 1 + (uniform("steps", SEED, t, ids) * 7).astype(int)
    if given.get("local_steps", 4) is not None:
        return ids, np.full(len(ids), given.get("local_steps", 4))
    per_epoch = np.ones_like(m) if batch == "full" else -(-m // batch)
    return ids, given.get("local_epochs", 1) * per_epoch


def federated_samples(data, ids, steps, batch):
    """How many samples the clients' minibatches hold."""
    found = 0
    for k, count in zip(ids, steps, strict=True):
        m = int(np.diff(data.offsets)[k])
        batches = [m] if batch == "full" else [min(batch, m - i) for i in range(0, m, batch)]
        found += sum((batches * int(count))[: int(count)])
    return found


def centralized(data, given, level="iid", federated=None):
    """SGD on the pool, as many minibatches as hold what the round's clients process together."""
    pool, w, t = pooled(data), initial(), 0
    x, y, batch = data.dataset.x.astype(float), data.dataset.y, given["batch_size"]
    decay = given.get("lr_decay", 1.0)
    local = {"momentum": given.get("momentum", 0.0), "decay": given.get("weight_decay", 0.0)}
    while True:
        t += 1
        ids, counts = federated_steps(data, t, federated or given, level)
        samples = federated_samples(data, ids, counts, (federated or given)["batch_size"])
        steps = round(samples / batch)
        plan = minibatches(pool, np.array([0]), np.array([steps]), batch, (SEED, t))
        taken = [s[p > 0] for s, p in zip(plan.samples[0], plan.weight[0], strict=True)]
        w = local_sgd(w, [(x[b], y[b]) for b in taken], LR * decay ** (t - 1), **local)
        yield w


POOLED = {
    "steps": {"batch_size": 4, "local_steps": 3},
    "epochs": {"batch_size": 4, "local_steps": None, "local_epochs": 2},
    "some clients": {"batch_size": 2, "local_steps": None, "participation": 0.4},
    "the rest": {
        "batch_size": 3,
        "local_steps": 4,
        "momentum": 0.5,
        "weight_decay": 0.1,
        "lr_decay": 0.7,
        "participation": 0.6,
    },
}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("case", POOLED)
def test_centralized(case, execution):
    given = POOLED[case]
    agrees(
        run_of(Centralized(), execution=execution, **given), centralized(partitioned(SIZES), given)
    )


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_centralized_under_system_heterogeneity(execution):
    given = {"batch_size": 3, "participation": 0.6}
    oracle = centralized(partitioned(SIZES), given, SYSTEM)
    agrees(run_of(Centralized(), level=SYSTEM, execution=execution, **given), oracle)


def test_a_full_batch_of_the_pool_is_the_mean_clients():
    """28 samples on 5 clients: 6 for 5.6; 4 passes of 28 are 19 minibatches of 6, to the nearest."""
    given, federated = {"batch_size": 6}, {"batch_size": "full", "local_steps": 4}
    oracle = centralized(partitioned(SIZES), given, federated=federated)
    agrees(run_of(Centralized(), batch_size="full"), oracle)


class Meter:
    """Counts the samples that minibatch plans hold."""

    def __init__(self):
        self.samples = self.steps = 0

    def __call__(self, *given):
        plan = minibatches(*given)
        self.samples += np.count_nonzero(plan.weight)
        self.steps += plan.steps.sum()
        return plan


@pytest.mark.parametrize("level", ["iid", SYSTEM])
@pytest.mark.parametrize("batch", [4, 8, "full"])
@pytest.mark.parametrize("selection", ["without_replacement", "with_replacement", "independent"])
def test_centralized_sees_as_many_samples_as_the_clients(selection, batch, level, monkeypatch):
    """Where minibatches divide the clients' data, so that none is short."""
    common = settings(
        batch_size=batch, local_steps=None, local_epochs=2, participation=0.6, selection=selection
    )
    found = []
    for algorithm in (FedAvg(lr=LR), Centralized()):
        meter = Meter()
        monkeypatch.setattr("trials.engine.federation.minibatches", meter)
        run = finish(simulation(algorithm, partitioned([8] * 5), common, level=level, seed=SEED))
        assert run.history[-1]["client_steps"] == meter.steps
        found.append((meter.samples, [entry["client_steps"] for entry in run.history]))
    assert found[0] == found[1]
    assert found[0][0] > 0


@pytest.mark.parametrize("batch", [2, 4, 32])
def test_short_minibatches_do_not_make_the_pool_see_more(batch):
    """One epoch of clients of 5: full minibatches of the pool would be up to 6 times as many samples."""
    common = settings(batch_size=batch, local_steps=None, local_epochs=1)
    ours, theirs = (
        finish(simulation(algorithm, partitioned([5] * 20), common, seed=SEED))
        for algorithm in (Centralized(lr=LR), FedAvg(lr=LR))
    )
    for one, other in zip(ours.history, theirs.history, strict=True):
        assert other["sample_gradients"] == 100 * other["round"]
        off = abs(one["sample_gradients"] - other["sample_gradients"])
        assert off <= min(batch, 100) / 2 * one["round"]


@pytest.mark.parametrize("level", ["iid", SYSTEM])
@pytest.mark.parametrize("name", ["centralized", "local_only"])
def test_references_work_as_much_as_the_clients_and_send_nothing(name, level):
    common = settings(participation=0.6, batch_size=1)
    ours, theirs = (
        finish(simulation(algorithm, partitioned(SIZES), common, level=level, seed=SEED))
        for algorithm in (ALGORITHMS[name](lr=LR), FedAvg(lr=LR))
    )
    for one, other in zip(ours.history, theirs.history, strict=True):
        assert one["client_steps"] == other["client_steps"]
        for counter in ("uploaded_bytes", "downloaded_bytes", "peer_bytes", "clients_uploaded"):
            assert one[counter] == 0
    assert ours.history[-1]["client_steps"] > 0
    assert theirs.history[-1]["uploaded_bytes"] > 0


ONE = {
    "full": {"local_steps": 3},
    "minibatches": {"batch_size": 4, "local_steps": None, "local_epochs": 2},
    "the rest": {
        "batch_size": 3,
        "local_steps": 5,
        "momentum": 0.5,
        "weight_decay": 0.1,
        "lr_decay": 0.7,
        "clip_norm": 0.2,
        "init": "own",
    },
}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("case", ONE)
@pytest.mark.parametrize("level", ["iid", SYSTEM])
def test_one_client_is_fedavg_either_way(case, level, execution):
    """With own starts the pool starts as the server and the client as itself."""
    common = settings(execution=execution, **ONE[case])
    data = partitioned([11])

    def run(one):
        return finish(simulation(one, data, common, level=level, seed=SEED))

    fedavg, alone = run(FedAvg(lr=LR)), run(LocalOnly())
    np.testing.assert_allclose(state(alone)["z"], state(fedavg)["w"][None], rtol=0, atol=1e-14)
    for name in ("test_accuracy", "test_loss"):
        ours, theirs = ([entry[name] for entry in one.history[1:]] for one in (alone, fedavg))
        assert ours == pytest.approx(theirs, abs=1e-12)
    if common.init == "common":
        pool = run(Centralized())
        np.testing.assert_allclose(state(pool)["w"], state(fedavg)["w"], rtol=0, atol=1e-14)
        assert [e["test_loss"] for e in pool.history] == pytest.approx(
            [e["test_loss"] for e in fedavg.history], abs=1e-12
        )
    assert np.abs(state(fedavg)["w"] - fedavg.fed.initial_server().numpy()).max() > 1e-3


def local_only(data, init, count, batch="full", steps=4, lr_decay=1.0, **local):
    """Everyone for themselves, from where they were."""
    n = data.clients
    z = [initial(k) if init == "own" else initial() for k in range(n)]
    parts, x, y, t = list(clients(data)), data.dataset.x.astype(float), data.dataset.y, 0
    while True:
        t += 1
        ids = selected(t, n, count)
        plan = minibatches(data, ids, np.full(len(ids), steps), batch, (SEED, t))
        for row, k in enumerate(ids):
            if batch == "full":
                batches = [parts[k]] * steps
            else:
                taken = zip(plan.samples[row], plan.weight[row], strict=True)
                batches = [(x[b], y[b]) for b in (s[p > 0] for s, p in taken)]
            z[k] = local_sgd(z[k], batches, LR * lr_decay ** (t - 1), **local)
        yield np.array(z)


LOCAL = {
    "full": {},
    "own starts": {"init": "own"},
    "minibatches": {"batch": 2, "steps": 3},
    "the rest": {"momentum": 0.5, "decay": 0.1, "lr_decay": 0.7},
}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("count", [5, 2])
@pytest.mark.parametrize("case", LOCAL)
def test_local_only(case, count, execution):
    given = {"init": "common", **LOCAL[case]}
    spelled = {"batch": "batch_size", "steps": "local_steps", "decay": "weight_decay"}
    common = settings(
        participation=count / 5,
        execution=execution,
        **{spelled.get(name, name): value for name, value in given.items()},
    )
    run = simulation(LocalOnly(), partitioned(SIZES), common, seed=SEED)
    before, z = state(run)["z"], local_only(partitioned(SIZES), count=count, **given)
    for t in range(1, 6):
        run.advance()
        after = state(run)["z"]
        np.testing.assert_allclose(after, next(z), rtol=0, atol=1e-10)
        moved = np.abs(after - before).max(1) > 1e-4
        assert np.flatnonzero(moved).tolist() == selected(t, 5, count).tolist()
        before = after
    assert run.finished


def test_a_client_knows_nothing_of_the_others():
    """Everyone else's samples change; client 3 does not notice, the others do."""
    data, other = partitioned(SIZES), partitioned(SIZES)
    mine = data.train[data.offsets[3] : data.offsets[4]]
    others = np.setdiff1d(data.train, mine)
    other.dataset.x[others] += 1.0
    common = settings(batch_size=2, momentum=0.5)
    a, b = (finish(simulation(LocalOnly(), one, common, seed=SEED)) for one in (data, other))
    moved = np.abs(state(a)["z"] - state(b)["z"]).max(1)
    assert moved[3] == 0
    assert (np.delete(moved, 3) > 1e-4).all()


@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize("init", ["common", "own"])
def test_local_only_is_scored_by_the_sample_weighted_mean(init, aggregation):
    """Also of clients that never had a turn: they still have what they began with."""
    sizes = [2, 30, 3, 9, 4]
    data = partitioned(sizes, tests=40)
    x, y = data.dataset.x[data.test].astype(float), data.dataset.y[data.test]
    common = settings(participation=0.4, rounds=2, init=init, aggregation=aggregation)
    run = simulation(LocalOnly(lr=1.0), data, common, seed=SEED)
    gap = 0.0
    while True:
        logits = [x @ w[:6].reshape(3, 2).T + w[6:] for w in state(run)["z"]]
        accuracy = np.array([np.mean(one.argmax(1) == y) for one in logits])
        loss = np.array(
            [-np.mean(one[np.arange(40), y] - np.log(np.exp(one).sum(1))) for one in logits]
        )
        p, entry = np.array(sizes) / sum(sizes), run.history[-1]
        assert entry["test_accuracy"] == pytest.approx(p @ accuracy, abs=1e-12)
        assert entry["test_loss"] == pytest.approx(p @ loss, abs=1e-12)
        gap = max(gap, abs(p @ loss - loss.mean()))
        if run.finished:
            break
        run.advance()
    assert gap > 1e-3
    assert len(set(selected(1, 5, 2)) | set(selected(2, 5, 2))) < 5


def test_centralized_is_not_fedavg_on_several_clients():
    common = settings(batch_size=2)
    a, b = (
        finish(simulation(one, partitioned(SIZES), common, seed=SEED))
        for one in (Centralized(), FedAvg(lr=LR))
    )
    assert np.abs(state(a)["w"] - state(b)["w"]).max() > 1e-3
