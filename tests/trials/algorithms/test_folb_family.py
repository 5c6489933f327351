"""FOLB and the sampling rules beside it: their equations in NumPy, their invariants, what they send.

FOLB (5), (7), (9), (13), (18).
"""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.oracle import (
    EXECUTIONS,
    GENERAL,
    LR,
    SEED,
    STEPS,
    agrees,
    clients,
    gradient,
    initial,
    local_sgd,
    run_of,
    selected,
    shares,
)
from tests.support.simulations import dealt, finish, rounds, same, settings, simulation, state
from trials.algorithms import ALGORITHMS
from trials.errors import UserError
from trials.federated_data import FederatedData
from trials.federation import Federation
from trials.randomness import uniform
from trials.settings import Settings
from trials.spec import refuse

SIZES, COUNT, MU = [5, 9, 3, 7, 6], 3, 0.3
N, PARTIAL = len(SIZES), COUNT / len(SIZES)
SAMPLING = ["lb_optimal", "lb_norm"]


def multiset(t, stream="select"):
    """COUNT draws with replacement."""
    return np.sort((N * uniform(stream, SEED, t, np.arange(COUNT))).astype(int))


def subset(t, stream="select"):
    """COUNT clients without replacement."""
    return selected(t, N, COUNT) if stream == "select" else second(t)


def second(t):
    return np.sort(np.argsort(uniform("second", SEED, t, np.arange(N)))[:COUNT])


CHOICE = {"with_replacement": multiset, "without_replacement": subset}
chosen = pytest.mark.parametrize("selection", CHOICE)
executed = pytest.mark.parametrize("execution", EXECUTIONS)


def problem(mu, decay):
    """Each client's gradient and displacement at w."""
    parts = list(clients(dealt(SIZES)))

    def slope(k, v):
        return gradient(v, *parts[k]) + decay * v

    def moved(k, w):
        batches = [parts[k]] * STEPS
        return local_sgd(w, batches, LR, lambda v: mu * (v - w), decay=decay) - w

    return parts, slope, moved


def one_set(choose, mu=MU, psi=0.0, decay=0.0):
    """(13), or (18) with psi: repeats count in the mean gradient, the scores and the sum."""
    (_, slope, moved), w, t = problem(mu, decay), initial(), 0
    while True:
        t += 1
        ids = choose(t)
        G = np.mean([slope(k, w) for k in ids], 0)
        delta = {k: moved(k, w) for k in ids}
        score = []
        for k in ids:
            g = slope(k, w)
            left = slope(k, w + delta[k]) + mu * delta[k]
            gamma = np.linalg.norm(left) / np.linalg.norm(g)
            score.append(g @ G - psi * gamma * (G @ G))
        total = np.abs(score).sum()
        w = w + sum(s / total * delta[k] for s, k in zip(score, ids, strict=True))
        yield w


def two_sets(choose, mu=MU, decay=0.0, totals=None):
    """(9), (10)."""
    (_, slope, moved), w, t = problem(mu, decay), initial(), 0
    while True:
        t += 1
        first, other = choose(t), choose(t, "second")
        G1 = np.mean([slope(k, w) for k in first], 0)
        G2 = np.mean([slope(k, w) for k in other], 0)
        below = sum(slope(k, w) @ G2 for k in other)
        weight = np.array([slope(k, w) @ G1 / below for k in first])
        if totals is not None:
            totals.append(weight.sum() / (G1 @ G1 / (G2 @ G2)))
        w = w + sum(p * moved(k, w) for p, k in zip(weight, first, strict=True))
        yield w


def signed(choose, aggregation="samples", mu=MU, decay=0.0, met=None):
    """(5) with the gradient of all devices."""
    (parts, slope, moved), w, t = problem(mu, decay), initial(), 0
    p = shares(parts, range(N), aggregation)
    while True:
        t += 1
        ids = choose(t)
        f = sum(p_k * slope(k, w) for k, p_k in enumerate(p))
        signs = [np.sign(f @ slope(k, w)) for k in ids]
        if met is not None:
            met += signs
        w = w + sum(s * moved(k, w) for s, k in zip(signs, ids, strict=True)) / len(ids)
        yield w


