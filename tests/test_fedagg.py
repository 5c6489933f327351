"""FedAgg, computable and as printed: equations in NumPy, limits, the zero fixed point, costs.

algorithms.md 4.1, 4.2; settings.md 2, 2.1. L is the number of local epochs, l = 0..L-1 an epoch and
k = 1..L its end.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from helpers import dealt, finish, rounds, same, settings, simulation, state
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import EXECUTIONS, LR, SEED, D, clients, gradient, initial, selected, shares

from trials.algorithms import ALGORITHMS
from trials.errors import UserError
from trials.federated_data import FederatedData
from trials.federation import Federation
from trials.randomness import uniform
from trials.settings import Settings
from trials.solver import minibatches
from trials.trial import refuse

SIZES, L, BATCH = [5, 9, 3, 7, 6], 3, 4
N = len(SIZES)
DATA = dealt(SIZES)
PARTS = list(clients(DATA))
PER_EPOCH = np.array([2, 3, 1, 2, 2])
"""Minibatches of at most 4 in a pass."""
executed = pytest.mark.parametrize("execution", EXECUTIONS)
scaled = pytest.mark.parametrize("scaling", ["cosine", "raw"])
directed = pytest.mark.parametrize("local_direction", ["own", "mean"])


def three(t):
    return selected(t, N, 3)


def multiset(t):
    return np.sort((N * uniform("select", SEED, t, np.arange(3))).astype(int))


@cache
def epochs_of(t, k):
    """Client k's minibatches in round t, by epoch."""
    steps = L * PER_EPOCH[k]
    plan = minibatches(DATA, np.array([k]), np.array([steps]), BATCH, (SEED, t))
    taken = [plan.samples[0, j][plan.weight[0, j] > 0] for j in range(steps)]
    batches = [(DATA.dataset.x[b].astype(float), DATA.dataset.y[b]) for b in taken]
    return [batches[l * PER_EPOCH[k] : (l + 1) * PER_EPOCH[k]] for l in range(L)]


def path_of(w, epochs, rates, momentum=0.0, decay=0.0):
    """w_{i,0}, ..., w_{i,L} of SGD with a rate for each epoch."""
    path, v = [w], 0.0
    for batches, rate in zip(epochs, rates, strict=True):
        for batch in batches:
            v = momentum * v + gradient(w, *batch) + decay * w
            w = w - rate * v
        path.append(w)
    return path


def rates_of(paths, phi1, phi2, alpha, scaling, lr, eta_max):
    """eta_{i,l} of each client before and after the clip, by loops over l and k > l."""
    c = (1 - alpha) / alpha
    free = np.zeros((len(paths), len(phi1)))
    for i, path in enumerate(paths):
        for l in range(len(phi1)):
            v = sum(path[k] - phi2[k] for k in range(l + 1, len(phi1) + 1))
            product = phi1[l] @ v
            if scaling == "raw":
                free[i, l] = lr + c * product
            else:
                size1, size2 = np.linalg.norm(phi1[l]), np.linalg.norm(v)
                noise = size1 < 1e-12 or size2 < 1e-12
                free[i, l] = lr * (1 + c * (0 if noise else product / size1 / size2))
    return free, np.minimum(np.maximum(free, 0), eta_max * lr)


def fedagg(
    choose=three,
    alpha=0.1,
    scaling="cosine",
    local_direction="own",
    sweeps=1,
    eta_max=10.0,
    aggregation="samples",
    lr_decay=1.0,
    momentum=0.0,
    decay=0.0,
    met=None,
):
    """Algorithms.md 4.2; `met` collects the rates before and after the clip."""
    w, t = initial(), 0
    while True:
        t += 1
        lr, ids = LR * lr_decay ** (t - 1), choose(t)
        work = [epochs_of(t, k) for k in ids]
        paths = [path_of(w, epochs, [lr] * L, momentum, decay) for epochs in work]
        for _ in range(sweeps):
            phi1 = [
                np.mean(
                    [
                        gradient(p[l], *PARTS[k]) + decay * p[l]
                        for p, k in zip(paths, ids, strict=True)
                    ],
                    0,
                )
                for l in range(L)
            ]
            phi2 = np.mean(paths, 0)
            free, eta = rates_of(paths, phi1, phi2, alpha, scaling, lr, eta_max)
            if met is not None:
                met.append((free, eta))
            if local_direction == "own":
                paths = [
                    path_of(w, epochs, rates, momentum, decay)
                    for epochs, rates in zip(work, eta, strict=True)
                ]
            else:
                for i, k in enumerate(ids):
                    paths[i] = [w]
                    for l in range(L):
                        paths[i].append(paths[i][l] - PER_EPOCH[k] * eta[i, l] * phi1[l])
        w = sum(p * path[L] for p, path in zip(shares(PARTS, ids, aggregation), paths, strict=True))
        yield w


