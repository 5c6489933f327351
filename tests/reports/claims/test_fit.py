"""How far readings are off, which explain, what decides: by hand."""

import math

import pytest

from reports.claims.fit import (
    DEPENDS,
    FAILS,
    FAR,
    HOLDS,
    UNEXPLAINED,
    Answer,
    answer,
    baselines_numbers,
    effects,
    explain,
    held_out,
    misfit,
    off,
    rounds_needed,
)
from reports.claims.metrics import ClaimRun, metric
from reports.claims.verdicts import FAILED, NOT_RUN, REPRODUCED, printed

ROUNDS = metric("rounds_to(80)")
ACCURACY = metric("test_accuracy")


def run_of(*accuracies: float, rounds: int = 4) -> ClaimRun:
    history = [{"round": i, "test_accuracy": a} for i, a in enumerate((0.1, *accuracies))]
    return ClaimRun(history, rounds)


@pytest.mark.parametrize(
    ("number", "wanted", "values", "expected"),
    [
        (90, ACCURACY, {0: 90.5, 1: 91.5}, 1.0),  # 1 point of 1
        (25, ROUNDS, {0: 30}, 1.0),  # 5 rounds of 20 % of 25
        (4, ROUNDS, {0: 5}, 0.5),  # at least 2 rounds
        (25, ROUNDS, {0: 30, 1: math.inf}, FAR),
        (25, ROUNDS, {0: 300}, FAR),
        (None, ROUNDS, {0: math.inf, 1: math.inf}, 0.0),
        (None, ROUNDS, {0: math.inf, 1: 30}, 85.5 / 40.2),  # 115.5 where never is 201
        (None, ROUNDS, {0: 199, 1: math.inf}, 1 / 40.2),
        ("> 80", ACCURACY, {0: 81}, 0.0),
        ("> 80", ACCURACY, {0: 78}, 2.0),
        (90, ACCURACY, {}, FAR),
        (90, ACCURACY, {0: math.inf}, FAR),
    ],
)
def test_a_number_is_so_many_tolerances_off(number, wanted, values, expected):
    assert off(printed(number), wanted, values, 200) == pytest.approx(expected)


def test_a_fit_sees_baselines_alone():
    numbers = {
        "rounds_to(80)": {"folb": 11, "fedprox": 25},
        "gain(folb)": {"fedprox": -3},
        "speedup(80,fedavg)": {"folb": 2, "fedprox": 1},
        "train_accuracy": {"fedprox": 99},
        "test_loss": {"folb": 0.3},
    }
    assert baselines_numbers(numbers, {"folb"}) == {
        "rounds_to(80)": {"fedprox": 25},
        "speedup(80,fedavg)": {"fedprox": 1},
    }


@pytest.mark.parametrize(
    ("numbers", "rounds"),
    [
        ({"rounds_to(80)": {"fedavg": 25, "fedprox": 20}}, 35),  # 25 + 2 * 5
        ({"rounds_to(80)": {"fedavg": 190}}, 200),
        ({"rounds_to(80)": {"fedavg": 25, "fedprox": None}}, 200),
        ({"rounds_to(80)": {"fedavg": 25}, "test_accuracy": {"fedavg": 90}}, 200),
    ],
)
def test_screening_ends_when_no_number_can_be_met(numbers, rounds):
    assert rounds_needed(numbers, 200) == rounds


def test_a_reading_explains_when_every_number_is_reproduced():
    numbers = {"rounds_to(80)": {"fedavg": 2}, "test_accuracy": {"fedavg": 95}}
    runs = {"fedavg": {0: run_of(0.5, 0.81, 0.9, 0.95), 1: run_of(0.5, 0.7, 0.85, 0.94)}}
    reached, accuracy = explain(numbers, runs, 4)
    assert (reached.measured, reached.reproduced, reached.off) == (2.5, True, 0.25)
    assert reached.spread == pytest.approx(0.5**0.5)
    assert (accuracy.measured, accuracy.reproduced) == (pytest.approx(94.5), True)
    assert misfit([reached, accuracy]) == pytest.approx((0.25 + 0.5) / 2)
    (never,) = explain({"rounds_to(99)": {"fedavg": 3}}, runs, 4)
    assert (never.measured, never.reached, never.reproduced, never.off) == (None, 0, False, FAR)
    # 0.95 is reached in round 4 of the first seed, and never, which is 5, in the other: a half short of 5.
    (near,) = explain({"rounds_to(95)": {"fedavg": None}}, runs, 4)
    assert (near.measured, near.reached, near.reproduced, near.off) == (None, 1, True, 0.25)


