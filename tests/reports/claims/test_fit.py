"""How far readings are off, what is said of a statement: by hand."""

import math

import pytest

from reports.claims.chances import Chance, Sample, chances
from reports.claims.fit import (
    FAR,
    LIKELY,
    UNDECIDED,
    UNLIKELY,
    Answer,
    answer,
    baselines_numbers,
    compare,
    fitted,
    misfit,
    rounds_needed,
)
from reports.claims.metrics import ClaimRun
from reports.claims.verdicts import NOT_RUN, AgreementRange


def run_of(*accuracies: float, rounds: int = 4) -> ClaimRun:
    history = [{"round": i, "test_accuracy": a} for i, a in enumerate((0.1, *accuracies))]
    return ClaimRun(history, rounds)


@pytest.mark.parametrize(
    ("number", "name", "histories", "expected"),
    [
        (90, "test_accuracy", [[0.905], [0.915]], 1.0),  # 1 point of 1
        (25, "rounds_to(80)", [[0.5] * 29 + [0.9]], 1.0),  # 5 rounds of 20 % of 25
        (4, "rounds_to(80)", [[0.5] * 4 + [0.9]], 0.5),  # at least 2 rounds
        (25, "rounds_to(80)", [[0.5] * 200], FAR),  # 201 - 25
        (None, "rounds_to(80)", [[0.5] * 200] * 2, 0.0),
        (None, "rounds_to(80)", [[0.5] * 200, [0.5] * 29 + [0.9]], 85.5 / 40.2),  # 115.5 of 201
        ("> 80", "test_accuracy", [[0.81]], 0.0),
        ("> 80", "test_accuracy", [[0.78]], 2.0),
        (90, "test_accuracy", [], FAR),
    ],
)
def test_a_number_is_so_many_tolerances_off(number, name, histories, expected):
    runs = {"fedavg": {seed: run_of(*of, rounds=200) for seed, of in enumerate(histories)}}
    (found,) = compare({name: {"fedavg": number}}, runs, 200)
    assert found.off == pytest.approx(expected)


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


def test_what_runs_give_beside_each_number():
    numbers = {"rounds_to(80)": {"fedavg": 2}, "test_accuracy": {"fedavg": 95}}
    runs = {"fedavg": {0: run_of(0.5, 0.81, 0.9, 0.95), 1: run_of(0.5, 0.7, 0.85, 0.94)}}
    reached, accuracy = compare(numbers, runs, 4)
    assert (reached.measured, reached.by_seed, reached.off) == (2.5, {0: 2.0, 1: 3.0}, 0.25)
    assert reached.spread == pytest.approx(0.5**0.5)
    assert accuracy.measured == pytest.approx(94.5)
    assert misfit([reached, accuracy]) == pytest.approx((0.25 + 0.5) / 2)
    # 0.95 is reached in round 4 of the first seed, and never, which is 5, in the other: a half short of 5.
    (near,) = compare({"rounds_to(95)": {"fedavg": None}}, runs, 4)
    assert (near.measured, near.reached, near.by_seed, near.off) == (
        None,
        1,
        {0: 4.0, 1: 5.0},
        0.25,
    )


def test_a_run_that_diverges_leaves_its_reading_unknown():
    sound, lost = run_of(0.5, 0.9), ClaimRun([{"round": 0, "test_loss": 2.0}], 2, diverged=True)
    numbers = {"test_loss": {"fedavg": 0.3}}
    whole = ClaimRun([{"round": 0, "test_loss": 2.0}, {"round": 2, "test_loss": 0.3}], 2)
    found = [
        compare(numbers, {"fedavg": runs}, 2)
        for runs in ({0: whole, 1: whole}, {0: whole, 1: lost})
    ]
    row = fitted(numbers, 2, [*found, []], 2)
    assert row.runs.tolist() == [2, 0, 0]
    assert sound.rounds == 4


NO = Answer(NOT_RUN, 0)
YES, BELOW, ABOVE = Chance(0.0, 1.0, 0.0), Chance(1.0, 0.0, 0.0), Chance(0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("agrees", "word"),
    [
        ({1: YES, 2: YES, 3: YES}, LIKELY),
        ({1: YES, 2: BELOW, 3: YES}, LIKELY),  # 0.8
        ({1: YES, 2: BELOW, 3: BELOW}, UNDECIDED),  # 0.6
        ({1: BELOW, 2: YES, 3: BELOW}, UNLIKELY),  # 0.8 below
        ({1: BELOW, 2: ABOVE, 3: ABOVE}, UNDECIDED),
        ({1: YES, 3: YES}, NOT_RUN),  # 0.8 of the weight
        ({}, NOT_RUN),
    ],
)
def test_the_answer_is_of_the_weighted_mean_over_the_readings_that_are_left(agrees, word):
    """Where the mean lies below what agrees under one reading and above under another, nothing is said."""
    found = answer(agrees, {1: 0.6, 2: 0.2, 3: 0.2}, NO)
    assert (found.verdict, found.of) == (word, 0 if word == NOT_RUN else len(agrees))


def test_the_chance_of_a_statement_is_student_s():
    """A mean of 1 of 4 runs with variance 1: the error is sqrt(1/4), with 3 + 4 degrees of freedom. t_7 is below -2
    with 0.0428.
    """
    statement = Sample(AgreementRange(0.0, math.inf), 1.0, 1.0, 4)
    (said,) = chances({1: statement}).values()
    assert said == pytest.approx((0.0428, 0.9572, 0.0), abs=1e-4)
    assert chances({1: Sample(AgreementRange(0, 1), 0, 0, 0, certain=1.0)}) == {1: (0.0, 1.0, 0.0)}
    assert chances({1: Sample(AgreementRange(0, 1), 0.5, 0.0, 1)}) == {}, "one run"