def sampled(rule, aggregation="samples", mu=MU, decay=0.0, met=None):
    """(7), and its stand-in by norms; the mean of the drawn models."""
    (parts, slope, moved), w, t = problem(mu, decay), initial(), 0
    p = shares(parts, range(N), aggregation)
    while True:
        t += 1
        g = np.array([slope(k, w) for k in range(N)])
        P = np.abs(g @ (p @ g)) if rule == "lb_optimal" else np.linalg.norm(g, axis=1)
        edges = np.cumsum(P / P.sum())
        ids = [int((u >= edges).sum()) for u in uniform("select", SEED, t, np.arange(COUNT))]
        if met is not None:
            met.append(ids)
        w = w + np.mean([moved(k, w) for k in ids], 0)
        yield w


def first(oracle, count=5):
    return [next(oracle) for _ in range(count)]


def apart(a, b):
    return np.abs(np.array(a) - np.array(b)).max()


@executed
@pytest.mark.parametrize("psi", [0.0, 2.0])
def test_folb_counts_repeats(psi, execution):
    assert any(len(set(multiset(t))) < COUNT for t in range(1, 6))
    assert apart(first(one_set(multiset)), first(one_set(multiset, psi=2.0))) > 1e-3
    once = first(one_set(lambda t: np.unique(multiset(t))))
    assert apart(once, first(one_set(multiset))) > 1e-3
    variant = {"variant": "heterogeneity", "psi": psi} if psi else {}
    algorithm = ALGORITHMS["folb"](lr=LR, mu=MU, **variant)
    given = {"selection": "with_replacement", "participation": PARTIAL, "execution": execution}
    agrees(run_of(algorithm, SIZES, **given), one_set(multiset, psi=psi))


@executed
@chosen
def test_two_sets(selection, execution):
    totals, choose = [], CHOICE[selection]
    assert any(set(choose(t)) != set(choose(t, "second")) for t in range(1, 6))
    first(two_sets(choose, totals=totals))
    np.testing.assert_allclose(totals, 1)
    given = {"selection": selection, "participation": PARTIAL, "execution": execution}
    agrees(run_of(ALGORITHMS["folb_two_set"](lr=LR, mu=MU), SIZES, **given), two_sets(choose))


def test_two_sets_with_weight_decay():
    algorithm = ALGORITHMS["folb_two_set"](lr=LR, mu=MU)
    oracle = two_sets(subset, decay=0.2)
    agrees(run_of(algorithm, SIZES, participation=PARTIAL, weight_decay=0.2), oracle)


@executed
@chosen
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_sign_rule(aggregation, selection, execution):
    met, choose = [], CHOICE[selection]
    first(signed(choose, aggregation, met=met))
    assert {-1, 1} <= set(met)
    given = {"selection": selection, "participation": PARTIAL, "execution": execution}
    algorithm = ALGORITHMS["fednu_sign"](lr=LR, mu=MU)
    agrees(run_of(algorithm, SIZES, aggregation=aggregation, **given), signed(choose, aggregation))


def test_the_sign_rule_knows_how_sizes_weigh():
    assert apart(first(signed(subset)), first(signed(subset, "plain"))) > 1e-3


@executed
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize("rule", SAMPLING)
def test_sampling(rule, aggregation, execution):
    met = []
    first(sampled(rule, aggregation, met=met))
    assert any(len(set(ids)) < COUNT for ids in met)
    assert any(len(set(ids)) > 1 for ids in met)
    given = {"aggregation": aggregation, "participation": PARTIAL, "execution": execution}
    agrees(run_of(ALGORITHMS[rule](lr=LR, mu=MU), SIZES, **given), sampled(rule, aggregation))


def test_sampling_rules_are_told_apart():
    runs = [
        first(sampled("lb_optimal")),
        first(sampled("lb_optimal", "plain")),
        first(sampled("lb_norm")),
    ]
    assert min(apart(runs[i], runs[j]) for i, j in [(0, 1), (0, 2), (1, 2)]) > 1e-3


