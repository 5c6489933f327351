"""Settings and services all algorithms share, against plain NumPy: rates, clipping, selection, the
two-sided loss, refusals, step counts and trajectories.
"""

from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from helpers import dealt, finish, honoured, local_work, rounds, same, settings, simulation, state
from hypothesis import given
from hypothesis import strategies as st
from oracle import (
    CLASSES,
    EXECUTIONS,
    FEATURES,
    SEED,
    D,
    clients,
    gradient,
    initial,
    selected,
    shares,
)
from suite_helpers import cells_of

from trials import models
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedprox import FedProx
from trials.errors import UserError
from trials.losses import LOSSES
from trials.models import MODELS, Model
from trials.randomness import uniform
from trials.settings import Settings
from trials.solver import minibatches
from trials.trial import TrialSpec, refuse, simulate

LR = 0.4
SIZES = [5, 9, 3, 7, 4]
STEPS = 4
every = pytest.mark.parametrize("name", ALGORITHMS)


def cut(step, longest):
    norm = np.linalg.norm(step)
    return step * (longest / norm) if norm > longest else step


def sgd(
    w, batches, rate, momentum=0.0, decay=0.0, clip=np.inf, extra=lambda v: 0.0, slope=gradient
):
    """`rate` is one number or one a step; a step is cut before it enters the momentum."""
    w, velocity = w.copy(), np.zeros_like(w)
    rates = np.broadcast_to(rate, len(batches))
    for (x, y), eta in zip(batches, rates, strict=True):
        step = slope(w, x, y) + decay * w + extra(w)
        velocity = momentum * velocity + cut(step, clip)
        w = w - eta * velocity
    return w


def fedavg(data, select=None, lr_decay=1.0, prox=0.0, aggregation="samples", **local):
    parts, w, t = list(clients(data)), initial(), 0
    while True:
        t += 1
        ids = np.arange(data.clients) if select is None else select(t)
        rate = LR * lr_decay ** (t - 1)
        ends = [
            sgd(w, [parts[k]] * STEPS, rate, extra=lambda v, w=w: prox * (v - w), **local)
            for k in ids
        ]
        w = shares(parts, ids, aggregation) @ np.array(ends)
        yield w


def agrees(algorithm, oracle, sizes=SIZES, **given):
    run = simulation(algorithm, dealt(sizes), settings(**given), seed=SEED)
    before, count = run.state["w"].numpy().copy(), 0
    for found, expected in zip(rounds(run), oracle, strict=False):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        assert np.abs(found - before).max() > 1e-6
        before, count = found, count + 1
    assert run.finished
    assert count == run.fed.settings.rounds
    return run


# lr_decay


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("lr_decay", [0.5, 0.998])
def test_fedavg_at_a_decaying_rate(lr_decay, execution):
    oracle = fedavg(dealt(SIZES), lr_decay=lr_decay)
    agrees(FedAvg(lr=LR), oracle, lr_decay=lr_decay, execution=execution)


def test_fedsgd_at_a_decaying_rate():
    data = dealt(SIZES)
    parts, p = list(clients(data)), np.array(SIZES) / sum(SIZES)

    def oracle():
        w, rate = initial(), LR
        while True:
            w = w - rate * (p @ np.array([gradient(w, *part) for part in parts]))
            rate *= 0.6
            yield w

    agrees(ALGORITHMS["fedsgd"](lr=LR), oracle(), lr_decay=0.6)


@pytest.mark.parametrize("count", [5, 2])
def test_scaffold_at_a_decaying_rate(count):
    """algorithms.md 1.7: option II divides by the current rate."""
    n, parts = 5, list(clients(dealt(SIZES)))

    def oracle():
        w, c, own, t = initial(), np.zeros(D), np.zeros((n, D)), 0
        while True:
            t += 1
            ids, rate = selected(t, n, count), LR * 0.6 ** (t - 1)
            ends, change = [], np.zeros(D)
            for k in ids:
                end = sgd(w, [parts[k]] * STEPS, rate, extra=lambda v, k=k, c=c: c - own[k])
                new = own[k] - c + (w - end) / (STEPS * rate)
                change += (new - own[k]) / n
                own[k] = new
                ends.append(end)
            w, c = np.mean(ends, 0), c + change
            yield w

    given = {"lr_decay": 0.6, "participation": count / n, "aggregation": "plain"}
    agrees(ALGORITHMS["scaffold"](lr=LR), oracle(), **given)


def common_to(name, **given):
    """Settings an algorithm honours; its local work is four full batches."""
    kept, _ = honoured(name, {**given, **local_work(name)}, "iid")
    return settings(**kept)


@every
def test_the_rate_of_round_2_is_the_decayed_one(name):
    """Round 2 under lr_decay = 0.5 is round 2 of the same state at half the rate."""
    cls, data = ALGORITHMS[name], dealt([9, 4, 7, 12])
    common = common_to(name, rounds=2, momentum=0.5, weight_decay=0.01)
    decaying = finish(
        simulation(cls(lr=0.2), data, common.model_copy(update={"lr_decay": 0.5}), "mlp(5,4)")
    )
    first, halved = (simulation(cls(lr=lr), data, common, "mlp(5,4)") for lr in (0.2, 0.1))
    first.advance()
    halved.load(first.save())
    same(decaying, finish(halved), 0.0)
    ours, steady = state(decaying), state(finish(first))
    weights = next(key for key in ("w", "W", "z") if key in ours)
    assert np.abs(ours[weights] - steady[weights]).max() > 1e-6


