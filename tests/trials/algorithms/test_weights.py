"""What each update weighs, and at which rate it is made, where gradients and models are given as tables."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.equations import Problem, agg_rates, fedagg_literal, theorem_1
from tests.support.oracle import D, agrees, gradient, initial, shares, spent
from tests.support.simulations import finish, partitioned, rounds, settings, simulation, state
from trials.algorithms import ALGORITHMS
from trials.engine.federation import Federation

WHOLE = st.integers(-50, 50)
TABLES = st.tuples(st.integers(2, 5), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=WHOLE).map(lambda table: table.astype(float))
)


def planned(name, table, sets=None, sizes=None, after=None, **params):
    """Server weights after a round in which client k has gradient table[k] and update e_k, and `after` it the gradient
    after[k].

    The first weights get nothing, so that the others show what each update weighs. Also returns
    the numbers `draw` was given.
    """
    n, r = table.shape
    asked, tables = [], [table, table if after is None else after]

    class Planned(Federation):
        def gradient(self, ids, w):
            g = torch.zeros(len(ids), self.d, dtype=self.dtype)
            g[:, :r] = torch.from_numpy(tables[bool(w[..., r:].any())])[ids]
            return g

        def train(self, ids, start, lr, direction, /, at_round=None, **rows):
            self._loss = torch.tensor(1.0)
            return start + torch.eye(self.d, dtype=self.dtype)[r + ids]

        def select(self, stream="select"):
            return super().select(stream) if sets is None else torch.tensor(sets[stream])

        def draw(self, p, *stream):
            asked.append(np.asarray(p, float))
            return super().draw(p, *stream)

    data = partitioned(sizes or [4] * n, shape=(r + n,), classes=2)
    common = settings(rounds=1, init="zeros")
    run = simulation(ALGORITHMS[name](**params), data, common, federation=Planned)
    w = next(rounds(run))
    assert not w[:r].any()
    assert not w[r + n :].any()
    return w[r : r + n], asked


@given(TABLES, st.data(), st.sampled_from([0.0, 0.1, 1.0, 100.0]))
def test_folb_s_absolute_weights_sum_to_1(g, more, psi):
    left = more.draw(arrays(np.int64, g.shape, elements=WHOLE)).astype(float)
    norm, mean = np.linalg.norm(g, axis=1), g.mean(0)
    gamma = np.divide(np.linalg.norm(left, axis=1), norm, out=np.zeros(len(g)), where=norm > 0)
    importance = g @ mean - psi * np.minimum(gamma, 1) * (mean @ mean)
    variant = {"variant": "heterogeneity", "psi": psi} if psi else {}
    p, _ = planned("folb", g, after=left, mu=0.0, **variant)
    if not mean.any():
        assert not p.any()
        return
    assume(np.abs(importance).sum() > 1e-6)
    np.testing.assert_allclose(p, importance / np.abs(importance).sum(), atol=1e-9)


@given(TABLES, st.data())
def test_two_set_weights_sum_to_the_ratio_of_squared_norms(g, more):
    n = len(g)
    draws = st.lists(st.integers(0, n - 1), min_size=n, max_size=n).map(sorted)
    first, second = more.draw(draws), more.draw(draws)
    G1, G2 = g[first].mean(0), g[second].mean(0)
    weights, _ = planned("folb_two_set", g, {"select": first, "second": second})
    if not g[second].any():  # nothing is moved without a gradient in the second
        assert not weights.any()
        return
    assume(G2 @ G2 > 1e-6)
    assert weights.sum() == pytest.approx(G1 @ G1 / (G2 @ G2), abs=1e-9)
    expected = np.zeros(n)
    np.add.at(expected, first, g[first] @ G1 / (n * G2 @ G2))
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-9)


@given(TABLES, st.data())
def test_signs(g, more):
    n = len(g)
    sizes = more.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    ids = more.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n).map(sorted))
    product = g @ (np.array(sizes) @ g)
    weights, _ = planned("fednu_sign", g, {"select": ids}, sizes)
    clear, expected = np.abs(product) > 1e-9, np.zeros(n)
    np.add.at(expected, ids, np.sign(product[ids]) / n)
    np.testing.assert_allclose(weights[clear], expected[clear], atol=1e-12)


def test_the_sign_of_0_is_0():
    g = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 0.0], [-3.0, 0.0]])
    np.testing.assert_allclose(planned("fednu_sign", g)[0], [-1 / 4, 1 / 4, 0, 1 / 4])


@given(TABLES, st.data(), st.sampled_from(["lb_optimal", "lb_norm"]))
def test_sampling_probabilities(g, more, rule):
    n = len(g)
    sizes = more.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    f = np.array(sizes) / np.sum(sizes) @ g
    agreement = g @ f if rule == "lb_optimal" else np.linalg.norm(g, axis=1)
    merit = np.abs(agreement)
    weights, (P,) = planned(rule, g, sizes=sizes)
    assert np.abs(weights).sum() == pytest.approx(1), "also without any gradient"
    np.testing.assert_allclose(weights * n, np.round(weights * n), atol=1e-9)
    assume(merit.sum() > 1e-6)
    np.testing.assert_allclose(P / P.sum(), merit / merit.sum(), atol=1e-9)
    assert not weights[merit < 1e-12].any()
    clear = (weights != 0) & (merit > 1e-9)
    assert (np.sign(weights) == np.sign(agreement))[clear].all(), "(5)"


class Delivered:
    """A federation that delivers what is sent; client k holds k + 1 samples."""

    def upload(self, ids, message):
        return message

    def weights(self, ids):
        m = ids.double() + 1
        return m / m.sum()


@given(TABLES)
def test_ida_weights_sum_to_1_and_fall_with_distance(z):
    """A coordinate that is 1 for all clients is theirs and does not change distances."""
    k, d = z.shape
    rows = torch.from_numpy(np.hstack([z, np.ones((k, 1))]))
    before = {"w": torch.zeros(d + 1, dtype=torch.float64)}
    given_ = before, torch.arange(k), torch.zeros_like(rows), rows, Delivered()
    after = ALGORITHMS["ida"]().aggregate(*given_)["w"].numpy()
    assert after[d] == pytest.approx(1)
    p = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    r = 1 / (np.linalg.norm(z - p @ z, axis=1) + 1e-12)
    np.testing.assert_allclose(after[:d], r / r.sum() @ z, atol=1e-6)


# FedAgg


def agreed(paths, g, **params):
    """The rates that clients get from epoch ends (n, L + 1, r) and gradients (n, L, r), and the server's weights."""
    n, epochs, r = g.shape
    rates = []

    class Planned(Federation):
        def trajectory(self, ids, start, lr, direction, /, **rows):
            rates.append(lr)
            self._loss = torch.tensor(1.0)
            path = torch.zeros(n, epochs + 1, self.d, dtype=self.dtype)
            path[..., :r] = torch.from_numpy(paths)
            return path

        def gradient(self, ids, w):
            (l,) = (l for l in range(epochs) if np.array_equal(w[:, :r].numpy(), paths[:, l]))
            rows = torch.zeros(n, self.d, dtype=self.dtype)
            rows[:, :r] = torch.from_numpy(g[:, l])
            return rows

    given_ = {"local_epochs": epochs, "local_steps": None, "init": "zeros", "rounds": 1}
    data = partitioned([4] * n, shape=(r,), classes=2)
    run = simulation(ALGORITHMS["fedagg"](**params), data, settings(**given_), federation=Planned)
    w = next(rounds(run))
    return rates[-1].numpy() if len(rates) > 1 else None, w[:r]