def first(oracle, count=5):
    return [next(oracle) for _ in range(count)]


def apart(a, b):
    return np.abs(np.array(a) - np.array(b)).max()


def run_of(name="fedagg", data=DATA, count=3, federation=Federation, **given):
    """A simulation with `given` hyperparameters and settings, at round 0."""
    own = set(given) & set(ALGORITHMS[name].__dataclass_fields__)
    params = {"lr": LR, **{field: given.pop(field) for field in own}}
    base = {"batch_size": BATCH, "local_epochs": L, "local_steps": None}
    common = settings(participation=count / data.clients, **{**base, **given})
    return simulation(ALGORITHMS[name](**params), data, common, seed=SEED, federation=federation)


def follows(run, oracle, least=1e-4):
    """Assert that the server's weights are the oracle's after each round, and move."""
    before = run.state["w"].numpy().copy()
    for found, expected in zip(rounds(run), oracle, strict=False):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        assert np.abs(found - before).max() > least
        before = found
    assert run.finished


def spent(run, key):
    return np.diff([entry[key] for entry in run.history]).tolist()


# The computable reading


@executed
@scaled
@directed
@pytest.mark.parametrize("sweeps", [1, 2])
def test_fedagg(sweeps, local_direction, scaling, execution):
    rule = {"scaling": scaling, "local_direction": local_direction, "sweeps": sweeps}
    follows(run_of(execution=execution, **rule), fedagg(**rule))


@executed
@scaled
@pytest.mark.parametrize(("alpha", "eta_max"), [(0.1, 2.0), (0.4, 1.2), (0.7, 1.05)])
def test_the_clip(alpha, eta_max, scaling, execution):
    """Rates below 0, above eta_max lr and between are all met."""
    rule = {"alpha": alpha, "eta_max": eta_max, "scaling": scaling}
    met = []
    first(fedagg(met=met, **rule))
    free = np.concatenate([rates for rates, _ in met]).ravel()
    assert (free > eta_max * LR).any()
    assert ((free > 0) & (free < eta_max * LR) & (np.abs(free - LR) > 1e-3)).any()
    if alpha == 0.1:
        assert (free < 0).any()
    follows(run_of(execution=execution, **rule), fedagg(**rule))


@scaled
def test_fedagg_with_momentum_decays_and_plain_aggregation(scaling):
    rule = {"alpha": 0.3, "scaling": scaling, "aggregation": "plain", "sweeps": 2}
    common = {"momentum": 0.5, "lr_decay": 0.8}
    run = run_of(weight_decay=0.1, **rule, **common)
    follows(run, fedagg(decay=0.1, **rule, **common))


@directed
def test_fedagg_counts_repeated_clients(local_direction):
    assert any(len(set(multiset(t))) < 3 for t in range(1, 6))
    rule = {"local_direction": local_direction, "alpha": 0.3}
    follows(run_of(selection="with_replacement", **rule), fedagg(multiset, **rule))


@pytest.mark.parametrize(
    "other",
    [
        {"alpha": 0.2},
        {"scaling": "raw"},
        {"local_direction": "mean"},
        {"sweeps": 2},
        {"eta_max": 2.0},
        {"alpha": 1.0},
    ],
    ids=str,
)
def test_the_oracle_knows_its_parameters(other):
    assert apart(first(fedagg()), first(fedagg(**other))) > 1e-3


