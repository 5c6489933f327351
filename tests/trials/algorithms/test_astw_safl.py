"""ASTW-SAFL against its equations in NumPy, on a layered model.

On two features, hidden layers of 4 and 3, and three classes.
"""

from itertools import pairwise

import numpy as np
import pytest

from tests.support.oracle import GENERAL, LR, SEED, STEPS, apart, clients, selected, spent
from tests.support.safl import EPSILON, SIZES, L, N, first, follows, mask, run_of, started
from tests.support.simulations import finish, partitioned, same, state
from trials.common.randomness import uniform

WIDTHS = [2, 4, 3, 3]
SHAPES = [shape for a, b in pairwise(WIDTHS) for shape in ((b, a), (b,))]
EDGES = np.cumsum([0, *(np.prod(shape) for shape in SHAPES)])
DEPTH = int(EDGES[-1])
SHALLOW = np.arange(DEPTH) < EDGES[2]
"""Of three layers the first: max(1, 3 // 2) = 1."""
MODEL = "mlp(4,3)"


def layered(w):
    parts = [w[a:b] for a, b in pairwise(EDGES)]
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def slope(w, x, y):
    """Backpropagation through two hidden layers with ReLU."""
    W1, b1, W2, b2, W3, b3 = layered(w)
    h1 = np.maximum(x @ W1.T + b1, 0)
    h2 = np.maximum(h1 @ W2.T + b2, 0)
    z = h2 @ W3.T + b3
    d3 = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    d3[np.arange(len(y)), y] -= 1
    d3 /= len(y)
    d2 = d3 @ W3 * (h2 > 0)
    d1 = d2 @ W2 * (h1 > 0)
    parts = [d1.T @ x, d1.sum(0), d2.T @ h1, d2.sum(0), d3.T @ h2, d3.sum(0)]
    return np.concatenate([part.ravel() for part in parts])


def trained(w, x, y, lr, decay=0.0):
    for _ in range(STEPS):
        w = w - lr * (slope(w, x, y) + decay * w)
    return w


def layered_initial(k=-1):
    """U(-r, r), r = 1 / sqrt(inputs of the layer)."""
    r = np.repeat(np.repeat(np.array(WIDTHS[:-1]) ** -0.5, 2), np.diff(EDGES))
    return (2 * uniform("initial", SEED, k, np.arange(DEPTH)) - 1) * r


def temporal(init, count, epsilon, A, loop, deep_share, aggregation="samples", lr=LR):
    """1.10 on clients of (6), (7), which mix what was just received."""
    parts = list(clients(partitioned(SIZES)))
    m = np.array(SIZES) if aggregation == "samples" else np.ones(N)
    z = [layered_initial(k) if init == "own" else layered_initial() for k in range(N)]
    kept = {True: {}, False: {}}
    w, t = layered_initial(), 0
    while True:
        t += 1
        deep_due = (t - 1) % loop >= loop - max(1, round(deep_share * loop))
        due = SHALLOW | deep_due
        ids = selected(t, N, count)
        before = {part: dict(uploads) for part, uploads in kept.items()}
        for k in ids:
            u = mask(t, k, epsilon, DEPTH)
            mixed = u * w + (1 - u) * z[k]
            known = np.where(SHALLOW, bool(before[True]), bool(before[False]) or init != "own")
            start = np.where(due & known, mixed, z[k]) if t > 1 else z[k]
            z[k] = trained(start, *parts[k], lr)
            for shallow in (True, False):
                if shallow or deep_due:
                    kept[shallow][k] = (z[k][shallow == SHALLOW], t)
        w = w.copy()
        for shallow in (True, False):
            if shallow or deep_due:
                q = {k: m[k] * A ** -(t - stamp) for k, (_, stamp) in kept[shallow].items()}
                total = sum(q[k] * part for k, (part, _) in kept[shallow].items())
                w[shallow == SHALLOW] = total / sum(q.values())
        yield w, count


def test_the_layered_oracles_gradient_is_the_slope_of_its_loss():
    x, y = next(clients(partitioned(SIZES)))
    w, h = layered_initial(), 1e-6

    def loss(v):
        W1, b1, W2, b2, W3, b3 = layered(v)
        hidden = np.maximum(np.maximum(x @ W1.T + b1, 0) @ W2.T + b2, 0)
        z = hidden @ W3.T + b3
        return np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y])

    found = [(loss(w + h * e) - loss(w - h * e)) / (2 * h) for e in np.eye(DEPTH)]
    np.testing.assert_allclose(slope(w, x, y), found, atol=1e-8)