def test_rates_on_paper():
    """L = 1, w = 0, phi1 = (2, 0), ends (-1, 0) and (-3, 4): phi2_1 = (-2, 2), v = +-(1, -2).

    raw: 0.1 + c (+-2) with c = 1/4, so 0.6 and -0.4 -> 0; cosine: 0.1 (1 +- 1 / (4 sqrt 5)).
    """
    paths = np.array([[[0.0, 0], [-1, 0]], [[0, 0], [-3, 4]]])
    g = np.array([[[1.0, 7]], [[3, -7]]])
    raw, _ = agreed(paths, g, alpha=0.8, scaling="raw", lr=0.1, eta_max=100.0)
    np.testing.assert_allclose(raw, [[0.6], [0]])
    cosine, _ = agreed(paths, g, alpha=0.8, scaling="cosine", lr=0.1)
    np.testing.assert_allclose(cosine.ravel(), [0.1 + 0.025 / 5**0.5, 0.1 - 0.025 / 5**0.5])


@st.composite
def epochs_and_gradients(draw):
    """Distinct epoch ends from a common start, and gradients."""
    n, epochs, r = draw(st.tuples(st.integers(2, 4), st.integers(1, 4), st.integers(1, 3)))
    values = st.integers(-20, 20).map(float)
    ends = draw(arrays(float, (n, epochs, r), elements=values))
    apart = np.arange(epochs + 1)[None, :, None] * 100.0  # tells apart epochs which do not move
    paths = np.concatenate([0 * ends[:, :1], ends], 1) + apart
    return paths, draw(arrays(float, (n, epochs, r), elements=values))