def test_rates_on_paper():
    """L = 1, w = 0, phi1 = (2, 0), ends (-1, 0) and (-3, 4): phi2_1 = (-2, 2), v = +-(1, -2).

    raw: 0.1 + c (+-2) with c = 1/4, so 0.6 and -0.4 -> 0; cosine: 0.1 (1 +- 1 / (4 sqrt 5)).
    """
    paths = np.array([[[0.0, 0], [-1, 0]], [[0, 0], [-3, 4]]])
    g = np.array([[[1.0, 7]], [[3, -7]]])
    raw, _ = planned(paths, g, alpha=0.8, scaling="raw", lr=0.1, eta_max=100.0)
    np.testing.assert_allclose(raw, [[0.6], [0]])
    cosine, _ = planned(paths, g, alpha=0.8, scaling="cosine", lr=0.1)
    np.testing.assert_allclose(cosine.ravel(), [0.1 + 0.025 / 5**0.5, 0.1 - 0.025 / 5**0.5])


def planned(paths, g, **params):
    """The rates that clients get from epoch ends (n, L + 1, r) and gradients (n, L, r).

    Also returns the server's weights after the round.
    """
    n, epochs, r = g.shape
    rates = []

    class Planned(Federation):
        def trajectory(self, ids, start, lr, direction, /, **rows):
            rates.append(lr)
            self.train_loss = 1.0
            path = torch.zeros(n, epochs + 1, self.d, dtype=self.dtype)
            path[..., :r] = torch.from_numpy(paths)
            return path

        def gradient(self, ids, w):
            for l in range(epochs):
                if np.array_equal(w[:, :r].numpy(), paths[:, l]):
                    found = torch.zeros(n, self.d, dtype=self.dtype)
                    found[:, :r] = torch.from_numpy(g[:, l])
                    return found
            raise AssertionError("a gradient elsewhere than at the start of an epoch")

    data = dealt([4] * n, shape=(r,), classes=2)
    given = {"init": "zeros", "rounds": 1, "local_epochs": epochs, "count": n, **params}
    run = run_of(data=data, federation=Planned, **given)
    after = next(rounds(run))
    base, *rest = rates
    assert base == params["lr"]
    assert [tuple(one.shape) for one in rest] == [(n, epochs)] * len(rest)
    return rest[-1].numpy() if rest else None, after[:r]


def cases(elements):
    """Distinct epoch ends from a common start, and gradients."""
    shape = st.tuples(st.integers(2, 4), st.integers(1, 4), st.integers(1, 3))
    return shape.flatmap(
        lambda s: st.tuples(
            arrays(float, (s[0], s[1], s[2]), elements=elements),
            arrays(float, s, elements=elements),
        )
    ).map(
        lambda case: (np.concatenate([0 * case[0][:, :1], case[0]], 1) + ladder(case[0]), case[1])
    )


def ladder(ends):
    """Something that tells apart epochs which do not move."""
    return np.arange(ends.shape[1] + 1)[None, :, None] * 100.0


@given(
    cases(st.integers(-20, 20).map(float)),
    st.sampled_from([0.05, 0.1, 0.5, 0.9, 1.0]),
    st.sampled_from(["raw", "cosine"]),
    st.sampled_from([1.0, 3.0, 10.0, 1e6]),
    st.integers(1, 3),
)
def test_rates(case, alpha, scaling, eta_max, sweeps):
    paths, g = case
    params = {"alpha": alpha, "scaling": scaling, "eta_max": eta_max, "sweeps": sweeps, "lr": 0.25}
    found, _ = planned(paths, g, **params)
    free, clipped = rates_of(paths, g.mean(0), paths.mean(0), alpha, scaling, 0.25, eta_max)
    np.testing.assert_allclose(found, clipped, rtol=1e-9, atol=1e-9)
    assert (found >= 0).all()
    assert (found <= 0.25 * eta_max).all()
    if scaling == "raw":
        np.testing.assert_allclose(free.mean(0), 0.25, rtol=0, atol=1e-7)
        if (free >= 0).all() and (free <= 0.25 * eta_max).all():
            np.testing.assert_allclose(found.mean(0), 0.25, rtol=0, atol=1e-7)
    if alpha == 1:
        np.testing.assert_array_equal(found, 0.25)


