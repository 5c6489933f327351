"""ASHA, Hyperband and the median rule alike: what each decides, and what replays rebuild."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from suite.search.schedulers import Halving
from tests.support.schedulers import SETTINGS, Bench, a_bench, replayed
from tests.support.searches import entries_of


class Named(NamedTuple):
    """A trial as far as Ray's schedulers ask for it."""

    trial_id: str


@pytest.mark.parametrize("scheduler", ["asha", "hyperband", "median"])
def test_no_scheduler_measures_a_hard_scenario_by_an_easy_one(scheduler):
    """What the hard entry decides is what it decides without the easy one beside it."""
    draw = random.Random(3)
    values = [0.1 + draw.random() / 10 for _ in range(20)]
    alone, beside = a_bench(scheduler), a_bench(scheduler)
    hard = alone.entries[1]
    ended = [alone.run(alone.add(hard, i), hard, v) for i, v in enumerate(values)]
    easy = beside.entries[0]
    for i in range(20):
        beside.run(beside.add(easy, i), easy, 0.9)
        assert beside.run(beside.add(hard, i), hard, values[i]) == ended[i]
    assert min(ended) < 50, "some are stopped, for being worse than their own entry's"
    assert max(ended) == 50


@pytest.mark.parametrize("scheduler", ["asha", "hyperband", "median"])
def test_a_resumed_scheduler_of_any_kind_decides_as_the_live_one(scheduler):
    live = a_bench(scheduler)
    draw = random.Random(4)
    for entry in live.entries:
        for i in range(15):
            live.run(live.add(entry, i), entry, draw.random())
    resumed = replayed(live)
    decisions = set()
    for entry in live.entries:
        for i in range(15, 40):
            value = draw.random()
            trial = live.add(entry, i).trial_id
            for at in entry.stops:
                decision = live.schedulers.decide(trial, at, value)
                assert resumed.decide(trial, at, value) == decision
                decisions.add(decision)
                if decision:
                    break
    assert decisions == {True, False}


@pytest.mark.parametrize("seed", range(5))
def test_asha_is_ray_s_rule(seed):
    """The same decisions as Ray's, which is fed the same reports in the same order; some are no numbers."""
    from ray.tune.schedulers import ASHAScheduler, TrialScheduler

    (entry,) = entries_of(settings=SETTINGS)
    bench = Bench([entry], "asha")
    oracle = ASHAScheduler(
        time_attr="round",
        metric="val_score",
        mode="max",
        max_t=entry.settings.rounds,
        grace_period=entry.stops[0],
        reduction_factor=3,
        stop_last_trials=False,
    )
    draw, stopped = random.Random(seed), 0
    live = [(bench.add(entry, i).trial_id, list(entry.stops)) for i in range(60)]
    for trial, _ in live:
        oracle.on_trial_add(None, Named(trial))
    while live:
        said = draw.choice(live[:4])
        trial, stops = said
        at, value = stops.pop(0), draw.choice([draw.random(), 0.5, draw.random(), float("nan")])
        result = {"round": at, "val_score": value}
        expected = oracle.on_trial_result(None, Named(trial), result) == TrialScheduler.STOP
        assert bench.schedulers.decide(trial, at, value) == expected
        stopped += expected
        if expected or not stops:
            live.remove(said)
    assert 5 < stopped < 55


def test_median_is_ray_s_rule():
    """The same decisions as Ray's, which is fed the same reports in the same order."""
    from ray.tune.schedulers import MedianStoppingRule, TrialScheduler

    (entry,) = entries_of(settings=SETTINGS)
    bench = Bench([entry], "median")
    oracle = MedianStoppingRule("round", "val_score", "max", grace_period=5, min_samples_required=3)
    controller = SimpleNamespace(get_live_trials=list)
    draw = random.Random(5)
    live = [(bench.add(entry, i).trial_id, list(entry.stops)) for i in range(40)]
    stopped = 0
    while live:
        said = draw.choice(live[:4])
        trial, stops = said
        at, value = stops.pop(0), draw.random()
        result = {"round": at, "val_score": value}
        expected = oracle.on_trial_result(controller, Named(trial), result) == TrialScheduler.STOP
        assert bench.schedulers.decide(trial, at, value) == expected
        stopped += expected
        if expected or not stops:
            live.remove(said)
    assert 5 < stopped < 35


def test_hyperband_deals_its_brackets_in_its_proportions():
    """Stops 5, 15, 45: brackets of 3, 2, 1 and 0 stops; n_s = ceil(4 / (s + 1) * 3^s)."""
    (entry,) = entries_of(settings=SETTINGS)
    halving = Halving(entry, brackets=4)
    assert Counter(halving.partition) == {0: 27, 1: 12, 2: 6, 3: 4}
    assert set(halving.partition[:8]) == {0, 1, 2, 3}, "every kind comes early"
    assert {first: list(rungs) for first, rungs in halving.rungs.items()} == {
        0: [5, 15, 45],
        1: [15, 45],
        2: [45],
        3: [],
    }


def test_hyperband_s_last_bracket_stops_nothing():
    (entry,) = entries_of(settings=SETTINGS)
    bench = Bench([entry], "hyperband")
    halving = bench.schedulers.entries[entry.id]
    for i in range(60):
        ended = bench.run(bench.add(entry, i), entry, 0.9 - i / 100)
        first = halving.partition[i % len(halving.partition)]
        assert ended >= (*entry.stops, 50)[first]