@pytest.mark.parametrize("execution", GENERAL)
@started
@pytest.mark.parametrize(
    ("loop", "deep_share", "A"), [(3, 1 / 3, np.e / 2), (4, 0.5, 2.0), (5, 0.05, 1.2), (1, 0.3, 3)]
)
def test_astw_safl(loop, deep_share, A, init, execution):
    rule = {"epsilon": EPSILON, "A": A, "loop": loop, "deep_share": deep_share}
    given = {"L": L, "rounds": 9, "model": MODEL, "execution": execution}
    follows(run_of("astw_safl", init, 2, **rule, **given), temporal(init, 2, **rule))


def test_astw_safl_with_plain_aggregation():
    rule = {"epsilon": EPSILON, "A": 1.5, "loop": 3, "deep_share": 0.3}
    how = [first(temporal("own", 2, aggregation=one, **rule)) for one in ("samples", "plain")]
    assert apart(*how) > 1e-3
    run = run_of("astw_safl", "own", 2, aggregation="plain", L=L, rounds=7, model=MODEL, **rule)
    follows(run, temporal("own", 2, aggregation="plain", **rule))


@pytest.mark.parametrize(
    "other",
    [{"A": 1.0}, {"A": 1 / 1.5}, {"loop": 4}, {"deep_share": 0.7}, {"epsilon": 1.0}],
    ids=str,
)
def test_the_temporal_oracle_knows_its_parameters(other):
    rule = {"epsilon": EPSILON, "A": 1.5, "loop": 3, "deep_share": 0.3}
    a, b = (first(temporal("own", 2, **{**rule, **more}), 9) for more in ({}, other))
    assert apart(a, b) > 1e-3


@pytest.mark.parametrize("loop", [1, 3])
def test_astw_safl_with_epsilon_1_is_astw(loop):
    given = {"A": 1.5, "loop": loop, "deep_share": 0.3, "count": 3, "rounds": 8, "model": MODEL}
    common = {"batch_size": 4, "momentum": 0.5, "lr": 0.2}
    found = finish(run_of("astw_safl", epsilon=1.0, L=L, **given, **common))
    astw = finish(run_of("astw", **given, **common))
    assert apart(state(found)["w"], state(astw)["w"]) < 1e-10
    mixed = finish(run_of("astw_safl", epsilon=0.3, L=L, **given, **common))
    assert apart(state(mixed)["w"], state(astw)["w"]) > 1e-3


@started
def test_astw_safl_that_exchanges_all_and_forgets_nothing_is_safl(init):
    """With all clients present every upload is new: q_k = m_k whatever A is."""
    given = {"init": init, "epsilon": EPSILON, "L": L, "model": MODEL, "batch_size": 4}
    safl = finish(run_of("safl", **given))
    for A in (1.0, 1.5):
        found = finish(run_of("astw_safl", A=A, loop=1, **given))
        assert apart(state(found)["w"], state(safl)["w"]) < 1e-10
        for a, b in zip(found.history, safl.history, strict=True):
            for counter in ("uploaded_bytes", "downloaded_bytes", "client_steps"):
                assert a[counter] == b[counter]


def test_astw_that_forgets_at_once_is_fedavg():
    """A -> inf leaves this round's clients only."""
    given = {"count": 3, "model": MODEL, "batch_size": 4}
    astw, fedavg = (
        finish(run_of("astw", A=1e30, loop=1, **given)),
        finish(run_of("fedavg", **given)),
    )
    assert apart(state(astw)["w"], state(fedavg)["w"]) < 1e-10


@pytest.mark.parametrize("name", ["astw", "astw_safl"])
def test_a_model_of_one_layer_is_all_shallow(name):
    given = {"epsilon": EPSILON, "L": L} if name == "astw_safl" else {}
    runs = [finish(run_of(name, "own", 3, loop=loop, **given)) for loop in (1, 15)]
    same(*runs, 0.0)


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@started
def test_what_astw_safl_costs(init, dtype, size):
    """Rounds 3 and 6 of loops of three exchange all layers, the others the shallow one; what nobody
    has uploaded is not sent to clients that began on their own.
    """
    given = {"loop": 3, "deep_share": 1 / 3, "rounds": 7, "model": MODEL, "dtype": dtype}
    run = finish(run_of("astw_safl", init, 3, epsilon=EPSILON, L=L, **given))
    shallow = int(SHALLOW.sum())
    due = [shallow, shallow, DEPTH, shallow, shallow, DEPTH, shallow]
    assert spent(run, "uploaded_bytes") == [size * 3 * part for part in due]
    down = [0, shallow, shallow if init == "own" else DEPTH, *due[3:]]
    assert spent(run, "downloaded_bytes") == [size * 3 * part for part in down]
    assert spent(run, "clients_uploaded") == [3] * 7
    assert spent(run, "client_steps") == [3 * STEPS] * 7
    assert spent(run, "gradient_passes") == [0] * 7
    assert spent(run, "evaluation_passes") == [0] * 7