@pytest.mark.parametrize("rule", [*SAMPLING, "fednu_sign"])
def test_sampling_with_weight_decay(rule):
    made = signed(subset, decay=0.2) if rule == "fednu_sign" else sampled(rule, decay=0.2)
    algorithm = ALGORITHMS[rule](lr=LR, mu=MU)
    agrees(run_of(algorithm, SIZES, participation=PARTIAL, weight_decay=0.2), made)


def test_sampling_with_a_fixed_draw_is_the_same_in_both_executions():
    """The draw hangs on rounding at its edges only; here it is the same whatever the rounding."""

    class Drawn(Federation):
        def draw(self, p, *stream):
            return torch.tensor([[0, 0, 3], [1, 2, 4], [2, 2, 2]][self.round % 3])

    for rule in SAMPLING:
        made = [
            finish(
                simulation(
                    ALGORITHMS[rule](lr=0.1, mu=MU),
                    dealt(SIZES),
                    settings(participation=PARTIAL, batch_size=4, execution=execution),
                    "mlp(7,5)",
                    "iid+system(steps=1..6)",
                    federation=Drawn,
                )
            )
            for execution in GENERAL
        ]
        same(*made, 1e-10)


def planned(name, table, sets=None, sizes=None, **params):
    """Server weights after a round in which client k has gradient table[k] and update e_k.

    The first weights get nothing, so that the others show what each update weighs. Also returns
    the numbers `draw` was given.
    """
    n, r = table.shape
    asked = []

    class Planned(Federation):
        def gradient(self, ids, w):
            g = torch.zeros(len(ids), self.d, dtype=self.dtype)
            g[:, :r] = torch.from_numpy(table)[ids]
            return g

        def train(self, ids, start, lr, direction, /, at_round=None, **rows):
            self.train_loss = 1.0
            return start + torch.eye(self.d, dtype=self.dtype)[r + ids]

        def select(self, stream="select"):
            return super().select(stream) if sets is None else torch.tensor(sets[stream])

        def draw(self, p, *stream):
            asked.append(np.asarray(p, float))
            return super().draw(p, *stream)

    data = dealt(sizes or [4] * n, shape=(r + n,), classes=2)
    run = simulation(
        ALGORITHMS[name](**params),
        data,
        settings(rounds=1, init="zeros", eval_every=1),
        federation=Planned,
    )
    after = next(rounds(run))
    assert (after[:r] == 0).all()
    assert (after[r + n :] == 0).all()
    return after[r : r + n], asked


TABLES = st.tuples(st.integers(2, 5), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-50, 50))
)


@given(TABLES, st.data())
def test_two_set_weights_sum_to_the_ratio_of_squared_norms(g, more):
    n, g = len(g), g.astype(float)
    draws = st.lists(st.integers(0, n - 1), min_size=n, max_size=n).map(sorted)
    one, other = more.draw(draws), more.draw(draws)
    G1, G2 = g[one].mean(0), g[other].mean(0)
    assume(G2 @ G2 > 1e-6)
    found, _ = planned("folb_two_set", g, {"select": one, "second": other})
    assert found.sum() == pytest.approx(G1 @ G1 / (G2 @ G2), abs=1e-9)
    expected = np.zeros(n)
    np.add.at(expected, one, g[one] @ G1 / (n * G2 @ G2))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_two_sets_without_a_gradient_in_the_second_move_nothing():
    g = np.array([[3.0, 1.0], [2.0, -1.0], [0.0, 0.0]])
    found, _ = planned("folb_two_set", g, {"select": [0, 1], "second": [2, 2]})
    assert (found == 0).all()
    found, _ = planned("folb_two_set", 0 * g)
    assert (found == 0).all()


@given(TABLES, st.data())
def test_signs(g, more):
    n, g = len(g), g.astype(float)
    sizes = more.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    ids = more.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n).map(sorted))
    product = g @ (np.array(sizes) @ g)
    found, _ = planned("fednu_sign", g, {"select": ids}, sizes)
    clear = np.abs(product) > 1e-9
    expected = np.zeros(n)
    np.add.at(expected, ids, np.sign(product[ids]) / n)
    np.testing.assert_allclose(found[clear], expected[clear], atol=1e-12)


def test_the_sign_of_0_is_0():
    found, _ = planned("fednu_sign", np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 0.0], [-3.0, 0.0]]))
    np.testing.assert_allclose(found, [-1 / 4, 1 / 4, 0, 1 / 4])