# clip_norm


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("clip", [0.05, 0.5])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.5), (0.6, 0.5)])
def test_a_step_is_cut_with_its_weight_decay_and_before_momentum(momentum, decay, clip, execution):
    data = dealt(SIZES)
    local = {"momentum": momentum, "decay": decay, "clip": clip}
    assert np.abs(next(fedavg(data, **local)) - next(fedavg(data))).max() > 1e-3
    common = {"momentum": momentum, "weight_decay": decay, "clip_norm": clip}
    agrees(FedAvg(lr=LR), fedavg(data, **local), execution=execution, **common)


def test_the_cases_of_clipping_differ():
    """Else the test above could not tell them apart."""
    data, clip = dealt(SIZES), 0.5
    cases = [{"decay": 0.5}, {"decay": 0.5, "clip": clip}, {"decay": 0.5, "momentum": 0.6}]
    cases.append({"decay": 0.5, "momentum": 0.6, "clip": clip})
    ends = [next(fedavg(data, **case)) for case in cases]
    for i, one in enumerate(ends):
        for other in ends[:i]:
            assert np.abs(one - other).max() > 1e-3


def test_some_steps_are_cut_and_some_are_not():
    norms = [np.linalg.norm(gradient(initial(), x, y)) for x, y in clients(dealt(SIZES))]
    assert min(norms) < 0.5 < max(norms)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_the_whole_direction_is_cut(execution):
    """FedProx's pull is in it."""
    oracle = fedavg(dealt(SIZES), prox=2.0, clip=0.2)
    given = {"clip_norm": 0.2, "execution": execution}
    agrees(FedProx(lr=LR, mu=2.0), oracle, **given)
    outside = fedavg(dealt(SIZES), prox=2.0)
    assert np.abs(next(oracle) - next(outside)).max() > 1e-3


def test_fedsgd_cuts_what_a_client_sends():
    parts, p = list(clients(dealt(SIZES))), np.array(SIZES) / sum(SIZES)

    def oracle():
        w = initial()
        while True:
            w = w - LR * p @ np.array([cut(gradient(w, *part) + 0.5 * w, 0.2) for part in parts])
            yield w

    agrees(ALGORITHMS["fedsgd"](lr=LR), oracle(), clip_norm=0.2, weight_decay=0.5)


@every
def test_a_huge_clip_changes_no_bit(name):
    data, common = dealt([9, 4, 7, 12]), {"momentum": 0.5, "rounds": 2}
    plain, clipped = (
        finish(simulation(ALGORITHMS[name](lr=0.2), data, common_to(name, **common, **given)))
        for given in ({}, {"clip_norm": 1e12})
    )
    same(plain, clipped, 0.0)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_tiny_clip_bounds_how_far_a_client_goes(execution):
    """One step goes just that far, several no further than together."""
    ids = torch.arange(len(SIZES))
    for steps in (1, 3):
        common = settings(clip_norm=1e-3, local_steps=steps, execution=execution)
        fed = simulation(FedAvg(), dealt(SIZES), common, seed=SEED).fed
        fed.begin(1)
        start = fed.initial(ids)
        far = (fed.train(ids, start, LR, lambda w, g: g) - start).norm(dim=1).numpy()
        assert (far <= LR * steps * 1e-3 * (1 + 1e-9)).all()
        assert (far > 0.9 * LR * steps * 1e-3).all()


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "fedavgm", "fedsgd"])
def test_a_tiny_clip_bounds_how_far_the_server_goes(name):
    run = simulation(ALGORITHMS[name](lr=LR), dealt(SIZES), settings(clip_norm=1e-3), seed=SEED)
    moved = np.linalg.norm(next(rounds(run)) - initial())
    assert 0 < moved <= LR * STEPS * 1e-3 * (1 + 1e-9)