@given(
    epochs_and_gradients(),
    st.sampled_from([0.05, 0.5, 1.0]),
    st.sampled_from(["raw", "cosine"]),
    st.sampled_from([1.0, 10.0, 1e6]),
    st.integers(1, 3),
)
def test_rates(case, alpha, scaling, eta_max, sweeps):
    paths, g = case
    rule = {"alpha": alpha, "scaling": scaling, "eta_max": eta_max}
    eta, _ = agreed(paths, g, sweeps=sweeps, lr=0.25, **rule)
    free, clipped = agg_rates(paths, g.mean(0), paths.mean(0), lr=0.25, **rule)
    np.testing.assert_allclose(eta, clipped, rtol=1e-9, atol=1e-9)
    if scaling == "raw":  # their mean is the study's rate
        np.testing.assert_allclose(free.mean(0), 0.25, rtol=0, atol=1e-7)
    if alpha == 1:
        np.testing.assert_array_equal(eta, 0.25)
    none, w = agreed(paths, g, lr=0.25, local_direction="mean", **rule)
    assert none is None
    moves = clipped.mean(0) @ g.mean(0)  # one minibatch an epoch; samples are as many everywhere
    np.testing.assert_allclose(w, paths[0, 0] - moves, rtol=1e-9, atol=1e-9)


EPOCHS = {"local_epochs": 3, "local_steps": None, "participation": 0.6}
FIELDS = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda s: st.tuples(
        *(
            arrays(float, shape, elements=st.integers(-9, 9).map(lambda v: v / 3))
            for shape in ((s[1],), s, (s[0] + 1, s[1]))
        )
    )
)


@given(FIELDS, st.sampled_from([0.05, 0.1, 0.5, 0.9, 1.0]))
def test_the_solution_minimises_what_theorem_1_minimises(fields, alpha):
    w, phi1, phi2 = fields
    eta = theorem_1(*fields, alpha)

    def objective(eta):
        path = w - np.cumsum(eta[:, None] * phi1, 0)
        return alpha * eta @ eta + (1 - alpha) * ((path - phi2[1:]) ** 2).sum()

    path = np.concatenate([w[None], w - np.cumsum(eta[:, None] * phi1, 0)])
    c = (1 - alpha) / alpha
    for l in range(len(eta)):
        assert eta[l] == pytest.approx(c * phi1[l] @ (path - phi2)[l + 1 :].sum(0), abs=1e-8)
    for step in 1e-3 * np.concatenate([np.eye(len(eta)), -np.eye(len(eta))]):
        assert objective(eta + step) > objective(eta)


@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.01])
def test_the_tolerance_stops_the_sweeps_of_the_printed_procedure(tolerance):
    """Of gradients and models the later to settle decides; 1 + 2 L (sweeps + 1) models go up a client and round."""
    problem, met = Problem(EPOCHS), []
    rule = {"tolerance": tolerance, "max_sweeps": 200}
    run = problem.run("fedagg_literal", rule)
    agrees(run, fedagg_literal(problem, met=met, **rule), least=0)
    models = np.array(spent(run, "uploaded_bytes")) / (8 * 3 * D)
    assert ((models - 1) / 6 - 1).tolist() == [sweeps for _, sweeps in met]
    assert all(sweeps < 200 for _, sweeps in met)