@given(TABLES, st.data(), st.sampled_from(SAMPLING))
def test_sampling_probabilities(g, more, rule):
    n, g = len(g), g.astype(float)
    sizes = more.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    f = np.array(sizes) / np.sum(sizes) @ g
    merit = np.abs(g @ f) if rule == "lb_optimal" else np.linalg.norm(g, axis=1)
    assume(merit.sum() > 1e-6)
    found, asked = planned(rule, g, sizes=sizes)
    (P,) = asked
    P = P / P.sum()
    np.testing.assert_allclose(P, merit / merit.sum(), atol=1e-9)
    assert (P >= 0).all()
    apart = merit[:, None] > merit + 1e-6
    assert (P[:, None] > P)[apart].all()
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    np.testing.assert_allclose(found * n, np.round(found * n), atol=1e-9)
    assert (found[merit < 1e-12] == 0).all()


@pytest.mark.parametrize("rule", SAMPLING)
def test_sampling_without_any_gradient_gives_numbers(rule):
    found, _ = planned(rule, np.zeros((3, 2)))
    assert np.isfinite(found).all()


def ran(name, data=None, level="iid", federation=Federation, params=None, **given):
    algorithm = ALGORITHMS[name](**{"lr": 0.3, "mu": 0.1, **(params or {})})
    return finish(
        simulation(
            algorithm, data or dealt(SIZES), settings(**given), level=level, federation=federation
        )
    )


@pytest.mark.parametrize("name", ["folb", "folb_two_set", "fednu_sign", *SAMPLING])
def test_gradients_are_compared_at_one_common_model(name):
    with pytest.raises(UserError, match="init=own"):
        refuse(name, ALGORITHMS[name], Settings(init="own"), "iid")
    assert ALGORITHMS[name].reference == (name in {"fednu_sign", *SAMPLING})


def copies(n):
    data = dealt([8])
    return FederatedData(
        data.dataset, np.tile(data.train, n), 8 * np.arange(n + 1), data.val, data.test
    )


@pytest.mark.parametrize("selection", CHOICE)
@pytest.mark.parametrize("name", ["folb_two_set", "fednu_sign"])
def test_clients_with_equal_gradients_are_averaged_plainly(name, selection):
    """All products are |g|^2; unequal work makes the models differ."""
    common = {"level": "iid+system(steps=1..9)", "participation": 0.5, "selection": selection}
    found = ran(name, copies(6), **common)
    same(found, ran("fedprox", copies(6), aggregation="plain", **common), 1e-12)


@pytest.mark.parametrize("name", ["folb_two_set", "fednu_sign"])
def test_clients_with_other_gradients_are_not(name):
    """Four rounds, so that gradients of single clients oppose the mean one."""
    fedprox = ran("fedprox", aggregation="plain", participation=PARTIAL)
    found = ran(name, participation=PARTIAL)
    assert apart(state(found)["w"], state(fedprox)["w"]) > 1e-3


@pytest.mark.parametrize("rule", SAMPLING)
def test_clients_with_equal_gradients_are_drawn_uniformly(rule):
    """FedNu with uniform P is FedProx: with all work equal, one model, whoever is drawn."""
    found = ran(rule, copies(6), participation=0.5)
    same(found, ran("fedprox", copies(6), participation=0.5, aggregation="plain"), 1e-12)
    asked = []

    class Asked(Federation):
        def draw(self, p, *stream):
            asked.append(np.asarray(p, float))
            return super().draw(p, *stream)

    ran(rule, copies(6), federation=Asked, participation=0.5)
    assert len(asked) == 5
    np.testing.assert_allclose([p / p.sum() for p in asked], 1 / 6)


@pytest.mark.parametrize("name", ["folb_two_set", "fednu_sign", *SAMPLING])
def test_mu_0_is_reached_and_matters(name):
    """mu = 0 trains as FedAvg does."""
    parameters = {"params": {"mu": 0.0}, "participation": PARTIAL}
    assert apart(state(ran(name, **parameters))["w"], state(ran(name))["w"]) > 1e-3
    oracle = {
        "folb_two_set": lambda: two_sets(subset, mu=0.0),
        "fednu_sign": lambda: signed(subset, mu=0.0),
    }.get(name, lambda: sampled(name, mu=0.0))
    agrees(run_of(ALGORITHMS[name](lr=LR, mu=0.0), SIZES, participation=PARTIAL), oracle())


