"""How a search opens: shared learning rates, published configurations once, default configurations that papers imply."""

import itertools
import math
import zlib

import pytest

from suite.search.candidates import shared_draw
from suite.search.line import SPREAD
from suite.studies.samplers import SAMPLERS
from tests.support.searches import Player, by_entry, entries_of, sweep_of
from trials.common import randomness

LEVELS = ["iid", "labels(2)"]
RATE = {"lr": {"default": 0.1, "low": 0.001, "high": 10.0, "log": True}}
TWO = {"algorithms": ["fedavg", "fedprox"], "trials": 12, "search": RATE}
IDS = {"folb_two_set": "6dba97d0", "fedprox": "ba1078cd", "defed": "e339b8da"}


def by_label(**given) -> dict[str, list[float]]:
    """The learning rates that each algorithm's sampler suggested."""
    sweep, drawn = sweep_of(**{**TWO, **given}), dict[str, list[float]]()
    for request in Player(sweep).play().requests("search"):
        if request.origin == "sampled":
            label = sweep.entries[request.search].entry.label
            drawn.setdefault(label, []).append(request.params["lr"])
    return drawn


def test_shares_are_golden_steps_from_one_draw():
    first = randomness.uniform("opening", zlib.crc32(b"digits|logreg|iid"), 7)[0]
    expected = [math.modf(first + k * (math.sqrt(5) - 1) / 2)[0] for k in range(9)]
    shares = [shared_draw(k, ("digits", "logreg", "iid"), (7,)) for k in range(9)]
    assert shares == pytest.approx(expected, abs=1e-12)
    gaps = [b - a for a, b in itertools.pairwise(sorted(shares[:8]))]
    assert min(gaps) > 0.09, "evenly spread"


def test_methods_of_a_cell_share_their_first_rates_whatever_their_range():
    """Trials 2 to 8: TPE models from the ninth. Other hyperparameters are each entry's own."""
    known = by_label(algorithms=["safl", "fedprox"], datasets=["mnist"], trials=8)
    assert known["fedprox"] == known["safl"][:5], "it has two published configurations here"
    drawn = by_label()
    first = [shared_draw(k, ("digits", "logreg", "iid"), (0,)) for k in range(7)]
    assert drawn["fedavg"][:7] == pytest.approx([0.001 * 10.0 ** (4 * u) for u in first], rel=1e-12)
    narrow = by_label(search={**RATE, "fedprox.lr": {"low": 0.1, "high": 10.0}})["fedprox"][:7]
    assert [math.log10(v / 0.1) / 2 for v in narrow] == pytest.approx(first)
    listed = by_label(search={"lr": {"default": 0.1, "choices": [0.01, 0.1, 1.0]}})
    assert listed["fedavg"][:7] == listed["fedprox"][:7]
    assert {0.01, 0.1, 1.0} == set(listed["fedavg"][:7])


@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_what_is_shared_under_each_sampler(sampler):
    trials = 9 if sampler == "gp" else 12
    first, second = by_label(trials=trials, sampler=sampler, grid_points=12).values()
    shared = [a == b for a, b in zip(first, second, strict=True)]
    blind = {"tpe": 7, "gp": 7, "random": 11, "grid": 0, "line": SPREAD - 1}[sampler]
    assert shared[:blind] == [True] * blind
    assert not any(shared[blind:]) or sampler in ("grid", "line")


def test_published_configurations_are_tried_at_the_first_level_of_the_study():
    """After the default one, whose values the published ones take for the rest; each once."""
    given = {"algorithms": ["fedprox"], "datasets": ["mnist"], "trials": 5, "search": RATE}
    for levels in (LEVELS, LEVELS[::-1]):
        sweep = sweep_of(**given, heterogeneity=levels)
        first, second = by_entry(Player(sweep).play().requests("search")).values()
        if sweep.entries[first[0].entry_id].entry.scenario.heterogeneity != levels[0]:
            first, second = second, first
        assert [a.origin for a in first] == ["default", *["published"] * 2, *["sampled"] * 2]
        assert [a.origin for a in second] == ["default", *["sampled"] * 4]
        assert [a.params for a in first[:3]] == [
            {"lr": 0.1, "mu": 0.01},
            {"lr": 0.03, "mu": 1.0},
            {"lr": 0.01, "mu": 0.01},
        ]
    search = {"lr": {"default": 0.2}, "batch_size": {"default": 8, "choices": [8, 32]}}
    moved = Player(sweep_of(datasets=["mnist"], trials=3, search=search)).play().requests("search")
    assert moved[0].params == {"lr": 0.2, "batch_size": 8}
    assert moved[1].params == {"lr": 0.03, "batch_size": 8}


@pytest.mark.parametrize(
    ("algorithm", "given", "expected"),
    [
        ("safl_extended", {"settings": {"rounds": 20}}, {"lr": 0.1, "epsilon": 0.3, "L": 16.0}),
        ("safl_extended", {"settings": {"rounds": 1000}}, {"lr": 0.1, "epsilon": 0.3, "L": 0.3}),
        ("safl", {}, {"lr": 0.1, "epsilon": 0.65, "L": 0.3}),
        ("folb", {}, {"lr": 0.1, "mu": 0.003, "variant": "plain"}),
        ("fedagg", {"datasets": ["mnist"]}, {"lr": 0.1, "alpha": 5.0, "scaling": "cosine"}),
        ("folb_two_set", {}, {"lr": 0.1, "mu": 1.0}),
        ("folb_two_set", {"models": ["mlp(8)"]}, {"lr": 0.1, "mu": 0.01}),
        ("folb_two_set", {"search": {"folb_two_set.mu": {"default": 0.5}}}, {"mu": 0.5}),
        ("folb_two_set", {"search": {"mu": {"high": 0.2}}}, {"mu": 0.01}),
    ],
)
def test_default_configurations_are_what_papers_imply_within_what_the_study_says(
    algorithm, given, expected
):
    """SAFL's L = 80 is of 100 rounds; of 1000 it would be 800, outside of its range."""
    (search,) = sweep_of(algorithms=[algorithm], **given).entries.values()
    default = search.starts[0].params
    assert {name: default[name] for name in expected} == expected


def test_what_papers_imply_leaves_the_ids_of_entries_as_they_were():
    assert {e.algorithm: e.id for e in entries_of(algorithms=[*IDS])} == IDS