@profile(max_examples=30)
@given(cases(st.integers(-20, 20).map(float)), st.sampled_from(["raw", "cosine"]))
def test_the_mean_direction_moves_by_the_mean_gradients(case, scaling):
    """One minibatch an epoch; samples are as many everywhere."""
    paths, g = case
    params = {"alpha": 0.5, "scaling": scaling, "lr": 0.25, "local_direction": "mean"}
    none, w = planned(paths, g, **params)
    assert none is None
    phi1 = g.mean(0)
    _, eta = rates_of(paths, phi1, paths.mean(0), 0.5, scaling, 0.25, 10.0)
    np.testing.assert_allclose(w, paths[0, 0] - eta.mean(0) @ phi1, rtol=1e-9, atol=1e-9)


class Noted(Federation):
    """Keeps the rates of all trajectories."""

    def trajectory(self, ids, start, lr, direction, /, **rows):
        self.__dict__.setdefault("rates", []).append(lr)
        return super().trajectory(ids, start, lr, direction, **rows)


def noted(**given):
    run = finish(run_of(federation=Noted, **given))
    swept = [lr.numpy() for lr in run.fed.rates if isinstance(lr, torch.Tensor) and lr.dim() == 2]
    assert len(swept) == 5 * given.get("sweeps", 1)
    return np.array(swept)


@pytest.mark.parametrize("sweeps", [1, 3])
def test_raw_rates_have_the_study_rate_as_their_mean(sweeps):
    """c = 1/9 is small enough for nobody to meet the clip."""
    eta = noted(scaling="raw", alpha=0.9, sweeps=sweeps, eta_max=100.0)
    assert (eta > 0).all()
    assert eta.std(1).max() > 1e-3
    np.testing.assert_allclose(eta.mean(1), LR, rtol=0, atol=1e-12)


def test_cosine_rates_have_not():
    eta = noted(scaling="cosine", alpha=0.9)
    assert (eta > 0).all()
    assert np.abs(eta.mean(1) - LR).max() > 1e-4


def test_the_rates_follow_the_decayed_one():
    eta = noted(scaling="raw", alpha=0.9, eta_max=100.0, lr_decay=0.5)
    np.testing.assert_allclose(eta.mean((1, 2)), LR * 0.5 ** np.arange(5), rtol=0, atol=1e-12)
    eta = noted(scaling="raw", alpha=0.001, eta_max=2.0, lr_decay=0.5)
    np.testing.assert_allclose(eta.max((1, 2)), 2 * LR * 0.5 ** np.arange(5), rtol=0, atol=1e-12)


COMMON = {"momentum": 0.5, "weight_decay": 0.01, "lr_decay": 0.9}


@scaled
@pytest.mark.parametrize("selection", ["without_replacement", "with_replacement", "independent"])
def test_alpha_1_is_fedavg_at_the_study_rate(selection, scaling):
    common = {**COMMON, "selection": selection}
    fedavg = finish(run_of("fedavg", **common))
    same(finish(run_of(alpha=1.0, scaling=scaling, sweeps=2, **common)), fedavg, 1e-12)
    other = finish(run_of(alpha=0.5, scaling=scaling, sweeps=2, **common))
    assert apart(state(other)["w"], state(fedavg)["w"]) > 1e-3


@scaled
@directed
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_identical_clients_are_fedavg_at_the_study_rate(dtype, local_direction, scaling):
    """Their v is rounding noise, which a cosine must not make a direction of."""
    one = dealt([8])
    copies = FederatedData(one.dataset, np.tile(one.train, 5), 8 * np.arange(6), one.val, one.test)
    common = {"data": copies, "batch_size": "full", "dtype": dtype, "weight_decay": 0.01}
    rule = {"scaling": scaling, "local_direction": local_direction, "sweeps": 2}
    fedavg = finish(run_of("fedavg", **common))
    found = finish(run_of(**rule, **common))
    same(found, fedavg, {"float64": 1e-12, "float32": 1e-5}[dtype])
    assert apart(state(finish(run_of(**rule)))["w"], state(finish(run_of("fedavg")))["w"]) > 1e-3


@scaled
def test_a_client_alone_is_fedavg_at_the_study_rate(scaling):
    fedavg = finish(run_of("fedavg", count=1, **COMMON))
    same(finish(run_of(count=1, scaling=scaling, **COMMON)), fedavg, 1e-12)


