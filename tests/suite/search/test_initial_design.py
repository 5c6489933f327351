"""How a search opens: shared learning rates, published configurations once, default configurations that papers imply."""

import itertools
import math
import zlib

import pytest

from suite.search.candidates import shared_draw
from suite.search.sweep_search import SweepSearch
from suite.studies.samplers import SAMPLERS
from tests.support.searches import Player, by_entry, entries_of, sweep_of
from trials.algorithm import Range
from trials.common import randomness

LEVELS = ["iid", "labels(2)"]
RATE = {"lr": {"default": 0.1, "low": 0.001, "high": 10.0, "log": True}}
TWO = {"algorithms": ["fedavg", "fedprox"], "trials": 12, "search": RATE}


def rates(sweep: SweepSearch) -> dict[str, list[float]]:
    """The learning rates that each search's sampler suggested, by entry or replicate."""
    found: dict[str, list[float]] = {}
    for ask in Player(sweep).play().requests("search"):
        if ask.origin == "sampled":
            found.setdefault(ask.search, []).append(ask.params["lr"])
    return found


def by_label(sweep: SweepSearch) -> dict[str, list[float]]:
    return {sweep.entries[k].entry.label: v for k, v in rates(sweep).items()}


def test_shares_are_golden_steps_from_one_draw():
    first = randomness.uniform("opening", zlib.crc32(b"digits|logreg|iid"), 7)[0]
    expected = [math.modf(first + k * (math.sqrt(5) - 1) / 2)[0] for k in range(9)]
    found = [shared_draw(k, ("digits", "logreg", "iid"), (7,)) for k in range(9)]
    assert found == pytest.approx(expected, abs=1e-12)
    spread = sorted(found[:8])
    gaps = [b - a for a, b in itertools.pairwise(spread)]
    assert min(gaps) > 0.09, "evenly spread"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Range("float", 0.01, 100.0, log=True), [0.01, 0.1, 1.0, 10.0]),
        (Range("float", -1.0, 3.0), [-1.0, 0.0, 1.0, 2.0]),
        (Range("int", 0, 8), [0, 2, 4, 6]),
        (Range("choice", choices=("a", "b")), ["a", "a", "b", "b"]),
    ],
)
def test_the_value_at_a_share(spec, expected):
    found = [spec.at(k / 4) for k in range(4)]
    assert found == (expected if spec.choices else pytest.approx(expected))
    assert [type(v) for v in found] == [type(v) for v in expected]


def test_methods_of_a_cell_share_their_first_rates_and_later_ones_are_their_own():
    found = by_label(sweep_of(**TWO))
    first = [shared_draw(k, ("digits", "logreg", "iid"), (0,)) for k in range(7)]
    expected = [0.001 * 10.0 ** (4 * u) for u in first]
    assert found["fedavg"][:7] == pytest.approx(expected, rel=1e-12)
    assert found["fedprox"][:7] == found["fedavg"][:7], "trials 2 to 8; TPE models from the ninth"
    assert not set(found["fedprox"][7:]) & set(found["fedavg"][7:])


def test_other_hyperparameters_are_each_entry_s_own():
    sweep = sweep_of(algorithms=["fedprox", "folb"], trials=6)
    asks = by_entry(Player(sweep).play().requests("search"))
    drawn = [[a.params["mu"] for a in of if a.origin == "sampled"] for of in asks.values()]
    assert len({*drawn[0], *drawn[1]}) == 10


def test_another_range_has_the_same_shares():
    narrow = {"fedprox.lr": {"low": 0.1, "high": 10.0}}
    found = by_label(sweep_of(**{**TWO, "search": {**RATE, **narrow}}))
    shares = [math.log10(v / 0.001) / 4 for v in found["fedavg"][:7]]
    assert [math.log10(v / 0.1) / 2 for v in found["fedprox"][:7]] == pytest.approx(shares)


def test_whoever_has_more_known_configurations_shares_fewer_draws():
    """FedProx has two published configurations here, FedAvg two, SAFL none."""
    sweep = sweep_of(algorithms=["safl", "fedprox"], datasets=["mnist"], trials=8, search=RATE)
    found = by_label(sweep)
    assert found["fedprox"] == found["safl"][:5]
    assert len(found["safl"]) == 7


def test_cells_study_seeds_tunings_and_deals_draw_apart():
    cells = rates(sweep_of(trials=4, heterogeneity=LEVELS))
    other = rates(sweep_of(trials=4, seed=1))
    nested = rates(sweep_of(trials=4, tunings=2, partitions=2))
    drawn = [rate for of in (cells, other) for one in of.values() for rate in one]
    assert len(set(drawn)) == len(drawn) == 9
    assert len({rate for of in nested.values() for rate in of}) == 12


