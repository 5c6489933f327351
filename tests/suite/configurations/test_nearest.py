"""How near two scenarios are: hand-made cases, an independent computation of skews, and properties."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.configurations.nearest import MODEL_KINDS, distance, nearest, skew
from trials import datasets, heterogeneity, models
from trials.run.spec import Scenario

GROUPS = heterogeneity.parse("groups").name
"""Half of the clients hold five labels, half of them one."""
LEVELS = [
    GROUPS,
    "gaussian(labels=7,mean=300,std=10)",
    "gaussian(labels=1..7,mean=600,std=10)",
    "iid",
    "natural",
    "labels(1)",
    "labels(2)",
    "labels(2)+sizes(powerlaw)",
    "shards(2)",
    "shards(2,strict)",
    "gaussian(labels=7,mean=600,std=10)",
    "dirichlet(0.1)",
    "dirichlet(0.6)",
    "dirichlet(0.6)+sizes(lognormal(0.3))",
    "dirichlet_by_class(0.3)",
    "iid+system(steps=1..20)",
    "iid+system(epochs=1..20)",
    "dirichlet(1)+system(steps=1..20)+dropout(0.1)",
]
DATASETS = [
    "digits",
    "mnist",
    "cifar10",
    "synthetic(0,0)",
    "synthetic(1,1)",
    "sine",
    "npz:/a/b.npz",
]
MODELS = ["logreg", "linear", "mlp", "mlp(100,100)", "lenet5", "char_lstm"]
cells = st.builds(
    Scenario, st.sampled_from(DATASETS), st.sampled_from(MODELS), st.sampled_from(LEVELS)
)


def test_the_names_used_here_are_canonical():
    assert [heterogeneity.parse(level).name for level in LEVELS] == LEVELS
    assert [datasets.canonical(name) for name in DATASETS] == DATASETS
    assert [models.canonical(name) for name in MODELS] == MODELS


def test_every_kind_of_model_holds_known_names_once():
    listed = list(itertools.chain(*(kind.split() for kind in MODEL_KINDS.values())))
    assert len(set(listed)) == len(listed)
    assert [models.canonical(name) for name in listed] == listed


GAUSSIAN = "gaussian(labels={},mean=600,std=10)"
BY_HAND = f"""
mnist logreg iid | mnist logreg iid | 0 0 0
mnist logreg iid | fashion_mnist linear iid | 0.5 0.5 0
synthetic(0,0) logreg natural | synthetic(1,1) logreg natural | 0.25 0 0
mnist mlp iid | cifar10 mlp(100,100) iid | 1 0.25 0
mnist mlp iid | mnist_powerlaw mlp iid | 0.5 0 0
mnist logreg labels(2) | mnist logreg labels(5) | 0 0 0.31
mnist logreg shards(2) | mnist logreg shards(2,strict) | 0 0 0.01
mnist logreg {GAUSSIAN.format(7)} | mnist logreg {GAUSSIAN.format("1..7")} | 0 0 0.31
mnist logreg {GROUPS} | mnist logreg iid | 0 0 0.75
mnist logreg {GROUPS} | mnist logreg natural | 0 0 0.55
mnist logreg labels(2) | mnist logreg shards(2) | 0 0 0.05
mnist logreg iid | mnist logreg labels(2) | 0 0 0.85
mnist logreg iid | mnist logreg natural | 0 0 0.55
mnist logreg iid | mnist logreg iid+system(steps=1..20) | 0 0 0.1
mnist logreg iid+system(epochs=1..20) | mnist logreg iid+system(steps=1..20) | 0 0 0.05
sine linear iid | mnist linear iid | inf 0 0
npz:/a/b.npz logreg iid | npz:/a/c.npz logreg iid | 1 0 0
"""
"""Two scenarios, and how far apart data sets, models and levels are; `labels=1..7` is four labels in the mean."""


@pytest.mark.parametrize("line", BY_HAND.strip().splitlines())
def test_distances_by_hand(line):
    a, b, parts = (column.split() for column in line.split(" | "))
    found = distance(Scenario(*a), Scenario(*b))
    assert found == pytest.approx([float(part) for part in parts])
    assert found.total == pytest.approx(sum(map(float, parts)))


@pytest.mark.parametrize("a", [0.05, 0.3, 0.6, 1.0, 10.0])
def test_skew_of_a_dirichlet_is_the_mean_total_variation(a):
    """Against the definition, by simulation: 20,000 clients, so within 0.005."""
    shares = np.random.default_rng(0).dirichlet(np.full(10, a), 20_000)
    measured = 0.5 * np.abs(shares - 0.1).sum(1).mean()
    assert skew(f"dirichlet({a:g})") == pytest.approx(measured, abs=0.005)
    assert skew(f"dirichlet_by_class({a:g})") == skew(f"dirichlet({a:g})")


@pytest.mark.parametrize("a", [1e-300, 1e-12, 1e12, 1e300])
def test_skew_at_the_ends(a):
    assert skew(f"dirichlet({a!r})") == pytest.approx(0.9 if a < 1 else 0.0, abs=1e-4)


def test_skew_falls_with_concentration():
    skews = [skew(f"dirichlet({a})") for a in (0.01, 0.1, 0.3, 0.6, 1.0, 3.0, 100.0)]
    assert skews == sorted(skews, reverse=True)
    assert skew("iid") == 0
    assert skew("natural") is None


@given(cells, cells, cells)
def test_it_is_a_distance(a, b, c):
    assert distance(a, a).total == 0
    assert distance(a, b).total == distance(b, a).total
    assert distance(a, b).total >= 0
    assert distance(a, c).total <= distance(a, b).total + distance(b, c).total + 1e-9


@given(cells, st.lists(cells, max_size=8), st.randoms())
def test_nearest_first_whatever_the_order(wanted, found, draw):
    found = [SimpleNamespace(scenario=place) for place in found]
    ranked = nearest(wanted, found)
    totals = [d.total for d, _ in ranked]
    assert totals == sorted(totals)
    assert all(d == distance(wanted, item.scenario) for d, item in ranked)
    shuffled = list(found)
    draw.shuffle(shuffled)
    assert [d.total for d, _ in nearest(wanted, shuffled)] == totals
    of_the_task = [c for c in found if (c.scenario.dataset == "sine") == (wanted.dataset == "sine")]
    assert len(ranked) == len(of_the_task), "other tasks are left out, nothing else is"
    if wanted in [item.scenario for item in found]:
        assert ranked[0][0].total == 0