def test_one_epoch_uses_the_gradient_at_the_common_start():
    """L = 1: the first epoch has no earlier one to learn from, but its own end counts."""
    given = {"local_epochs": 1, "batch_size": "full", "alpha": 0.5, "scaling": "raw", "count": N}
    w, p = initial(), shares(PARTS, range(N))
    g = [gradient(w, *part) for part in PARTS]
    phi1 = np.mean(g, 0)
    eta = [LR + phi1 @ (LR * phi1 - LR * g_k) for g_k in g]
    expected = w - sum(p_k * e * g_k for p_k, e, g_k in zip(p, eta, g, strict=True))
    assert min(eta) > 0
    np.testing.assert_allclose(next(rounds(run_of(**given))), expected, rtol=0, atol=1e-12)


@directed
@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("sweeps", [1, 2])
def test_what_fedagg_costs(sweeps, dtype, size, local_direction):
    """Each sweep: L gradients and L epoch ends up, their means down; w both ways once.

    Each pass of training is L epochs; a sweep takes L full gradients; the mean direction needs no
    training after the first pass.
    """
    run = finish(run_of(sweeps=sweeps, dtype=dtype, local_direction=local_direction))
    steps = [L * int(PER_EPOCH[three(t)].sum()) for t in range(1, 6)]
    passes = 1 + sweeps if local_direction == "own" else 1
    assert spent(run, "uploaded_bytes") == [size * 3 * (2 * L * sweeps + 1) * D] * 5
    assert spent(run, "downloaded_bytes") == [size * 3 * (2 * L * sweeps + 1) * D] * 5
    assert spent(run, "client_steps") == [passes * s for s in steps]
    assert spent(run, "gradient_passes") == [3 * L * sweeps] * 5
    assert spent(run, "evaluation_passes") == [0] * 5
    assert spent(run, "clients_uploaded") == [3] * 5
    assert spent(run, "peer_bytes") == [0] * 5


@pytest.mark.parametrize("name", ["fedagg", "fedagg_literal"])
def test_what_it_refuses(name):
    cls = ALGORITHMS[name]
    refuse(name, cls, Settings(local_epochs=3), "iid")
    for common, level in [
        ({"local_steps": 4}, "iid"),
        ({}, "iid+system(steps=1..4)"),
        ({"init": "own"}, "iid"),
    ]:
        with pytest.raises(UserError):
            refuse(name, cls, Settings(**common), level)


# The printed procedure


def by_matrix(w, phi1, phi2, alpha):
    """(I + c A) eta = c b with sums written out over k > max(l, r)."""
    c, n = (1 - alpha) / alpha, len(phi1)
    A, b = np.zeros((n, n)), np.zeros(n)
    for l in range(n):
        for k in range(l + 1, n + 1):
            b[l] += phi1[l] @ (w - phi2[k])
            for r in range(k):
                A[l, r] += phi1[l] @ phi1[r]
    return np.linalg.solve(np.eye(n) + c * A, c * b)


def backward(w, phi1, phi2, alpha):
    """The same for l = L-1..0: each eta_r, r >= l, as a_r + B_r . w_l, in terms of where l begins."""
    c, n = (1 - alpha) / alpha, len(phi1)
    a, B = np.zeros(n), np.zeros((n, len(w)))
    for l in reversed(range(n)):
        later = range(l + 1, n)
        weight = {r: (n - r) * (phi1[l] @ phi1[r]) for r in later}
        own = 1 + c * (n - l) * (phi1[l] @ phi1[l])
        own -= c * sum(weight[r] * (B[r] @ phi1[l]) for r in later)
        constant = -sum(weight[r] * a[r] for r in later)
        constant -= sum(phi1[l] @ phi2[k] for k in range(l + 1, n + 1))
        slope = (n - l) * phi1[l] - sum(weight[r] * B[r] for r in later)
        a[l], B[l] = c * constant / own, c * slope / own
        for r in later:
            a[r] -= B[r] @ phi1[l] * a[l]
            B[r] -= B[r] @ phi1[l] * B[l]
    return a + B @ w


def objective(eta, w, phi1, phi2, alpha):
    """Alpha |eta|^2 + (1 - alpha) sum_k |w_k - phi2_k|^2 along w_{l+1} = w_l - eta_l phi1_l."""
    path = w - np.cumsum(eta[:, None] * phi1, 0)
    return alpha * eta @ eta + (1 - alpha) * ((path - phi2[1:]) ** 2).sum()


