"""The search: what is asked, in which order, and what it is told; no Ray, no training."""

import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from suite.search.trial import ValidationResult
from tests.support.searches import Player, by_entry, finished, play_one, replay, sweep_of
from tests.support.simulations import ROOT
from trials.run.outcome import Status

OWN = f"{ROOT / 'examples' / 'own_sampler.py'}:make"
QUICKLY = [Phase.explicit, Phase.generate]
"""No search for a simpler counterexample: with whole sweeps it takes minutes."""


def test_finals_come_after_the_search_with_fresh_seeds_that_all_cells_share():
    sweep = sweep_of(algorithms=["fedavg", "folb"], trials=6, seeds=3, seed=7)
    player = Player(sweep, lambda request: finished(0.5)).play(random.Random(2), 4)
    for entry in sweep.entries:
        events = [(e[0], sweep.requests[getattr(e[1], "trial_id", e[1])]) for e in player.log]
        kinds = [(what, request.kind) for what, request in events if request.entry_id == entry]
        assert ("end", "search") not in kinds[kinds.index(("request", "final")) :]
    searched = {a.seed for a in player.requests("search")}
    finals = by_entry(player.requests("final"))
    assert len(finals) == 2
    for requests in finals.values():
        assert [a.seed for a in requests] == [8, 9, 10]
        assert searched.isdisjoint(a.seed for a in requests)
        assert [a.index for a in requests] == [0, 1, 2]


def test_finals_repeat_the_best_configuration_with_fresh_seeds():
    given = {"settings": {"partition_seed": 5}, "seed": 3}
    player, search = play_one({3: finished(0.9), 4: finished(0.8)}, trials=6, seeds=3, **given)
    searched = [player.sweep.spec(request) for request in player.requests("search")]
    assert {(spec.seed, spec.settings.partition_seed) for spec in searched} == {(3, 5)}
    best = player.requests("search")[3]
    assert search.best == best
    for i, final in enumerate(player.requests("final")):
        assert (final.params, final.origin, final.source) == (
            best.params,
            best.origin,
            best.trial_id,
        )
        spec = player.sweep.spec(final)
        assert (spec.seed, spec.settings.partition_seed) == (4 + i, 5)
        assert (spec.params, final.entry_id) == (best.params, best.entry_id)


def test_no_more_than_lag_trials_of_a_cell_are_in_flight():
    sweep = sweep_of(lag=3, algorithms=["fedavg", "folb"], trials=9)
    handed = []
    while (found := sweep.next()) is not None:
        handed.append(found[0])
    assert [a.entry_id for a in handed] == [*sweep.entries] * 3, "entries take turns"
    first = handed[0]
    later = next(a for a in handed if a.entry_id == first.entry_id and a.index == 1)
    sweep.end(later.trial_id, finished(0.5))
    assert sweep.next() is None, "trial 3 waits for trial 0, whatever else has ended"
    sweep.end(first.trial_id, finished(0.5))
    assert [sweep.next()[0].index, sweep.next()[0].index] == [3, 4]
    assert sweep.next() is None


MORE = {
    "": {},
    "replicates": {"trials": 6, "tunings": 2, "partitions": 2},
    "confirmed": {"confirm": {"best": 3, "seeds": 2}},
}


def reference(sampler: str, more: str = "") -> tuple[dict, dict]:
    given = {
        "algorithms": ["folb", "fedprox"],
        "trials": 14,
        "seeds": 2,
        "sampler": sampler,
        "search": {"batch_size": {"choices": [10, 32, "full"]}, "fedprox.mu": {"high": 10}},
        **MORE[more],
    }
    return given, by_entry(Player(sweep_of(**given)).play().requests())


