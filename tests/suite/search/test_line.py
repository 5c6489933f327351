"""The sampler `line`: rates halved on a line, by hand."""

import math

import pytest

from suite.search.line import middle
from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from tests.support.searches import Player, a_study, entries_of, sweep_of
from trials.common.errors import UserError
from trials.run.outcome import Status

DECADES = {"lr": {"default": 0.1, "low": 1e-4, "high": 1e3, "log": True}}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # spread 3 - 2 = 1, times 5: gaps promise 1 + 1, 2 + 1, 2.5 + 2 and 2 + 1
        ({0.2: 1, 0.4: 3, 0.8: 2}, 0.6),
        # the outermost is the best: 3 + 2 beyond it, 2.5 + 1 before it
        ({0.2: 1, 0.4: 2, 0.6: 3}, 0.8),
        # spread 3 - 2.45: 2.95 + 0.055 in the narrow gap, 2.45 + 1.045 behind it
        ({0.2: 1, 0.4: 3, 0.42: 2.9, 0.8: 2}, 0.61),
        # what diverged counts as the least: 1.5 + 0.75 and 1.5 + 1.25
        ({0.1: 1, 0.4: 2, 0.9: None}, 0.65),
        # nothing is known: the widest, of equal ones the lowest
        ({0.4: None}, 0.7),
        ({0.5: None}, 0.25),
        # too narrow ones come last
        ({0.0: 1, 0.5: 3, 0.51: 3, 1.0: 1}, 0.25),
    ],
)
def test_the_gap_that_promises_most_is_halved(scores, expected):
    assert middle(scores) == pytest.approx(expected)


def peak(at: float):
    """Scores fall with the distance from a rate; mu = 0.5 adds to them."""

    def ending(request: TrialRequest) -> ValidationResult:
        apart = abs(math.log10(request.params["lr"]) - at)
        return ValidationResult(
            Status.FINISHED, 1 - apart / 10 + 0.3 * (request.params.get("mu") == 0.5)
        )

    return ending


def log_rates(requests: list[TrialRequest]) -> list[float]:
    return [round(math.log10(request.params["lr"]), 4) for request in requests]


def test_rates_are_spread_then_halved():
    sweep = sweep_of(sampler="line", trials=8, search=DECADES)
    (search,) = sweep.entries.values()
    assert (search.modelled, sweep.warnings) == (5, [])
    requests = Player(sweep, peak(0.4)).play().requests("search")
    # the study's, and the middles to both ends. 1 is the best (0.94 of 0.86 and 0.71): 0.94 + 0.114 beyond it,
    # 0.90 + 0.114 before it; then 0.84 + 0.064 beyond 2 and 0.90 + 0.129 between -1 and 1
    assert log_rates(requests)[:5] == [-1.0, 1.0, -2.5, 2.0, 0.0]
    assert log_rates(requests)[5:] == [0.5, 0.25, 0.375]
    assert [request.origin for request in requests] == ["default"] + ["sampled"] * 7


def test_companions_come_with_the_rate_that_is_found_and_say_so():
    (entry,) = entries_of(algorithms=["fedprox"], search=DECADES)
    companions = [
        InitialConfiguration("warm", entry.space.default({"mu": mu}), "elsewhere")
        for mu in (0.5, 0.2)
    ]
    study = a_study(algorithms=["fedprox"], sampler="line", trials=9, search=DECADES)
    search = SweepSearch([entry], study, warm={entry.id: companions})
    requests = Player(search, peak(0.4)).play().requests("search")
    assert [request.params["mu"] for request in requests] == [0.01, *[0.5] * 7, 0.2]
    assert log_rates(requests) == [-1.0, -1.0, 1.0, -2.5, 2.0, 0.0, 0.5, 0.25, 0.5]
    assert [request.origin for request in requests] == ["default"] + ["warm"] * 8
    assert {request.source for request in requests[1:]} == {"elsewhere"}


def test_a_server_s_rate_is_halved_at_the_rate_that_is_found():
    given = {"algorithms": ["fedadam"], "sampler": "line", "trials": 9, "search": DECADES}
    requests = Player(sweep_of(**given), peak(0.9)).play().requests("search")
    assert log_rates(requests)[-2:] == [1.0, 1.0], "the best so far"
    server = [round(math.log10(request.params["server_lr"]), 3) for request in requests]
    assert server == [-1.0] * 7 + [-2.0, 0.0], "of 0.001 to 10: beyond the only one, on both sides"


def test_it_needs_an_interval_of_rates():
    with pytest.raises(UserError, match=r"search\.lr"):
        entries_of(sampler="line", search={"lr": {"default": 0.1, "choices": [0.1, 1.0]}})