FIELDS = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda s: st.tuples(
        arrays(float, (s[1],), elements=st.integers(-9, 9).map(lambda v: v / 3)),
        arrays(float, s, elements=st.integers(-9, 9).map(lambda v: v / 3)),
        arrays(float, (s[0] + 1, s[1]), elements=st.integers(-9, 9).map(lambda v: v / 3)),
    )
)


@given(FIELDS, st.sampled_from([0.05, 0.1, 0.5, 0.9, 1.0]))
def test_both_solutions_minimise_what_theorem_1_minimises(fields, alpha):
    eta = by_matrix(*fields, alpha)
    np.testing.assert_allclose(backward(*fields, alpha), eta, rtol=1e-6, atol=1e-8)
    w, phi1, phi2 = fields
    path = np.concatenate([w[None], w - np.cumsum(eta[:, None] * phi1, 0)])
    c = (1 - alpha) / alpha
    for l in range(len(eta)):
        assert eta[l] == pytest.approx(c * phi1[l] @ (path - phi2)[l + 1 :].sum(0), abs=1e-8)
    least = objective(eta, *fields, alpha)
    for step in 1e-3 * np.concatenate([np.eye(len(eta)), -np.eye(len(eta))]):
        assert objective(eta + step, *fields, alpha) > least


def literal(choose=three, alpha=0.1, tolerance=0.0, max_sweeps=3, epochs=L, decay=0.0, met=None):
    """4.1; `met` collects the rates of each round and the number of sweeps."""

    def slope(k, v):
        return gradient(v, *PARTS[k]) + decay * v

    def descend(k, rates):
        path = [w]
        for eta in rates:
            path.append(path[-1] - eta * slope(k, path[-1]))
        return path

    def fields(ids, paths):
        phi1 = [
            np.mean([slope(k, p[l]) for k, p in zip(ids, paths, strict=True)], 0)
            for l in range(epochs)
        ]
        return np.array(phi1), np.mean(paths, 0)

    w, t = initial(), 0
    while True:
        t += 1
        ids, sweeps = choose(t), 0
        phi1, phi2 = fields(ids, [descend(k, [LR] * epochs) for k in ids])
        while sweeps < max_sweeps:
            sweeps += 1
            eta = backward(w, phi1, phi2, alpha)
            common = np.concatenate([w[None], w - np.cumsum(eta[:, None] * phi1, 0)])
            new1, new2 = fields(ids, [common] * len(ids))
            change1, change2 = np.linalg.norm(new1 - phi1), np.linalg.norm(new2 - phi2)
            phi1, phi2 = new1, new2
            if change1 < tolerance and change2 < tolerance:
                break
        eta = by_matrix(w, phi1, phi2, alpha)
        if met is not None:
            met.append((eta, sweeps))
        p = shares(PARTS, ids)
        w = sum(p_k * descend(k, eta)[-1] for p_k, k in zip(p, ids, strict=True))
        yield w


@executed
@pytest.mark.parametrize("epochs", [1, 3, 4])
@pytest.mark.parametrize("max_sweeps", [1, 4])
def test_literal(max_sweeps, epochs, execution):
    rule = {"max_sweeps": max_sweeps, "tolerance": 0.0}
    run = run_of("fedagg_literal", execution=execution, local_epochs=epochs, **rule)
    follows(run, literal(epochs=epochs, **rule), least=1e-6)


@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_literal_with_weight_decay_and_another_alpha(alpha):
    rule = {"alpha": alpha, "max_sweeps": 2, "tolerance": 0.0}
    run = run_of("fedagg_literal", weight_decay=0.1, **rule)
    follows(run, literal(decay=0.1, **rule))


def test_literal_counts_repeated_clients():
    rule = {"max_sweeps": 2, "tolerance": 0.0}
    run = run_of("fedagg_literal", selection="with_replacement", **rule)
    follows(run, literal(multiset, **rule))


def sweeps_of(run, count=3, epochs=L):
    """From 1 + 2 L (sweeps + 1) models a client and round."""
    models = np.array(spent(run, "uploaded_bytes")) / (8 * count * D)
    return ((models - 1) / (2 * epochs) - 1).tolist()


