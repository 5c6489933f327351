"""Tunings, partitions and splits: independent searches of an entry, each with a winner and final runs of its own."""

import random
from collections import Counter

from tests.support.searches import Player, a_study, finished, replay, sweep_of
from trials.run.outcome import TrialKind

BOTH = {"algorithms": ["fedavg", "fedprox"], "trials": 6, "seeds": 2}


def played(**given) -> Player:
    return Player(sweep_of(**BOTH, **given)).play(random.Random(3), 4)


def test_the_budget_of_every_replicate_is_exact():
    asks = played(tunings=3, partitions=2).requests()
    counts = Counter((a.entry_id, a.replicate, a.kind) for a in asks)
    assert len(counts) == 2 * 6 * 2
    assert {kind: n for (_, _, kind), n in counts.items()} == {
        TrialKind.SEARCH: 6,
        TrialKind.FINAL: 2,
    }
    assert len({a.trial_id for a in asks}) == len(asks) == 2 * 6 * 8
    assert {a.replicate for a in asks} == {"", "t1", "t2", "d1", "d1t1", "d1t2"}


def test_the_first_replicate_is_what_there_was_before():
    alone = {a.trial_id: a for a in played().requests()}
    among = {a.trial_id: a for a in played(tunings=3).requests() if not a.replicate}
    assert among == alone
    new = {"tunings", "partitions", "splits", "margin"}
    assert not new & a_study().model_dump(mode="json").keys()


def test_tunings_and_partitions_draw_for_themselves_and_share_over_algorithms():
    asks = played(tunings=3, partitions=2).requests()
    searches = [a for a in asks if a.kind == TrialKind.SEARCH]
    for cell in {a.entry_id for a in asks}:
        first, *others = (
            [a.params for a in searches if (a.entry_id, a.replicate) == (cell, name)]
            for name in ("", "t1", "d1", "d1t1")
        )
        for other in others:
            assert other[0] == first[0], "the default configuration"
            assert not [params for params in other[1:] if params in first], "draws"
    seeds = {name: {a.seed for a in asks if a.replicate == name} for name in ("t1", "t2", "d1")}
    starts = {"t1": 10_000, "t2": 20_000, "d1": 10**7}
    assert seeds == {name: {seed, seed + 1, seed + 2} for name, seed in starts.items()}
    assert {(a.replicate[:1] == "d", a.partition_seed) for a in asks} == {(False, 0), (True, 1)}


def test_a_split_moves_the_data_seed_only():
    sweep = sweep_of(**BOTH, splits=2)
    asks = Player(sweep).play().requests()
    data = {(a.replicate, sweep.spec(a).settings.data_seed) for a in asks}
    assert data == {("", 0), ("v1", 1)}


def test_every_tuning_repeats_its_own_winner():
    def ending(ask):
        return finished(ask.params["lr"] if ask.replicate else -ask.params["lr"])

    player = Player(sweep_of(trials=6, seeds=2, tunings=2), ending).play()
    for of, best in (("", min), ("t1", max)):
        tried = [a for a in player.requests("search") if a.replicate == of]
        winner = best(tried, key=lambda a: a.params["lr"])
        finals = [a for a in player.requests("final") if a.replicate == of]
        assert {a.source for a in finals} == {winner.trial_id}
        assert all(a.params == winner.params for a in finals)


def test_more_tunings_are_added_to_those_there_are():
    two = played(tunings=2)
    four = Player(replay(sweep_of(**BOTH, tunings=4), two.log)).play()
    assert {a.replicate for a in four.requests()} == {"t2", "t3"}
    whole = {a.trial_id: a for a in played(tunings=4).requests()}
    assert {a.trial_id: a for a in [*two.requests(), *four.requests()]} == whole
