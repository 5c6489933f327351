"""FedAgg as printed: Theorem 1 solved three ways, the zero fixed point, when it stops, costs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.fedagg import PARTS, L, N, executed, multiset, run_of, three
from tests.support.oracle import LR, D, agrees, first, gradient, initial, shares, spent
from tests.support.simulations import finish, rounds


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
    agrees(run, literal(epochs=epochs, **rule), least=1e-6)


@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_literal_with_weight_decay_and_another_alpha(alpha):
    rule = {"alpha": alpha, "max_sweeps": 2, "tolerance": 0.0}
    run = run_of("fedagg_literal", weight_decay=0.1, **rule)
    agrees(run, literal(decay=0.1, **rule))


def test_literal_counts_repeated_clients():
    rule = {"max_sweeps": 2, "tolerance": 0.0}
    run = run_of("fedagg_literal", selection="with_replacement", **rule)
    agrees(run, literal(multiset, **rule))


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
    agrees(run, literal(**rule))
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