def test_clipping_zeros_gives_zeros_and_short_rows_stay():
    fed = simulation(FedAvg(), dealt(SIZES), settings(clip_norm=2.0)).fed
    rows = torch.tensor([[0.0, 0.0], [0.3, -0.4], [0.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    expected = [[0, 0], [0.3, -0.4], [0, 2], [1.2, 1.6]]
    np.testing.assert_allclose(fed.clipped(rows).numpy(), expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(rows[3].numpy(), [3, 4])


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_clip_that_makes_no_sense_is_refused(value):
    with pytest.raises(ValueError, match="clip_norm"):
        Settings(clip_norm=value)


@pytest.mark.parametrize("value", [0, -0.5, 1.01, float("nan")])
def test_a_decay_that_makes_no_sense_is_refused(value):
    with pytest.raises(ValueError, match="lr_decay"):
        Settings(lr_decay=value)


# selection


def repeated(t, n, count, stream="select"):
    """`count` draws with replacement: the n-th parts of [0, 1) that uniform numbers fall into."""
    return np.sort(np.floor(uniform(stream, SEED, t, np.arange(count)) * n).astype(int))


def independent(t, n, participation):
    u = uniform("select", SEED, t, np.arange(n))
    chosen = np.flatnonzero(u < participation)
    return chosen if len(chosen) else np.array([u.argmin()])


WAYS = {
    "with_replacement": lambda t: repeated(t, 5, 3),
    "independent": lambda t: independent(t, 5, 0.6),
}


def test_the_selections_have_repeats_and_empty_rounds():
    draws = [repeated(t, 5, 3).tolist() for t in range(1, 6)]
    assert any(len(set(ids)) < 3 for ids in draws)
    assert any(len(set(ids)) == 3 for ids in draws)
    u = [uniform("select", SEED, t, np.arange(5)) for t in range(1, 13)]
    assert any((one < 0.2).sum() == 0 for one in u)
    assert any((one < 0.2).sum() > 1 for one in u)
    assert len({int((one < 0.6).sum()) for one in u}) > 1


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize("selection", WAYS)
def test_fedavg_of_who_is_selected(selection, aggregation, execution):
    """A client drawn twice weighs twice."""
    oracle = fedavg(dealt(SIZES), WAYS[selection], aggregation=aggregation)
    given = {"participation": 0.6, "aggregation": aggregation, "execution": execution}
    run = agrees(FedAvg(lr=LR), oracle, selection=selection, **given)
    sent = np.cumsum([0] + [len(set(WAYS[selection](t).tolist())) for t in range(1, 6)])
    for devices, entry in zip(sent, run.history, strict=True):
        assert entry["uploaded_bytes"] == entry["downloaded_bytes"] == 8 * D * devices
        assert entry["client_steps"] == STEPS * devices
        assert entry["clients_uploaded"] == devices


def test_independent_selection_has_at_least_one_client():
    oracle = fedavg(dealt(SIZES), lambda t: independent(t, 5, 0.2))
    given = {"participation": 0.2, "selection": "independent", "rounds": 12}
    agrees(FedAvg(lr=LR), oracle, **given)


@given(
    st.integers(1, 12),
    st.floats(0.01, 1.0),
    st.integers(0, 50),
    st.sampled_from(["select", "second"]),
)
def test_who_is_selected(n, participation, t, stream):
    chosen = {}
    for selection in ("without_replacement", "with_replacement", "independent"):
        common = settings(participation=participation, selection=selection)
        fed = simulation(FedAvg(), dealt([1] * n), common, seed=SEED).fed
        fed.begin(t)
        ids = fed.select() if stream == "select" else fed.select(stream)
        assert ids.dtype == torch.int64
        chosen[selection] = ids.tolist()
    u, count = uniform(stream, SEED, t, np.arange(n)), max(1, round(participation * n))
    assert chosen["without_replacement"] == sorted(np.argsort(u)[:count].tolist())
    assert chosen["with_replacement"] == repeated(t, n, count, stream).tolist()
    below = np.flatnonzero(u < participation).tolist()
    assert chosen["independent"] == (below or [int(u.argmin())])


def test_participation_1_selects_everyone_where_nobody_repeats():
    for selection in ("without_replacement", "independent"):
        fed = simulation(FedAvg(), dealt(SIZES), settings(selection=selection)).fed
        fed.begin(1)
        assert fed.select().tolist() == [0, 1, 2, 3, 4]


probabilities = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=9
).filter(any)


@given(probabilities, st.floats(0.2, 1.0), st.integers(1, 40))
def test_a_draw_maps_uniform_numbers_through_the_cumulative_probabilities(p, participation, t):
    n = len(p)
    fed = simulation(FedAvg(), dealt([1] * n), settings(participation=participation), seed=SEED).fed
    fed.begin(t)
    found = fed.draw(torch.tensor(p, dtype=torch.float64)).tolist()
    u = uniform("select", SEED, t, np.arange(max(1, round(participation * n))))
    total, expected = sum(p), []
    for one in u:
        k, reached = 0, p[0] / total
        while reached <= one and k < n - 1:
            k += 1
            reached += p[k] / total
        expected.append(k)
    assert found == sorted(expected)
    assert all(p[k] > 0 for k in found)


def test_a_draw_on_an_edge_belongs_to_the_next(monkeypatch):
    """As floor(n u) does; what has no probability is never drawn."""
    edges = np.array([0.0, 0.25, 0.5, 0.75])
    monkeypatch.setattr("trials.randomness.uniform", lambda *words: edges)
    for p, expected in [([1, 1, 1, 1], [0, 1, 2, 3]), ([0, 1, 1, 0, 2], [1, 2, 4, 4])]:
        fed = simulation(FedAvg(), dealt([1] * len(p)), settings(init="zeros"), seed=SEED).fed
        assert fed.draw(torch.tensor(p, dtype=torch.float64)).tolist() == expected


def test_a_draw_is_proportional():
    """6,000 draws, each count within 5 deviations; scale does not matter."""
    p = np.array([0.1, 0.0, 0.6, 0.3])
    fed = simulation(FedAvg(), dealt([1] * 4), settings(), seed=SEED).fed
    counts = np.zeros(4)
    for t in range(1, 1501):
        fed.begin(t)
        ids = fed.draw(torch.from_numpy(p))
        assert torch.equal(ids, fed.draw(torch.from_numpy(1000 * p)))
        counts += np.bincount(ids.numpy(), minlength=4)
    assert counts.sum() == 6000
    assert (np.abs(counts - 6000 * p) <= 5 * np.sqrt(6000 * p * (1 - p))).all()


# What a client does for each of the times it was drawn is done once.


def service(data=None, level="iid", model="logreg", at=3, **given):
    fed = simulation(FedAvg(), data or dealt(SIZES), settings(**given), model, level, SEED).fed
    fed.begin(at)
    return fed


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_repeated_client_works_and_sends_once(execution):
    fed = service(execution=execution, participation=1.0)
    twice, once = torch.tensor([1, 1, 3, 4, 4, 4]), torch.tensor([1, 3, 4])
    message = torch.arange(3, dtype=torch.float64)
    received = fed.broadcast(twice, message)
    assert received.shape == (6, 3)
    assert fed.counters["downloaded_bytes"] == 3 * 3 * 8
    start = fed.initial(twice)
    w = fed.train(twice, start, LR, lambda w, g: g)
    assert fed.counters["client_steps"] == 3 * STEPS
    g = fed.gradient(twice, w)
    assert fed.counters["gradient_passes"] == 3
    accuracy = fed.accuracy(twice, w)
    assert fed.counters["evaluation_passes"] == 3
    assert torch.equal(fed.upload(twice, w), w)
    assert fed.counters["uploaded_bytes"] == 3 * D * 8
    assert fed.counters["clients_uploaded"] == 3
    fed.upload(twice, accuracy)
    assert fed.counters["uploaded_bytes"] == 3 * D * 8 + 3 * 8
    assert fed.counters["clients_uploaded"] == 3
    alone = fed.train(once, fed.initial(once), LR, lambda w, g: g)
    for row, k in enumerate(twice.tolist()):
        one = once.tolist().index(k)
        np.testing.assert_allclose(w[row], alone[one], rtol=0, atol=1e-14)
        part = list(clients(dealt(SIZES)))[k]
        np.testing.assert_allclose(g[row], gradient(w[row].numpy(), *part), rtol=0, atol=1e-12)
        z = part[0] @ w[row, :6].numpy().reshape(3, 2).T + w[row, 6:].numpy()
        assert float(accuracy[row]) == pytest.approx(np.mean(z.argmax(1) == part[1]), abs=1e-12)
    m = np.array(SIZES)[twice]
    np.testing.assert_allclose(fed.weights(twice), m / m.sum(), rtol=0, atol=1e-15)


def test_relative_sizes_are_n_times_shares_of_all():
    some = torch.tensor([1, 4])
    expected = 5 * np.array([9, 4]) / 28
    np.testing.assert_allclose(service().relative_size(some), expected, rtol=0, atol=1e-15)
    plain = service(aggregation="plain").relative_size(some)
    np.testing.assert_array_equal(plain, [1, 1])


# two_sided


def two_sided(z, y):
    """SAFL (27): -sum_c y_c ln p_c + (1 - y_c) ln (1 - p_c), p = softmax(z)."""
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    truth = np.eye(z.shape[-1])[y]
    return -(truth * np.log(p) + (1 - truth) * np.log(1 - p)).sum(-1)


def two_sided_slope(z, y):
    """dL/dz_j = p_j - [j = y] + sum_{c != y} p_c ([j = c] - p_j) / (1 - p_c)."""
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    truth = np.eye(z.shape[-1])[y]
    odds = (1 - truth) * p / (1 - p)
    return p - truth + odds - odds.sum(-1, keepdims=True) * p


def two_sided_gradient(w, x, y):
    z = x @ w[: CLASSES * FEATURES].reshape(CLASSES, FEATURES).T + w[CLASSES * FEATURES :]
    dz = two_sided_slope(z, y) / len(y)
    return np.concatenate([(dz.T @ x).ravel(), dz.sum(0)])


def test_the_slope_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    z, y, h = rng.normal(size=(20, 4)), rng.integers(0, 4, 20), 1e-6
    found = two_sided_slope(z, y)
    for j, e in enumerate(np.eye(4)):
        slope = (two_sided(z + h * e, y) - two_sided(z - h * e, y)) / (2 * h)
        np.testing.assert_allclose(found[:, j], slope, rtol=0, atol=1e-8)


def torch_two_sided(z, y, dtype=torch.float64):
    """Losses and their slopes."""
    leaf = torch.tensor(z, dtype=dtype, requires_grad=True)
    losses = LOSSES["two_sided"](leaf, torch.as_tensor(y))
    losses.sum().backward()
    return losses.detach().numpy(), leaf.grad.numpy()


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_two_sided_of_any_shape(shape, classes):
    rng = np.random.default_rng(1)
    z, y = 3 * rng.normal(size=(*shape, classes)), rng.integers(0, classes, shape)
    losses, slopes = torch_two_sided(z, y)
    assert losses.shape == shape
    np.testing.assert_allclose(losses, two_sided(z, y), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slopes, two_sided_slope(z, y), rtol=1e-8, atol=1e-12)


def test_two_sided_by_hand():
    """Odds 3:1 are p = 3/4, 1/4: -2 ln 3/4 and -2 ln 1/4; three equal ones -ln 1/3 - 2 ln 2/3."""
    losses, slopes = torch_two_sided([[np.log(3), 0.0]] * 2, [0, 1])
    np.testing.assert_allclose(losses, [-2 * np.log(0.75), 2 * np.log(4)], rtol=0, atol=1e-14)
    expected = [[-0.5, 0.5], [1.5, -1.5]]
    np.testing.assert_allclose(slopes, expected, rtol=0, atol=1e-14)
    losses, slopes = torch_two_sided([[5.0, 5.0, 5.0]], [1])
    np.testing.assert_allclose(losses, [np.log(3) + 2 * np.log(1.5)], rtol=0, atol=1e-14)
    np.testing.assert_allclose(slopes, [[0.5, -1.0, 0.5]], rtol=0, atol=1e-14)


@given(st.lists(st.tuples(st.floats(-30, 30), st.floats(-30, 30)), min_size=1, max_size=6))
def test_with_two_classes_it_is_twice_the_cross_entropy(z):
    z = torch.tensor(z, dtype=torch.float64)
    for label in (0, 1):
        y = torch.full((len(z),), label)
        one, both = (LOSSES[name](z, y) for name in ("cross_entropy", "two_sided"))
        torch.testing.assert_close(both, 2 * one, rtol=1e-12, atol=1e-14)


def exact(z, y):
    """Loss and slope in 500 digits."""
    with localcontext() as context:
        context.prec = 500
        e = [Decimal(v).exp() for v in z]
        p = [v / sum(e) for v in e]
        others = [c for c in range(len(z)) if c != y]
        loss = -p[y].ln() - sum((1 - p[c]).ln() for c in others)
        slope = [
            p[j] - (j == y) + sum(p[c] * ((j == c) - p[j]) / (1 - p[c]) for c in others)
            for j in range(len(z))
        ]
        return float(loss), [float(v) for v in slope]


@pytest.mark.parametrize(("dtype", "relative"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(
    "z",
    [
        [200, -200, -200],
        [-200, 200, 200],
        [200, 199, -200],
        [-200, -200, -200],
        [200, -200],
        [0, 30, 60],
        [200, 0, -200, 100],
    ],
)
def test_two_sided_does_not_overflow(z, dtype, relative):
    for y in range(len(z)):
        losses, slopes = torch_two_sided([[float(v) for v in z]], [y], dtype)
        loss, slope = exact(z, y)
        assert np.isfinite(losses).all()
        np.testing.assert_allclose(losses[0], loss, rtol=relative, atol=relative)
        np.testing.assert_allclose(slopes[0], slope, rtol=relative, atol=relative)


def test_exact_by_hand():
    """p = (1, 0, 0) and label 1: the loss 400 + (400 - ln 2), the slope (2, -3/2, -1/2)."""
    loss, slope = exact([200, -200, -200], 1)
    assert loss == pytest.approx(800 - np.log(2), abs=1e-9)
    assert slope == pytest.approx([2, -1.5, -0.5], abs=1e-12)


SMALL = {
    "logreg": ("logreg", (3, 2)),
    "mlp": ("mlp(6,5)", (3, 2)),
    "lenet5": ("lenet5", (1, 16, 16)),
}


@pytest.mark.parametrize("model", MODELS)
def test_models_under_the_two_sided_loss(model):
    """Losses from the model's logits, gradients along random directions, one client and many."""
    text, shape = SMALL[model]
    rng, k, b, classes = np.random.default_rng(2), 3, 4, 4
    fitted = Model(models.parse(text), shape, classes, LOSSES["two_sided"])
    w = torch.from_numpy(fitted.initial(np.arange(k), 0))
    x, y = torch.from_numpy(rng.normal(size=(k, b, *shape))), rng.integers(0, classes, (k, b))
    weight = torch.tensor([[0.25] * 4, [0.5, 0.5, 0, 0], [1.0, 0, 0, 0]], dtype=torch.float64)
    losses, g = fitted.gradients(w, x, torch.from_numpy(y), weight)

    def loss(at):
        z = fitted.logits(at, x).numpy()
        return (two_sided(z, y) * weight.numpy()).sum(-1)

    np.testing.assert_allclose(losses, loss(w), rtol=0, atol=1e-12)
    for _ in range(5):
        u, h = torch.from_numpy(rng.normal(size=(k, fitted.d))), 1e-6
        slope = (loss(w + h * u) - loss(w - h * u)) / (2 * h)
        np.testing.assert_allclose((g * u).sum(1), slope, rtol=1e-5, atol=1e-6)
    for i in range(k):
        one = fitted.gradients(w[i], x[i], torch.from_numpy(y[i]), weight[i])
        torch.testing.assert_close(one[0], losses[i], rtol=0, atol=1e-12)
        torch.testing.assert_close(one[1], g[i], rtol=0, atol=1e-12)


def spelled(name="fedavg", level="iid", seed=SEED, lr=LR, model="logreg", **given):
    """A spec of these settings; of its data set only the name is used."""
    return TrialSpec(
        algorithm=name,
        params={"lr": lr},
        dataset="digits",
        model=model,
        heterogeneity=level,
        settings=settings(**given),
        seed=seed,
    )


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_fedavg_under_the_two_sided_loss(execution):
    run = simulate(spelled(loss="two_sided", execution=execution), dealt(SIZES))
    oracle = fedavg(dealt(SIZES), slope=two_sided_gradient)
    x, y = run.fed.x[run.fed.data.test].numpy(), run.fed.y[run.fed.data.test].numpy()
    for found, expected in zip(rounds(run), oracle, strict=False):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        z = x @ found[:6].reshape(3, 2).T + found[6:]
        loss = two_sided(z, y).mean()
        assert run.history[-1]["test_loss"] == pytest.approx(loss, abs=1e-10)
    assert run.finished
    ordinary = finish(simulate(spelled(execution=execution), dealt(SIZES)))
    assert np.abs(state(run)["w"] - state(ordinary)["w"]).max() > 1e-2


def test_full_gradients_are_of_the_two_sided_loss():
    parts, p = list(clients(dealt(SIZES))), np.array(SIZES) / sum(SIZES)
    w = initial()
    run = simulate(spelled("fedsgd", loss="two_sided", rounds=1), dealt(SIZES))
    step = p @ np.array([two_sided_gradient(w, *part) for part in parts])
    np.testing.assert_allclose(next(rounds(run)), w - LR * step, rtol=0, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_batched_equals_sequential_under_the_two_sided_loss(model):
    data = dealt([9, 4, 7, 12], shape=(1, 16, 16))
    given = {"batch_size": 4, "momentum": 0.5, "weight_decay": 0.01, "clip_norm": 1.0}
    text = "mlp(7,5)" if model == "mlp" else model
    runs = [
        finish(
            simulate(
                spelled(lr=0.05, model=text, loss="two_sided", rounds=2, execution=one, **given),
                data,
            )
        )
        for one in EXECUTIONS
    ]
    same(*runs, 1e-10)
    ends = [run.history[-1] for run in runs]
    assert ends[0]["train_loss"] == pytest.approx(ends[1]["train_loss"], abs=1e-10)
    assert ends[0]["test_loss"] == pytest.approx(ends[1]["test_loss"], abs=1e-10)


# What an algorithm refuses

OTHER = {
    "batch_size": "full",
    "local_epochs": 3,
    "local_steps": 3,
    "lr_decay": 0.9,
    "momentum": 0.5,
    "weight_decay": 0.1,
    "clip_norm": 1.0,
    "loss": "two_sided",
    "init": "own",
    "aggregation": "plain",
    "selection": "with_replacement",
    "participation": 0.3,
}
"""A value that is not the default."""

REFUSED = [(name, key) for name, cls in ALGORITHMS.items() for key in cls.refuses]


def asked(key):
    """Settings and level that ask for what `key` names, and how a message names it."""
    if key == "system":
        return {}, "iid+system(steps=1..4)", "system"
    setting, _, value = key.partition("=")
    value = value or OTHER[setting]
    return {setting: value}, "iid", f"{setting}={value}"


@pytest.mark.parametrize(("name", "key"), REFUSED)
def test_what_is_refused_is_refused_by_name_and_with_its_reason(name, key):
    cls, (given, level, words) = ALGORITHMS[name], asked(key)
    with pytest.raises(UserError) as caught:
        refuse(name, cls, Settings(**given), level)
    for part in (name, words, cls.refuses[key]):
        assert part in str(caught.value)
    refuse(name, cls, Settings(), "iid")
    refuse("fedavg", FedAvg, Settings(**given), level)


@pytest.mark.parametrize(("name", "key"), REFUSED)
def test_a_trial_with_a_refused_setting_never_begins(name, key, monkeypatch):
    given, level, words = asked(key)
    base = {"local_steps": None, "local_epochs": 1}
    spec = spelled(name, level, **{**base, **given})
    began = []
    monkeypatch.setattr("trials.federation.Federation.begin", lambda *a: began.append(a))
    with pytest.raises(UserError, match=words):
        finish(simulate(spec, dealt(SIZES)))
    with pytest.raises(UserError, match=words):
        spec.configured()
    assert not began
    spelled(name, "iid", **base).configured()


@pytest.mark.parametrize(("name", "key"), REFUSED)
def test_a_study_with_a_refused_setting_is_refused_as_a_whole(name, key):
    given, level, words = asked(key)
    with pytest.raises(UserError) as caught:
        cells_of(algorithms=["fedavg", name], settings=given, heterogeneity=[level])
    for part in (name, words, ALGORITHMS[name].refuses[key]):
        assert part in str(caught.value)
    assert cells_of(algorithms=["fedavg", name])
    assert cells_of(algorithms=["fedavg"], settings=given, heterogeneity=[level])


@pytest.mark.parametrize(("name", "key"), [(n, k) for n, k in REFUSED if k != "system"])
def test_a_search_over_a_refused_setting_is_refused(name, key):
    """Among choices, and within an interval where there is no other value."""
    given, _, _ = asked(key)
    ((setting, value),) = given.items()
    usual = Settings.model_fields[setting].default
    choices = [value, usual] if usual is not None else [value, value + 1]
    spec = {"default": choices[0] if usual is None else usual, "choices": choices}
    with pytest.raises(UserError) as caught:
        cells_of(algorithms=["fedavg", name], search={setting: spec})
    assert ALGORITHMS[name].refuses[key] in str(caught.value)
    assert cells_of(algorithms=["fedavg"], search={setting: spec})


def test_an_algorithm_refuses_what_it_is_made_of_refuses():
    """What FedDC cannot honour its combination with FedUmf cannot either."""
    parts, whole = (ALGORITHMS[name].refuses for name in ("feddc", "fedumf_feddc"))
    assert set(parts) | set(ALGORITHMS["fedumf"].refuses) <= set(whole)


@pytest.mark.parametrize("name", ["fedumf_feddc", "feddc", "feddyn", "scaffold"])
@pytest.mark.parametrize("selection", ["with_replacement", "independent"])
def test_a_server_that_keeps_a_mean_of_states_keeps_it(name, selection):
    """Or refuses draws that may repeat."""
    cls = ALGORITHMS[name]
    common = settings(selection=selection, participation=0.6, aggregation="plain")
    try:
        refuse(name, cls, common)
    except UserError:
        return
    found = state(finish(simulation(cls(lr=0.1), dealt(SIZES), common, seed=SEED)))
    for mean, rows in (("mean_h", "h"), ("g", "g_k"), ("c", "c_k")):
        if mean in found:
            np.testing.assert_allclose(found[mean], found[rows].mean(0), rtol=0, atol=1e-10)


# Steps, rates, trajectories

SYSTEM = "iid+system(steps=1..7)"


@pytest.mark.parametrize("at", [1, 3])
def test_steps(at):
    ids = torch.tensor([4, 0, 2, 2])
    for how, level, expected in [
        ({"local_steps": 6}, "iid", [6, 6, 6, 6]),
        ({"local_steps": None, "local_epochs": 3}, "iid", [3, 3, 3, 3]),
        ({"local_steps": None, "batch_size": 4, "local_epochs": 2}, "iid", [2, 4, 2, 2]),
        ({"local_steps": None, "batch_size": 2}, "iid", [2, 3, 2, 2]),
        ({}, SYSTEM, 1 + np.floor(uniform("steps", SEED, at, ids.numpy()) * 7)),
    ]:
        found = service(at=at, level=level, **how).steps(ids)
        assert found.dtype == torch.float64
        np.testing.assert_array_equal(found, expected)


def work(fed, ids):
    """Each client's minibatches of the round."""
    steps = fed.steps(ids).numpy().astype(int)
    x, y = fed.data.dataset.x.astype(float), fed.data.dataset.y
    words = (SEED, fed.round)
    plan = minibatches(fed.data, ids.numpy(), steps, fed.settings.batch_size, words)
    return [
        [(x[b], y[b]) for b in (plan.samples[i, j][plan.weight[i, j] > 0] for j in range(steps[i]))]
        for i in range(len(ids))
    ]


EPOCHS = {"local_steps": None, "local_epochs": 3, "batch_size": 4}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["one", "per client", "per epoch"])
def test_rates_of_clients_and_epochs(kind, decay, momentum, execution):
    given = {"momentum": momentum, "weight_decay": decay, "execution": execution}
    fed, ids = service(**EPOCHS, **given), torch.tensor([3, 0, 4, 1])
    per_epoch = -(-np.array(SIZES)[ids] // 4)
    assert len(set(per_epoch)) > 1
    rng = np.random.default_rng(4)
    rates = {
        "one": LR,
        "per client": rng.uniform(0.1, 0.9, 4),
        "per epoch": rng.uniform(0.0, 0.9, (4, 3)),
    }[kind]
    start = rng.normal(size=(4, D))
    rate = rates if kind == "one" else torch.from_numpy(rates)
    found = fed.train(ids, torch.from_numpy(start), rate, lambda w, g: g)
    for i, batches in enumerate(work(fed, ids)):
        of_steps = {
            "one": lambda i: LR,
            "per client": lambda i: rates[i],
            "per epoch": lambda i: np.repeat(rates[i], per_epoch[i]),
        }[kind](i)
        expected = sgd(start[i], batches, of_steps, momentum=momentum, decay=decay)
        np.testing.assert_allclose(found[i], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_rates_of_clients_with_unequal_steps(execution):
    fed, ids = service(level=SYSTEM, batch_size=2, execution=execution), torch.arange(5)
    rates, start = np.array([0.1, 0.9, 0.3, 0.5, 0.7]), np.tile(initial(), (5, 1))
    assert len(set(fed.steps(ids).tolist())) > 2
    found = fed.train(ids, torch.from_numpy(start), torch.from_numpy(rates), lambda w, g: g)
    for i, batches in enumerate(work(fed, ids)):
        np.testing.assert_allclose(found[i], sgd(start[i], batches, rates[i]), rtol=0, atol=1e-12)


def pulled(w, g, anchor, a):
    return g + a * (w - anchor)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_rows_reach_the_client_they_belong_to(execution):
    """Also where clients are sorted by their steps, drawn twice, and cut to those at work."""
    fed = service(level=SYSTEM, batch_size=2, execution=execution)
    ids, rng = torch.tensor([4, 1, 1, 0, 3]), np.random.default_rng(5)
    start, anchor = (torch.from_numpy(rng.normal(size=(5, D))) for _ in range(2))
    start[2], anchor[2] = start[1], anchor[1]
    a = torch.tensor([[0.1], [0.5], [0.5], [0.9], [0.3]], dtype=torch.float64)
    rates = torch.tensor([0.1, 0.2, 0.2, 0.3, 0.4], dtype=torch.float64)
    found = fed.train(ids, start, rates, pulled, anchor=anchor, a=a)
    batches = work(fed, torch.tensor([4, 1, 0, 3]))
    for row, i in enumerate([0, 1, 1, 2, 3]):
        extra = lambda v, row=row: a[row].numpy() * (v - anchor[row].numpy())  # noqa: E731
        expected = sgd(start[row].numpy(), batches[i], float(rates[row]), extra=extra)
        np.testing.assert_allclose(found[row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("batch", [4, 2, "full"])
@pytest.mark.parametrize("kind", ["one", "per epoch"])
def test_a_trajectory_is_train_epoch_by_epoch(kind, batch, momentum, execution):
    given = {"batch_size": batch, "momentum": momentum, "execution": execution, "clip_norm": 0.8}
    ids, rng = torch.tensor([3, 0, 4, 1]), np.random.default_rng(6)
    start, anchor = (torch.from_numpy(rng.normal(size=(4, D))) for _ in range(2))
    a = torch.full((4, 1), 0.3, dtype=torch.float64)
    eta = torch.from_numpy(rng.uniform(0.1, 0.9, (4, 3)))

    def made(epochs):
        return service(**{**EPOCHS, **given, "local_epochs": epochs})

    rate = LR if kind == "one" else eta
    fed = made(3)
    path = fed.trajectory(ids, start, rate, pulled, anchor=anchor, a=a)
    assert path.shape == (4, 4, D)
    assert torch.equal(path[:, 0], start)
    assert torch.equal(path[:, -1], made(3).train(ids, start, rate, pulled, anchor=anchor, a=a))
    for epochs in (1, 2, 3):
        other = made(epochs)
        rate = LR if kind == "one" else eta[:, :epochs]
        end = other.train(ids, start, rate, pulled, anchor=anchor, a=a)
        np.testing.assert_allclose(path[:, epochs], end, rtol=0, atol=1e-13)
        assert (path[:, epochs] - path[:, epochs - 1]).abs().amax(1).min() > 1e-4
    assert fed.counters["client_steps"] == other.counters["client_steps"]


def test_a_trajectory_of_repeated_clients():
    fed, once = service(**EPOCHS), service(**EPOCHS)
    ids, some = torch.tensor([1, 1, 4]), torch.tensor([1, 4])
    twice = fed.trajectory(ids, fed.initial(ids), LR, lambda w, g: g)
    alone = once.trajectory(some, once.initial(some), LR, lambda w, g: g)
    assert torch.equal(twice[0], twice[1])
    np.testing.assert_allclose(twice[1:], alone, rtol=0, atol=1e-13)
    assert fed.counters["client_steps"] == once.counters["client_steps"] == 3 * (3 + 1)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("level", ["iid", SYSTEM])
def test_an_earlier_round_is_computed_as_it_was_and_not_counted_again(level, execution):
    given = {"batch_size": 2, "momentum": 0.5, "execution": execution}
    now, then = (service(level=level, at=at, **given) for at in (6, 2))
    ids = torch.tensor([0, 2, 3])
    start = then.initial(ids)
    expected = then.train(ids, start, LR, lambda w, g: g)
    now.train_loss = 123.0
    found = now.train(ids, start, LR, lambda w, g: g, at_round=2)
    assert torch.equal(found, expected)
    assert now.counters["client_steps"] == 0
    assert now.train_loss == 123.0
    then.deferred(torch.tensor([1, 1, 4]))
    both = then.steps(torch.tensor([1, 4])).sum() + then.steps(ids).sum()
    assert then.counters["client_steps"] == int(both)
    assert (now.train(ids, start, LR, lambda w, g: g) - expected).abs().max() > 1e-4


def test_train_leaves_what_it_is_given():
    for execution in EXECUTIONS:
        fed = service(execution=execution, momentum=0.5, weight_decay=0.1, **EPOCHS)
        ids = torch.arange(5)
        start = fed.initial(ids)
        kept = start.clone()
        fed.train(ids, start, LR, lambda w, g: g)
        fed.trajectory(ids, start, LR, lambda w, g: g)
        assert torch.equal(start, kept)


def test_a_rate_in_a_round_is_what_a_user_gave():
    """The algorithm itself keeps the undecayed rate, and its other hyperparameters."""
    seen = []

    class Watched(FedProx):
        def round(self, state, fed):
            seen.append((fed.round, self.lr, self.mu))
            return super().round(state, fed)

    algorithm = Watched(lr=0.8, mu=0.3)
    run = finish(
        simulation(algorithm, dealt(SIZES), settings(lr_decay=0.5, rounds=4, eval_every=2))
    )
    assert seen == [(1, 0.8, 0.3), (2, 0.4, 0.3), (3, 0.2, 0.3), (4, 0.1, 0.3)]
    assert run.algorithm == algorithm == replace(algorithm, lr=0.8)