def test_baselines_that_are_printed_apart_have_to_differ_that_way():
    """89.9 and 88.2 are more than a point apart, 88.2 and 88.3 are not; both are near what is measured."""
    runs = {"a": {0: run_of(0.889)}, "b": {0: run_of(0.891)}, "c": {0: run_of(0.8909)}}
    numbers = {"test_accuracy": {"a": 89.9, "b": 88.2, "c": 88.3}}
    found = explain(numbers, runs, 4)
    assert [one.reproduced for one in found] == [True, True, True]
    assert [one.in_order for one in found] == [False, False, False]
    found = explain({"test_accuracy": {"a": 88.2, "b": 89.9, "c": 88.3}}, runs, 4)
    assert [(one.in_order, one.explained) for one in found] == [
        (True, True),
        (True, True),
        (True, True),
    ]
    never = explain({"rounds_to(80)": {"a": None, "b": 1}}, {**runs, "a": {0: run_of(0.5)}}, 4)
    assert [one.explained for one in never] == [True, True]


def test_a_single_baseline_has_no_order_to_keep():
    """Its numbers alone say whether a reading explains them."""
    runs = {"fedavg": {0: run_of(0.5, 0.9), 1: run_of(0.5, 0.9)}}
    numbers = {"test_accuracy": {"fedavg": 90}, "rounds_to(80)": {"fedavg": 12}}
    found = explain(numbers, runs, 2)
    assert [(one.in_order, one.explained) for one in found] == [(True, True), (True, False)]


def test_what_decides_is_a_share_of_the_variance():
    """y = 3 a + b on a 2 x 2 grid: variances 2.25 and 0.25 of 2.5."""
    grid = [({"a": a, "b": b, "c": 0}, 3.0 * a + b) for a in (0, 1) for b in (0, 1)]
    assert effects(grid) == pytest.approx({"a": 0.9, "b": 0.1, "c": 0.0})
    assert list(effects(grid)) == ["a", "b", "c"]
    assert effects([(picks, 1.0) for picks, _ in grid]) == {}
    assert effects([]) == {}


def test_shares_of_few_readings_do_not_overlap():
    """Of (0, 0), (0, 1), (1, 1) with y = 0, 0, 1 alone a explains all and b a quarter (means 0 and 1/2 around
    1/3: 1/9 + 2/36 of 2/3), together all: a has (1 + 3/4) / 2, b has (1/4 + 0) / 2.
    """
    found = effects([({"a": 0, "b": 0}, 0.0), ({"a": 0, "b": 1}, 0.0), ({"a": 1, "b": 1}, 1.0)])
    assert found == pytest.approx({"a": 7 / 8, "b": 1 / 8})


def test_what_only_combinations_decide_is_no_setting_s_share():
    """y = a xor b: each candidate has the same mean."""
    grid = [({"a": a, "b": b}, float(a != b)) for a in (0, 1) for b in (0, 1)]
    assert effects(grid) == pytest.approx({"a": 0.0, "b": 0.0})


def test_settings_that_changed_together_cannot_be_told_apart():
    """Candidates of a and b come in fixed pairs, so one number is theirs; c is on its own."""
    rows = [({"a": i, "b": 1 - i, "c": c}, 2.0 * i + c) for i in (0, 1) for c in (0, 1)]
    assert effects(rows) == pytest.approx({"a together with b": 0.8, "c": 0.2})


PICKS = {1: {"lr": 0}, 2: {"lr": 1}, 3: {"lr": 1}}
NO = Answer(UNEXPLAINED, [], 0, {})


@pytest.mark.parametrize(
    ("judged", "word", "holds"),
    [
        ({1: REPRODUCED, 2: REPRODUCED}, HOLDS, [1, 2]),
        ({1: REPRODUCED, 2: FAILED, 3: FAILED}, DEPENDS, [1]),
        ({1: FAILED, 2: FAILED}, FAILS, []),
        ({1: NOT_RUN}, NOT_RUN, []),
        ({1: NOT_RUN, 2: REPRODUCED}, HOLDS, [2]),
        ({}, UNEXPLAINED, []),
    ],
)
def test_the_answer_is_about_all_readings_that_explain(judged, word, holds):
    found = answer(judged, PICKS, NO)
    assert (found.verdict, found.holds_under) == (word, holds)
    assert found.decided_by == ({"lr": pytest.approx(1.0)} if word == DEPENDS else {})


def test_a_row_that_was_held_out():
    explaining = {
        "a": [{"unit": "epochs", "lr": 0.1}],
        "b": [{"unit": "epochs", "mu": 1}, {"unit": "steps", "mu": 1}],
        "c": [],
    }
    assert held_out(explaining, {"unit", "lr"}, "a") == (2, 1)
    assert held_out(explaining, {"unit", "mu"}, "b") == (1, 1)
    assert held_out(explaining, {"unit"}, "c") == (1, 0)
    assert held_out({"a": explaining["a"], "c": []}, {"unit"}, "a") is None
    assert held_out(explaining, {"scored"}, "c") is None