def counted(name, **given):
    """A run and, for each of its rounds, the ids that were selected first, second and drawn."""
    met = {"select": [], "second": [], "draw": []}

    class Noted(Federation):
        def select(self, stream="select"):
            ids = super().select(stream)
            met[stream].append(ids.tolist())
            return ids

        def draw(self, p, *stream):
            ids = super().draw(p, *stream)
            met["draw"].append(ids.tolist())
            return ids

    run = ran(name, federation=Noted, participation=PARTIAL, **given)
    return run, met


def spent(run, key):
    return np.diff([entry[key] for entry in run.history]).tolist()


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@chosen
def test_what_two_sets_cost(selection, dtype, size):
    """A repeated draw is one device; table 7 has the K distinct ones."""
    run, met = counted("folb_two_set", selection=selection, dtype=dtype)
    one, other = ([len(set(ids)) for ids in met[stream]] for stream in ("select", "second"))
    if selection == "without_replacement":
        assert one == other == [COUNT] * 5
    bytes_ = size * run.fed.d
    assert spent(run, "downloaded_bytes") == [
        bytes_ * (a + b) for a, b in zip(one, other, strict=True)
    ]
    assert spent(run, "uploaded_bytes") == [
        bytes_ * (2 * a + b) for a, b in zip(one, other, strict=True)
    ]
    assert spent(run, "gradient_passes") == [a + b for a, b in zip(one, other, strict=True)]
    assert spent(run, "client_steps") == [STEPS * a for a in one]
    everyone = [len({*a, *b}) for a, b in zip(met["select"], met["second"], strict=True)]
    assert spent(run, "clients_uploaded") == everyone
    assert set(spent(run, "evaluation_passes")) == {0}


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@chosen
def test_what_the_sign_rule_costs(selection, dtype, size):
    """All devices get w and send g; the selected ones send their models."""
    run, met = counted("fednu_sign", selection=selection, dtype=dtype)
    trained = [len(set(ids)) for ids in met["select"]]
    assert spent(run, "downloaded_bytes") == [size * N * run.fed.d] * 5
    assert spent(run, "uploaded_bytes") == [size * (N + k) * run.fed.d for k in trained]
    assert spent(run, "gradient_passes") == [N] * 5
    assert spent(run, "client_steps") == [STEPS * k for k in trained]
    assert spent(run, "clients_uploaded") == [N] * 5


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("rule", SAMPLING)
def test_what_sampling_costs(rule, dtype, size):
    run, met = counted(rule, dtype=dtype)
    assert [len(ids) for ids in met["draw"]] == [COUNT] * 5
    trained, d = [len(set(ids)) for ids in met["draw"]], run.fed.d
    assert min(trained) < COUNT
    told = N if rule == "lb_norm" else N * d
    assert spent(run, "downloaded_bytes") == [size * N * d] * 5
    assert spent(run, "uploaded_bytes") == [size * (told + k * d) for k in trained]
    assert spent(run, "gradient_passes") == [N] * 5
    assert spent(run, "client_steps") == [STEPS * k for k in trained]
    assert spent(run, "clients_uploaded") == [N] * 5


@pytest.mark.parametrize(("variant", "numbers"), [("plain", 0), ("heterogeneity", 1)])
def test_what_one_set_costs_when_devices_repeat(variant, numbers):
    run, met = counted("folb", selection="with_replacement", params={"variant": variant})
    distinct, d = [len(set(ids)) for ids in met["select"]], run.fed.d
    assert min(distinct) < COUNT
    assert spent(run, "downloaded_bytes") == [8 * k * d for k in distinct]
    assert spent(run, "uploaded_bytes") == [8 * k * (2 * d + numbers) for k in distinct]
    assert spent(run, "gradient_passes") == [(1 + numbers) * k for k in distinct]
    assert spent(run, "client_steps") == [STEPS * k for k in distinct]
    assert spent(run, "clients_uploaded") == distinct
