"""Entries tuned jointly: one configuration for all of them, its value, kills and extension."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.search.joint import jointly
from suite.search.sweep_search import SweepSearch
from suite.search.trial import Ask, End, Known
from tests.support.searches import (
    Player,
    a_study,
    by_entry,
    entries_of,
    finished,
    replay,
    sweep_of,
)

JOINT = {
    "heterogeneity": ["iid", "labels(2)"],
    "trials": 12,
    "seeds": 2,
    "joint": {"over": ["heterogeneity"]},
}


def by_level(ask: Ask) -> End:
    """What is good on one level is bad on the other, in other units: best jointly is the middle."""
    rate = math.log10(ask.params["lr"]) / 3 + 1  # 0 ... 1
    first = ask.cell == FIRST
    return finished((1 - (rate - 0.7) ** 2) if first else 0.01 * (1 - (rate - 0.3) ** 2))


FIRST = entries_of(**JOINT)[0].id


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random", "grid"])
def test_joint_cells_share_every_configuration_and_the_best_one(sampler):
    given = {**JOINT, "sampler": sampler, "grid_points": 9}
    player = Player(sweep_of(**given), by_level).play(random.Random(2), 5)
    one, other = by_entry(player.asks("search")).values()
    assert [a.params for a in one] == [a.params for a in other]
    assert len(one) == min(12, 10 if sampler == "grid" else 12)
    finals = by_entry(player.asks("final"))
    assert len(finals) == 2
    assert len({a.params["lr"] for asks in finals.values() for a in asks}) == 1
    ends = [[by_level(a).value for a in asks] for asks in (one, other)]
    best = max(range(len(one)), key=lambda i: (jointly(ends, "rank")[i], -i))
    assert {a.source[-5:] for a in player.asks("final")} == {f"s{best:04d}"}


def test_neither_timing_nor_kills_change_a_joint_search():
    given = JOINT
    expected = by_entry(Player(sweep_of(**given), by_level).play().asks())
    for at in (4, 20, 37, 50, 55):
        log = Player(sweep_of(**given), by_level).play(random.Random(at), 4, limit=at).log
        player = Player(replay(sweep_of(**given), log), by_level)
        assert all(len(c.current_finals) in (0, 2) for c in player.sweep.entries.values())
        player.log = list(log)
        assert by_entry(player.play(random.Random(at), 3).asks()) == expected


def test_a_joint_sweep_takes_in_another_level():
    """Its trials are what the others tried; what is done is not done again."""
    short = Player(sweep_of(**JOINT), by_level).play()
    grown = {**JOINT, "heterogeneity": ["iid", "labels(2)", "labels(3)"]}
    more = Player(replay(sweep_of(**grown), short.log), by_level).play()
    asks = by_entry(more.asks("search"))
    assert len(asks) == 1
    first = by_entry(short.asks("search"))[FIRST]
    assert [a.params for a in next(iter(asks.values()))] == [a.params for a in first]


def test_the_anchor_comes_first_where_a_warm_start_repeats_it():
    entries = entries_of(**JOINT)
    anchor = Known("warm", entries[0].space.anchor(), "elsewhere")
    warm = {entries[0].id: [Known("warm", {"lr": 0.5})], entries[1].id: [anchor]}
    player = Player(SweepSearch(entries, a_study(**JOINT), warm=warm), by_level).play()
    asks = by_entry(player.asks("search"))[FIRST]
    assert [(a.origin, a.params["lr"]) for a in asks[:2]] == [("anchor", 0.1), ("warm", 0.5)]
    assert len({a.params["lr"] for a in asks}) == 12


def test_joint_values_by_hand():
    """Three trials on two levels; the last diverged on the second."""
    scores = [[0.9, 0.8, 0.7], [0.1, 0.3, None]]
    assert jointly(scores, "rank") == [-1.5, -1.5, -3.0]
    assert jointly(scores, "score") == pytest.approx([0.5, 0.75, 0.0])
    assert jointly([[0.5, 0.5], [0.2, 0.4]], "rank") == [-1.75, -1.25]
    assert jointly([[0.5, 0.5]], "score") == [1.0, 1.0]


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=3),
    st.floats(0.1, 10),
    st.floats(-5, 5),
)
def test_a_level_s_units_do_not_matter(scores, scale, shift):
    changed = [[scale * s + shift for s in entry] for entry in scores]
    # Rounding may merge what differed; ties are then shared, which is no matter of units.
    if all(len(set(a)) == len(set(b)) for a, b in zip(scores, changed, strict=True)):
        assert jointly(changed, "rank") == jointly(scores, "rank")


@pytest.mark.parametrize("seed", range(4))
def test_an_entry_whose_confirming_runs_are_over_waits_for_those_of_the_other_cells(seed):
    """What is chosen is chosen over all cells, and runs again in all of them."""
    given = {**JOINT, "sampler": "random", "confirm": {"best": 2, "seeds": 2}}
    expected = by_entry(Player(sweep_of(**given), by_level).play().asks())
    assert [[a.kind for a in asks].count("final") for asks in expected.values()] == [2, 2]
    draw = random.Random(seed)
    log = Player(sweep_of(**given), by_level).play(draw, 4, limit=draw.randrange(50, 70)).log
    player = Player(replay(sweep_of(**given), log), by_level)
    player.log = list(log)
    assert by_entry(player.play(draw, 3).asks()) == expected
