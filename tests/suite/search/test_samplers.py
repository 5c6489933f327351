"""The samplers: what each is told, what repeats, and that replays rebuild what they know."""

import itertools
import math
import random

import pytest
from optuna.trial import TrialState

from suite.search.trial import TrialRequest, ValidationResult
from tests.support.searches import (
    Player,
    entries_of,
    finished,
    replay,
    sweep_of,
    told,
)
from tests.support.simulations import ROOT
from trials.run.outcome import Status

OWN = f"{ROOT / 'examples' / 'own_sampler.py'}:make"


def priced(request: TrialRequest) -> ValidationResult:
    """A trial that ran to its end: the score is best at lr = 0.1, and a larger rate costs more."""
    rate = request.params["lr"]
    value = 1 - abs(math.log10(rate) + 1) / 4
    spent = {"uploaded_bytes": 100 * rate}
    return ValidationResult(Status.FINISHED, value, {10: value}, spent, at=50)


def test_a_grid_is_all_combinations_once_known_ones_first():
    search = {
        "lr": {"default": 0.1, "low": 0.001, "high": 1.0},
        "folb.mu": {"choices": [0.0, 0.1]},
        "folb.psi": {"low": 0.5, "high": 0.5},
    }
    given = {"algorithms": ["folb"], "sampler": "grid", "grid_points": 4, "trials": 99}
    player = Player(sweep_of(**given, search=search)).play()
    requests = player.requests("search")
    rates, mus = [0.001, 0.01, 0.1, 1.0], [0.0, 0.1]
    plain = [(r, m, "plain", None) for r, m in itertools.product(rates, mus)]
    other = [(r, m, "heterogeneity", 0.5) for r, m in itertools.product(rates, mus)]
    got = [
        (pytest.approx(a.params["lr"]), a.params["mu"], a.params["variant"], a.params.get("psi"))
        for a in requests
    ]
    assert [point for point in plain + other if point not in got] == []
    known = [a for a in requests if a.origin != "sampled"]
    assert len(requests) in (16, 16 + len(known)), "trials = min(budget, grid and known ones)"
    assert len({repr(sorted(a.params.items())) for a in requests}) == len(requests)


def test_a_budget_smaller_than_the_grid_grows_into_the_rest():
    given = {"sampler": "grid", "grid_points": 9, "seeds": 1}
    short = Player(sweep_of(**given, trials=5)).play()
    assert len(short.requests("search")) == 5
    grown = Player(replay(sweep_of(**given, trials=50), short.log)).play()
    requests = short.requests("search") + grown.requests("search")
    assert len(requests) == 1 + 9, "the default configuration is none of the nine"
    assert len({a.params["lr"] for a in requests}) == 10


@pytest.mark.parametrize("sampler", ["tpe", "gp", OWN])
def test_constraints_are_told_as_shares_of_what_is_allowed(sampler):
    given = {"trials": 9, "sampler": sampler, "constraints": {"uploaded_bytes": {"max": 5.0}}}
    player = Player(sweep_of(**given), priced).play()
    for request, trial in zip(
        player.requests("search"), told(next(iter(player.sweep.entries.values()))), strict=True
    ):
        if trial.state == TrialState.COMPLETE:
            share = 100 * request.params["lr"] / 5 - 1
            assert trial.constraints == {"uploaded_bytes": pytest.approx(share)}


def test_what_a_stopped_trial_spends_is_taken_in_proportion():
    (entry,) = entries_of(constraints={"uploaded_bytes": {"max": 100.0}})
    for at in (10, 50):
        end = ValidationResult(Status.PRUNED, 0.1, {}, {"uploaded_bytes": 4.0 * at}, at=at)
        assert end.exceeded(entry) == {"uploaded_bytes": 1.0}
        assert not end.feasible(entry)
    assert ValidationResult(Status.FINISHED, 0.1, at=50).feasible(entry)


@pytest.mark.parametrize("most", [0.05, 0.0005])
def test_the_best_of_those_that_keep_the_constraint_is_chosen_else_the_least_excess(most):
    """The score is best at a rate of 0.1; the smallest in the search is 0.001."""
    bound = {"uploaded_bytes": {"max": 100 * most}}
    player = Player(sweep_of(trials=30, constraints=bound), priced).play()
    rates = [a.params["lr"] for a in player.requests("search")]
    kept = [rate for rate in rates if rate <= most]
    assert bool(kept) == (most == 0.05)
    assert {a.params["lr"] for a in player.requests("final")} == {max(kept, default=min(rates))}


CONFIRM = {"trials": 8, "seeds": 2, "confirm": {"best": 3, "seeds": 2}}


def noisy(request: TrialRequest) -> ValidationResult:
    """Trial i scores i / 10; the best one's further seeds disappoint."""
    if request.kind == "search":
        return finished(request.index / 10)
    return finished(0.1 if request.source and request.source.endswith("s0007") else 0.5)


def test_the_best_few_are_confirmed_with_further_seeds_before_one_is_chosen():
    player = Player(sweep_of(**CONFIRM), noisy).play(random.Random(1), 4)
    confirms = player.requests("confirm")
    assert [a.kind for a in player.requests()] == ["search"] * 8 + ["confirm"] * 6 + ["final"] * 2
    assert sorted({a.source[-5:] for a in confirms}) == ["s0005", "s0006", "s0007"]
    assert len(confirms) == 6
    assert all(a.counted for a in confirms)
    # 7: (0.7 + 0.1 + 0.1) / 3; 6: (0.6 + 0.5 + 0.5) / 3; 5: (0.5 + 0.5 + 0.5) / 3
    assert {a.source[-5:] for a in player.requests("final")} == {"s0006"}
    seeds = {
        kind: {a.seed for a in player.requests(kind)} for kind in ("search", "confirm", "final")
    }
    assert [len(s) for s in seeds.values()] == [1, 2, 2]
    assert len(set.union(*seeds.values())) == 5


@pytest.mark.parametrize("better", [False, True])
def test_a_sweep_killed_in_its_finals_and_extended_searches_first(better):
    """Unfinished finals of what was the best are dropped; what stays the best is asked for again."""

    def ending(request: TrialRequest) -> ValidationResult:
        ahead = better and request.index == 7 and request.kind == "search"
        return finished(0.9 if ahead else 0.5 - request.index / 100)

    given = {"seeds": 3, "trials": 5}
    for seed in range(50):
        killed = Player(sweep_of(**given), ending).play(random.Random(seed), 2, limit=11)
        if killed.running:
            break
    assert {a.kind for a in killed.running} == {"final"}
    grown = Player(replay(sweep_of(**{**given, "trials": 9}), killed.log), ending).play()
    searched, finals = grown.requests("search"), grown.requests("final")
    assert (grown.again, grown.requests()) == ([], searched + finals)
    assert len(searched) == 4
    assert {a.source[-5:] for a in finals} == {"s0007" if better else "s0000"}
    assert len(finals) == (3 if better else len(killed.running) + 3 - len(killed.requests("final")))
    same = Player(replay(sweep_of(**given), killed.log), ending).play()
    assert same.again == killed.running, "not extended: it goes on where it was"
    done = replay(sweep_of(**{**given, "trials": 9}), killed.log + grown.log)
    assert Player(done).play().requests() == [], "all is done"
