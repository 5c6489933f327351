"""FOLB and the sampling rules beside it: their equations in NumPy, and what they reduce to.

FOLB (5), (7), (9), (13), (18).
"""

import numpy as np
import pytest
import torch

from tests.support.folb import (
    CHOICE,
    COUNT,
    MU,
    PARTIAL,
    SAMPLING,
    SIZES,
    N,
    chosen,
    multiset,
    ran,
    subset,
)
from tests.support.oracle import (
    EXECUTIONS,
    GENERAL,
    LR,
    SEED,
    STEPS,
    agrees,
    apart,
    clients,
    first,
    gradient,
    initial,
    local_sgd,
    run_of,
    shares,
)
from tests.support.simulations import finish, partitioned, same, settings, simulation, state
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.common.randomness import uniform
from trials.engine.federation import Federation
from trials.federated_data import FederatedData
from trials.run.spec import refuse
from trials.settings import Settings

executed = pytest.mark.parametrize("execution", EXECUTIONS)


def problem(mu, decay):
    """Each client's gradient and displacement at w."""
    parts = list(clients(partitioned(SIZES)))

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
            gamma = min(1.0, np.linalg.norm(left) / np.linalg.norm(g))  # V-A: in [0, 1]
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
                    partitioned(SIZES),
                    settings(participation=PARTIAL, batch_size=4, execution=execution),
                    "mlp(7,5)",
                    "iid+system(steps=1..6)",
                    federation=Drawn,
                )
            )
            for execution in GENERAL
        ]
        same(*made, 1e-10)


@pytest.mark.parametrize("name", ["folb", "folb_two_set", "fednu_sign", *SAMPLING])
def test_gradients_are_compared_at_one_common_model(name):
    with pytest.raises(UserError, match="init=own"):
        refuse(name, ALGORITHMS[name], Settings(init="own"), "iid")
    assert ALGORITHMS[name].reference == (name in {"fednu_sign", *SAMPLING})


def copies(n):
    data = partitioned([8])
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

    class Requested(Federation):
        def draw(self, p, *stream):
            asked.append(np.asarray(p, float))
            return super().draw(p, *stream)

    ran(rule, copies(6), federation=Requested, participation=0.5)
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