def test_the_tolerance_stops_the_sweeps():
    met, rule = [], {"tolerance": 0.05, "max_sweeps": 200}
    first(literal(met=met, **rule))
    assert all(1 < sweeps < 200 for _, sweeps in met)
    assert all(np.abs(eta).max() > 1e-3 for eta, _ in met)
    run = run_of("fedagg_literal", **rule)
    follows(run, literal(**rule))
    assert sweeps_of(run) == [sweeps for _, sweeps in met]


def test_both_changes_must_be_small():
    """Of gradients and models the later to settle decides, as it does in the oracle."""
    runs = {}
    for tolerance in (0.3, 0.1, 0.03, 0.01):
        met = []
        first(literal(met=met, tolerance=tolerance, max_sweeps=200))
        run = finish(run_of("fedagg_literal", tolerance=tolerance, max_sweeps=200))
        runs[tolerance] = sweeps_of(run)
        assert runs[tolerance] == [sweeps for _, sweeps in met]
    assert all(a[0] <= b[0] for a, b in pairwise(runs.values()))
    assert runs[0.3][0] < runs[0.01][0]


def test_the_fixed_point_is_rate_zero():
    """After many sweeps nothing moves; after few the server does."""
    met = {}
    for max_sweeps in (2, 20, 250):
        met[max_sweeps] = []
        first(literal(met=met[max_sweeps], max_sweeps=max_sweeps), 1)
    largest = [np.abs(eta).max() for ((eta, _),) in met.values()]
    assert largest[0] > 0.05
    assert largest[0] > largest[1] > 1e3 * largest[2]
    assert largest[2] < 1e-6
    moved = {}
    for max_sweeps in (2, 250):
        run = run_of("fedagg_literal", tolerance=0.0, max_sweeps=max_sweeps, rounds=1)
        before = run.state["w"].numpy().copy()
        moved[max_sweeps] = np.abs(next(rounds(run)) - before).max()
        assert sweeps_of(run) == [max_sweeps]
    assert moved[2] > 1e-2
    assert moved[250] < 1e-6


def test_the_rate_of_one_epoch_shrinks_with_each_sweep():
    """L = 1: w - phi2_1 = eta phi1, so that each sweep multiplies eta by c|phi1|^2 / (1 + c|phi1|^2)
    and phi1 = mean g stays; it starts with phi2_1 = w - lr phi1.
    """
    w, c = initial(), 9.0
    g = np.mean([gradient(w, *part) for part in PARTS], 0)
    ratio = c * (g @ g) / (1 + c * (g @ g))
    p = shares(PARTS, range(N))
    mean = sum(p_k * gradient(w, *part) for p_k, part in zip(p, PARTS, strict=True))
    for max_sweeps in (1, 2, 7):
        rule = {"alpha": 0.1, "tolerance": 0.0, "max_sweeps": max_sweeps, "local_epochs": 1}
        found = next(rounds(run_of("fedagg_literal", count=N, **rule)))
        eta = LR * ratio ** (max_sweeps + 1)
        np.testing.assert_allclose(found, w - eta * mean, rtol=0, atol=1e-12)


def test_alpha_1_forbids_any_step():
    """c = 0: the rates are 0 at once."""
    run = run_of("fedagg_literal", alpha=1.0, max_sweeps=1)
    before = run.state["w"].numpy().copy()
    for w in rounds(run):
        np.testing.assert_allclose(w, before, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_what_the_printed_procedure_costs(sweeps, dtype, size):
    """The starting values and each sweep: L gradients and L points up, their means down.

    Full gradients only: L for the starting values, L a sweep, L in training, and no minibatch; the
    gradients of the starting values may be taken once more where their means are formed.
    """
    given = {"tolerance": 0.0, "max_sweeps": sweeps, "dtype": dtype}
    run = finish(run_of("fedagg_literal", **given))
    assert spent(run, "uploaded_bytes") == [size * 3 * (1 + 2 * L * (sweeps + 1)) * D] * 5
    assert spent(run, "downloaded_bytes") == [size * 3 * (1 + 2 * L * (sweeps + 1)) * D] * 5
    passes = spent(run, "gradient_passes")
    assert len(set(passes)) == 1
    assert 3 * L * (sweeps + 2) <= passes[0] <= 3 * L * (sweeps + 3)
    assert spent(run, "client_steps") == [0] * 5
    assert spent(run, "evaluation_passes") == [0] * 5
    assert spent(run, "clients_uploaded") == [3] * 5