@pytest.mark.parametrize(
    ("sampler", "more"),
    [
        *((name, "") for name in ("random", "tpe", "grid", "gp", OWN)),
        *(("random", m) for m in MORE if m),
    ],
)
def test_neither_timing_nor_kills_can_change_what_is_asked(sampler, more):
    """Killed after any number of events, again and again, and rebuilt from the log each time."""
    given_, expected = reference(sampler, more)
    examples = {"gp": 1, "grid": 3, OWN: 3}.get(sampler, 6)  # GP suggests in a fifth of a second

    @settings(max_examples=examples, phases=QUICKLY)
    @given(st.randoms(use_true_random=False), st.integers(1, 10), st.integers(4, 99))
    def check(draw, concurrent, session):
        log = []
        while True:
            sweep = replay(sweep_of(**given_), log)
            ended = {event[1] for event in log if event[0] == "end"}
            unfinished = [e[1] for e in log if e[0] == "request" and e[1].trial_id not in ended]
            player = Player(sweep)
            player.log = list(log)
            player.play(draw, max(concurrent, len(unfinished)), len(log) + session)
            assert player.again == unfinished[: len(player.again)]
            if sweep.exhausted:
                break
            assert len(player.log) > len(log)
            log = player.log
        assert player.again == unfinished
        assert by_entry(player.requests()) == expected
        ends = [event[1] for event in player.log if event[0] == "end"]
        assert sorted(ends) == sorted(a.trial_id for a in player.requests()), "each ends once"

    check()


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_an_end_that_a_journal_lacks_comes_again(sampler):
    """Of a trial that later suggestions were made from: it runs again, and what follows is as ever."""
    given_, expected = reference(sampler)
    log = Player(sweep_of(**given_)).play(limit=48).log
    lacking = next(request for kind, request, *_ in log if kind == "request" and request.index == 1)
    rebuilt = Player(
        replay(sweep_of(**given_), [e for e in log if e[:2] != ("end", lacking.trial_id)])
    )
    new = rebuilt.play().requests()
    assert lacking in rebuilt.again
    asked = [event[1] for event in log if event[0] == "request"]
    assert by_entry(asked + new) == expected


def ending(status: Status, value: float | None = None) -> ValidationResult:
    return ValidationResult(status, value, {} if value is None else {3: value})


PRUNED, DIVERGED = ending(Status.PRUNED, 0.99), ending(Status.DIVERGED, 0.9)
FAILED = ending(Status.FAILED)
BEST = {
    "neither pruned nor failed": ([finished(0.1), PRUNED, FAILED, finished(0.2)], 3),
    "any finished one before a diverged one": ([DIVERGED, finished(0.0), DIVERGED], 1),
    "a diverged one before pruned ones": ([PRUNED, DIVERGED, PRUNED], 1),
    "the first of those that all diverge": ([ending(Status.DIVERGED, i / 10) for i in range(3)], 0),
    "the earliest of ties": ([finished(0.1), finished(0.8), finished(0.8), finished(0.1)], 1),
    "none of pruned ones": ([PRUNED] * 3, None),
    "none of failed ones": ([FAILED] * 3, None),
    "with finals that fail": ([finished(0.1)] * 3, 0),
}


@pytest.mark.parametrize(("ends", "index"), BEST.values(), ids=BEST)
def test_which_trial_is_the_best(ends, index):
    sweep = sweep_of(trials=len(ends), seeds=2)
    final = FAILED if ends[0] == finished(0.1) else finished(0.1)
    player = Player(sweep, lambda a: ends[a.index] if a.kind == "search" else final).play()
    (search,) = sweep.entries.values()
    assert (search.best and search.best.index) == index
    assert search.done
    assert player.sweep.exhausted
    assert len(player.requests("final")) == (0 if index is None else 2)


def test_cells_of_a_study_do_not_depend_on_each_other_or_on_the_budget():
    """An entry asks the same when other entries are added to the study, and when a sweep of 8 trials grows to 14."""
    straight = Player(sweep_of(algorithms=["folb"], trials=14)).play().requests()
    both = by_entry(Player(sweep_of(algorithms=["safl", "folb"], trials=14)).play().requests())
    assert both[straight[0].entry_id] == straight
    short = Player(sweep_of(algorithms=["folb"], trials=8)).play(random.Random(4), 3)
    grown = replay(sweep_of(algorithms=["folb"], trials=14), short.log)
    more = Player(grown).play(random.Random(5), 4)
    search = [a for a in straight if a.kind == "search"]
    assert short.requests("search") + more.requests("search") == search