def test_the_rate_of_one_epoch_shrinks_with_each_sweep():
    """L = 1: w - phi2_1 = eta phi1, so that each sweep multiplies eta by c|phi1|^2 / (1 + c|phi1|^2)
    and phi1 = mean g stays; it starts with phi2_1 = w - lr phi1.
    """
    problem, w, c = Problem({"local_epochs": 1, "local_steps": None}), initial(), 9.0
    gradients = np.array([gradient(w, *part) for part in problem.parts])
    size = c * (gradients.mean(0) @ gradients.mean(0))
    for sweeps in (1, 2, 7):
        rule = {"alpha": 0.1, "tolerance": 1e-300, "max_sweeps": sweeps}
        eta = 0.5 * (size / (1 + size)) ** (sweeps + 1)
        expected = w - eta * shares(problem.parts, range(5)) @ gradients
        after = next(rounds(problem.run("fedagg_literal", rule)))
        np.testing.assert_allclose(after, expected, rtol=0, atol=1e-12)


# Extended SAFL


def uploads(server, own, coin=None, nu=0.1, **more):
    """A run in which clients measure these accuracies and toss this coin, if one is given; how many upload a round."""

    class Measured(Federation):
        def score(self, ids, w):
            super().score(ids, w)
            received = torch.equal(w, self.received[:1].expand_as(w))
            return self.tensor(np.array(server if received else own, float)[ids])

        def broadcast(self, ids, message):
            self.received = super().broadcast(ids, message)
            return self.received

        def uniform(self, name, ids, size):
            u = super().uniform(name, ids, size)
            if name != "coin" or coin is None:
                return u
            return self.tensor(np.array(coin, float)[ids]).unsqueeze(1)

    given_ = {"init": "own", "rounds": 2, "local_steps": 1, **more}
    rule = {"epsilon": 0.3, "L": 5.0, "nu": nu}
    run = finish(Problem(given_).run("safl_extended", rule, federation=Measured))
    return run, spent(run, "clients_uploaded")


UNIT = st.lists(st.integers(0, 12).map(lambda r: r / 12), min_size=5, max_size=5)
SURELY, ALMOST_1 = np.zeros(5), np.full(5, 1 - 2.0**-53)


@given(UNIT, UNIT, st.floats(0.05, 20))
def test_the_chance_to_upload(server, own, nu):
    """Client k uploads by a coin just below q_k and not by one just above; q_k lies in (0, 1]."""
    a, b = np.array(server), np.array(own)
    q = np.exp(-np.abs(a - b) / (a + b + 1e-6) / nu)
    assert uploads(a, b, q * (1 - 1e-9), nu)[1] == [5, 5]
    assert uploads(a, b, q * (1 + 1e-9), nu)[1] == [5, 0]
    assert uploads(a, b, SURELY, nu)[1] == [5, 5]
    assert uploads(a, b, ALMOST_1, nu)[1] == [5, (q == 1).sum()]


def test_only_what_was_received_counts_and_nothing_leaves_the_server_as_it_is():
    half, some = np.full(5, 0.5), np.array([0.5, 0.9, 0.9, 0.5, 0.9])
    run, heard = uploads(half, some, np.full(5, 0.9))
    assert heard == [5, 2]
    z, (m0, m3) = state(run)["z"], (5, 7)
    np.testing.assert_allclose(run.state["w"], (m0 * z[0] + m3 * z[3]) / (m0 + m3), atol=1e-12)
    runs = [uploads(half, np.full(5, 0.9), ALMOST_1, rounds=t) for t in (1, 2, 4)]
    assert runs[-1][1] == [5, 0, 0, 0]
    for other, _ in runs[1:]:
        assert torch.equal(other.state["w"], runs[0][0].state["w"])
    assert np.abs(state(runs[0][0])["z"] - state(runs[1][0])["z"]).max(1).min() > 1e-4
