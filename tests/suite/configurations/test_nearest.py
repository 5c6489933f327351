"""How near two scenarios are, by hand and by its properties; what is recommended for one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.configurations.nearest import distance, recommend, skew
from tests.support.configurations import a_tuned
from trials import heterogeneity
from trials.common.errors import UserError
from trials.run.spec import Scenario

GROUPS = heterogeneity.parse("groups").name
"""Half of the clients hold five labels, half of them one."""
LEVELS = """
{GROUPS} gaussian(labels=7,mean=300,std=10) gaussian(labels=1..7,mean=600,std=10) iid natural labels(1) labels(2)
labels(2)+sizes(powerlaw) shards(2) shards(2,strict) dirichlet(0.1) dirichlet(0.6) dirichlet(0.6)+sizes(lognormal(0.3))
dirichlet_by_class(0.3) iid+system(steps=1..20) iid+system(epochs=1..20) dirichlet(1)+system(steps=1..20)+dropout(0.1)
""".replace("{GROUPS}", GROUPS).split()
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


GAUSSIAN = "gaussian(labels={},mean=600,std=10)"
BY_HAND = f"""
mnist logreg iid | mnist logreg iid | 0 0 0
mnist logreg iid | fashion_mnist linear iid | 0.5 1 0
synthetic(0,0) logreg natural | synthetic(1,1) logreg natural | 0.5 0 0
mnist mlp iid | cifar10 mlp(100,100) iid | 1 0.5 0
mnist logreg labels(2) | mnist logreg labels(5) | 0 0 0.4
mnist logreg shards(2) | mnist logreg shards(2,strict) | 0 0 0.1
mnist logreg {GAUSSIAN.format(7)} | mnist logreg {GAUSSIAN.format("1..7")} | 0 0 0.4
mnist logreg {GROUPS} | mnist logreg iid | 0 0 0.8
mnist logreg {GROUPS} | mnist logreg natural | 0 0 0.6
mnist logreg labels(2) | mnist logreg shards(2) | 0 0 0.1
mnist logreg iid | mnist logreg iid+system(steps=1..20) | 0 0 0.1
sine linear iid | mnist linear iid | inf 0 0
npz:/a/b.npz logreg iid | npz:/a/c.npz logreg iid | 1 0 0
"""
"""Two scenarios, and how far apart data sets, models and levels are; `labels=1..7` is four labels in the mean."""


@pytest.mark.parametrize("line", BY_HAND.strip().splitlines())
def test_distances_by_hand(line):
    a, b, parts = (column.split() for column in line.split(" | "))
    assert distance(Scenario(*a), Scenario(*b)) == pytest.approx(sum(map(float, parts)))


@pytest.mark.parametrize("a", [0.05, 0.3, 0.6, 1.0, 10.0])
def test_skew_of_a_dirichlet_is_the_mean_total_variation(a):
    """Against the definition, by simulation: 20,000 clients, so within 0.005."""
    shares = np.random.default_rng(0).dirichlet(np.full(10, a), 20_000)
    measured = 0.5 * np.abs(shares - 0.1).sum(1).mean()
    assert skew(f"dirichlet({a:g})") == pytest.approx(measured, abs=0.005)
    assert skew(f"dirichlet_by_class({a:g})") == skew(f"dirichlet({a:g})")


@given(cells, cells, cells)
def test_it_is_a_distance(a, b, c):
    assert distance(a, a) == 0
    assert 0 <= distance(a, b) == distance(b, a)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9


KNOWN = [
    a_tuned(score=0.90),
    a_tuned("fedprox", score=0.92),
    a_tuned("centralized", score=0.99),
    a_tuned(level="labels(2)", score=0.80),
    a_tuned("fedprox", level="labels(2)", score=0.70),
    a_tuned(dataset="mnist", score=0.91),
    a_tuned(dataset="mnist", model="mlp", score=0.97),
]


@pytest.mark.parametrize(
    ("wanted", "more", "best"),
    [
        (("digits", "iid"), {}, 1),  # references are not recommended
        (("digits", "iid"), {"algorithm": "centralized"}, 2),
        (("digits", "labels(2)"), {}, 3),
        (("digits", "labels(3)"), {}, 3),
        (("digits", "dirichlet(100)"), {}, 1),
        (("fashion_mnist", "iid"), {"model": "mlp"}, 6),
        (("mnist", "iid"), {"model": "mlp(100,100)"}, 6),
        (("mnist", "iid"), {}, 6),  # any model: the best score
    ],
)
def test_the_best_of_the_nearest_scenario_is_recommended(wanted, more, best):
    assert recommend(KNOWN, *wanted, **more)[1] == KNOWN[best]


def test_what_refuses_a_level_is_not_recommended_for_it():
    known = [a_tuned("fedagg", score=0.99), a_tuned("fedavg", score=0.9)]
    assert recommend(known, "digits", "iid") == (0, known[0])
    assert recommend(known, "digits", "iid+system(steps=1..5)")[1] == known[1]


def test_what_does_not_fit_is_said():
    for wanted, more, hint in (
        (("sine", "iid"), {}, "sine"),
        (("digits", "iid"), {"algorithm": "folb"}, "folb"),
        (("digit", "iid"), {}, "digits"),
        (("digits", "lables(2)"), {}, "labels"),
    ):
        with pytest.raises(UserError, match=hint):
            recommend(KNOWN, *wanted, **more)


ITEMS = st.builds(
    a_tuned,
    st.sampled_from(["fedavg", "fedprox"]),
    st.sampled_from(["digits", "mnist", "cifar10"]),
    st.sampled_from(["iid", "labels(1)", "labels(2)", "dirichlet(0.3)", "iid+dropout(0.1)"]),
    st.sampled_from(["logreg", "mlp", "lenet5"]),
    st.floats(0, 1),
)


@given(st.lists(ITEMS, min_size=1, max_size=8), st.sampled_from(["logreg", "mlp"]))
def test_nothing_known_is_nearer_nor_as_near_and_better(known, model):
    away, best = recommend(known, "mnist", "labels(2)", model=model)
    wanted = Scenario("mnist", model, "labels(2)")
    apart = [(distance(wanted, item.scenario), item.loss) for item in known]
    assert (away, best.loss) == min(apart)
    assert (away == 0) == (best.scenario == wanted)