@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_what_is_shared_under_each_sampler(sampler):
    trials = 9 if sampler == "gp" else 12
    given = {**TWO, "trials": trials, "sampler": sampler, "grid_points": 12}
    first, second = by_label(sweep_of(**given)).values()
    shared = [a == b for a, b in zip(first, second, strict=True)]
    blind = {"tpe": 7, "gp": 7, "random": 11, "grid": 0}[sampler]
    assert shared[:blind] == [True] * blind
    assert not any(shared[blind:]) or sampler == "grid"


def test_rates_that_are_choices_are_shared_too():
    search = {"lr": {"default": 0.1, "choices": [0.01, 0.1, 1.0]}}
    first, second = by_label(sweep_of(**{**TWO, "search": search})).values()
    assert first[:7] == second[:7]
    assert {0.01, 0.1, 1.0} == set(first[:7])


def origins(sweep: SweepSearch) -> dict[str, list[str]]:
    asks = by_entry(Player(sweep).play().requests("search"))
    return {
        sweep.entries[entry].entry.scenario.heterogeneity: [a.origin for a in of]
        for entry, of in asks.items()
    }


def test_published_configurations_are_tried_at_the_first_level_of_the_study():
    given = {"algorithms": ["fedprox"], "datasets": ["mnist"], "trials": 5}
    for levels in (LEVELS, LEVELS[::-1]):
        sweep = sweep_of(**given, heterogeneity=levels)
        assert sorted(s.published for s in sweep.entries.values()) == [0, 2]
        found = origins(sweep)
        assert found[levels[0]] == ["default", "published", "published", "sampled", "sampled"]
        assert found[levels[1]] == ["default", *["sampled"] * 4]


def default(algorithm: str, **given) -> dict:
    (search,) = sweep_of(algorithms=[algorithm], **given).entries.values()
    return search.proposer.known[0].params


@pytest.mark.parametrize(
    ("algorithm", "given", "expected"),
    [
        ("safl", {"settings": {"rounds": 20}}, {"lr": 0.1, "epsilon": 0.3, "L": 16.0}),
        ("safl", {"settings": {"rounds": 100}}, {"lr": 0.1, "epsilon": 0.3, "L": 80.0}),
        ("safl", {"settings": {"rounds": 1000}}, {"lr": 0.1, "epsilon": 0.3, "L": 80.0}),
        ("folb", {}, {"lr": 0.1, "mu": 1.0, "variant": "plain"}),
        ("folb", {"models": ["mlp(8)"]}, {"lr": 0.1, "mu": 0.01, "variant": "plain"}),
        ("defed", {}, {"lr": 0.1, "topology": "ring(8)", "grad_scale": "one"}),
        ("fedagg", {"datasets": ["mnist"]}, {"lr": 0.01, "alpha": 0.1}),
        ("fedagg", {"datasets": ["mnist"], "search": RATE}, {"lr": 0.1, "alpha": 0.1}),
        ("fedagg", {}, {"lr": 0.1, "alpha": 0.1}),
        ("folb", {"search": {"mu": {"default": 0.5}}}, {"mu": 0.5}),
        ("folb", {"search": {"folb.mu": {"default": 0.5}}}, {"mu": 0.5}),
        ("folb", {"search": {"mu": {"high": 0.2}}}, {"mu": 0.01}),
        ("fedavg", {}, {"lr": 0.1}),
    ],
)
def test_anchors_are_what_papers_imply_within_what_the_study_says(algorithm, given, expected):
    """SAFL's L = 80 is of 100 rounds; of 1000 it would be 800, outside of its range."""
    found = default(algorithm, **given)
    assert {name: found[name] for name in expected} == expected


def test_an_anchor_that_is_published_is_tried_once():
    """FedAgg's Table IV says lr = 0.01 on MNIST, and that is its published configuration."""
    sweep = sweep_of(algorithms=["fedagg"], datasets=["mnist"], trials=4)
    asks = Player(sweep).play().requests("search")
    assert [a.origin for a in asks] == ["default", *["sampled"] * 3]


def test_anchors_leave_the_ids_of_entries_as_they_were():
    """SAFL, FOLB and DeFed in the scenario of `BASE`."""
    found = {e.algorithm: e.id for e in entries_of(algorithms=["safl", "folb", "defed"])}
    assert found == IDS


IDS = {"safl": "6374121f", "folb": "74550bbf", "defed": "3c10e531"}
