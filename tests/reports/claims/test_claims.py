"""Verdicts by hand-made cases: metrics of histories, numbers, bounds, statements."""

import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.claims.metrics import ClaimRun, Metric, as_scored, measured, metric
from reports.claims.page import measured as measured_text
from reports.claims.page import published
from reports.claims.verdicts import (
    DIRECTION,
    FAILED,
    NOT_RUN,
    REPRODUCED,
    Statement,
    compare,
    entries,
    in_order,
    judge,
    printed,
    statements,
    summary,
)
from trials.common.errors import UserError

ACCURACY, ROUNDS, LOSS = metric("test_accuracy"), metric("rounds_to(70)"), metric("test_loss")


def run(*accuracies: float, rounds: int | None = None, diverged: bool = False, **last) -> ClaimRun:
    """Round 0, 1, 2, ... with these test accuracies; `last` are other values of the last round."""
    history = [{"round": i, "test_accuracy": a} for i, a in enumerate(accuracies)]
    history[-1] |= last
    return ClaimRun(history, rounds or len(accuracies) - 1, diverged)


def of(name: str, *runs: ClaimRun, **others: ClaimRun) -> dict[int, float]:
    """A metric of method `a`, which has these runs; others have one run each, seed 0."""
    given = {"a": dict(enumerate(runs)), **{k: {0: v} for k, v in others.items()}}
    return measured(metric(name), "a", given)


def test_metrics_of_a_history():
    one = run(0.1, 0.5, 0.8, 0.7, test_loss=0.25, clients_uploaded=30, test_top5_accuracy=0.9)
    assert of("test_accuracy", one) == {0: pytest.approx(70)}
    assert of("test_accuracy@2", one) == {0: pytest.approx(80)}
    assert of("best_test_accuracy", one) == {0: pytest.approx(80)}
    assert of("mean_accuracy", one) == {0: pytest.approx(200 / 3)}, "round 0 is not trained"
    assert of("top5_accuracy", one) == {0: pytest.approx(90)}
    assert of("test_loss", one) == {0: 0.25}
    assert of("uploads", one) == {0: 30}
    assert of("rounds_to(50)", one) == {0: 1}, "reached at the target itself"
    assert of("rounds_to(75)", one) == {0: 2}, "the first time"
    assert of("rounds_to(5)", one) == {0: 1}, "the untrained model does not count"
    assert of("rounds_to(90)", one) == {0: math.inf}


def test_metrics_against_another_method():
    fast, slow = run(0.1, 0.6, 0.8, 0.8, 0.8), run(0.1, 0.2, 0.3, 0.4, 0.6)
    assert of("gain(b)", fast, b=slow) == {0: pytest.approx(20)}
    assert of("gain(b)@2", fast, b=slow) == {0: pytest.approx(50)}
    assert of("speedup(60,b)", fast, b=slow) == {0: 4}
    for target, a, b in ((70, fast, slow), (70, slow, fast), (90, fast, slow)):
        assert of(f"speedup({target},b)", a, b=b) == {0: math.inf}, "one never reaches it: no ratio"
    assert of("gain(b)", fast) == {}, "no other run"


def test_a_run_that_diverged():
    lost = run(0.1, 0.8, math.nan, rounds=5, diverged=True, test_loss=math.nan)
    assert of("test_accuracy", lost) == {0: pytest.approx(10)}, "the untrained model's"
    assert of("test_loss", lost) == {0: math.inf}
    assert of("rounds_to(80)", lost) == {0: 1}, "it was there before"
    for name in ("best_test_accuracy", "mean_accuracy"):
        assert of(name, lost) == {0: pytest.approx(10)}, "it loses to one that did not"


@pytest.mark.parametrize("text", ["test_acuracy", "rounds_to", "rounds_to(70,80)", "a b", "gain()"])
def test_metrics_that_are_none(text):
    with pytest.raises(UserError):
        metric(text)


def test_numbers_as_papers_print_them():
    assert [str(printed(n)) for n in (99.85, "~ 99.7", "> 50", None, "<= 0.7")] == [
        *("99.85", "~ 99.7", "> 50", "never", "<= 0.7")
    ]
    for text in ("99 %", "about 3", "=3"):
        with pytest.raises((UserError, ValueError)):
            printed(text)


def verdict(number, values, wanted=ACCURACY, ordered=None, rounds=100):
    return judge(printed(number), wanted, dict(enumerate(values)), rounds, ordered).verdict


def test_a_number_within_the_tolerance():
    assert verdict(90.0, [90.9]) == REPRODUCED, "one seed: 1 point"
    assert verdict(90.0, [91.1]) == FAILED
    assert verdict(90.0, [91.1], ordered=True) == DIRECTION
    assert verdict(90.0, [91.1], ordered=False) == FAILED


def test_the_interval_adds_to_the_tolerance_but_not_without_end():
    """Seeds 91 and 92: mean 91.5, t(1) = 12.706, so half the interval is 6.4, of which 1 counts."""
    half = stats.t.interval(0.95, 1, loc=91.5, scale=stats.sem([91, 92]))[1] - 91.5
    assert half > 6
    assert verdict(89.6, [91, 92]) == REPRODUCED
    assert verdict(89.4, [91, 92]) == FAILED, "noise buys no more than the tolerance"
    assert verdict(90.3, [91.5, 91.5, 91.5]) == FAILED, "no noise buys nothing"


def test_rounds_to_a_target():
    assert verdict(50, [58, 62], ROUNDS) == REPRODUCED, "20 % of 50 and the noise"
    assert verdict(50, [80, 80], ROUNDS) == FAILED
    assert verdict(4, [6, 6], ROUNDS) == REPRODUCED, "at least 2 rounds"
    assert verdict(50, [50, math.inf], ROUNDS, ordered=True) == DIRECTION, "not every seed"
    assert verdict(None, [math.inf, math.inf], ROUNDS) == REPRODUCED
    # Of 100 rounds never is 101, with a tolerance of 20.2: means of 95.5, 81, 80.5 and 90.
    assert verdict(None, [math.inf, 90], ROUNDS) == REPRODUCED
    assert verdict(None, [math.inf, 61], ROUNDS) == REPRODUCED
    assert verdict(None, [math.inf, 60], ROUNDS) == FAILED
    assert verdict(None, [90, 90], ROUNDS) == REPRODUCED
    assert verdict(None, [math.inf, 2], metric("speedup(70,b)")) == FAILED, "no number of rounds"


def test_bounds():
    assert verdict("> 50", [60, 61, 62]) == REPRODUCED
    assert verdict("> 50", [20, 60, 90]) == DIRECTION, "the mean alone"
    assert verdict("> 50", [40, 41]) == FAILED
    assert verdict("<= 20", [15, 15], ROUNDS) == REPRODUCED
    assert verdict("> 70", [math.inf] * 2, ROUNDS) == REPRODUCED, "counts as 101"
    assert verdict("> 70", [65, math.inf], ROUNDS) == DIRECTION, "one seed did reach it"


def test_nothing_measured_is_no_verdict():
    assert verdict(3, []) == NOT_RUN


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6), st.floats(0, 100))
def test_a_number_farther_than_two_tolerances_is_never_reproduced(values, number):
    mean = sum(values) / len(values)
    found = verdict(number, values)
    if abs(number - mean) > 2.001:
        assert found != REPRODUCED
    if abs(number - mean) < 0.999:
        assert found == REPRODUCED


@given(st.permutations([88.0, 90.0, 91.5, 95.0]))
def test_seeds_have_no_order(values):
    assert verdict(90.0, values) == verdict(90.0, sorted(values))
    found = summary(dict(enumerate(values)), ACCURACY, 9)
    assert (found.mean, found.seeds) == (pytest.approx(91.125), 4)
    low, high = stats.t.interval(0.95, 3, loc=91.125, scale=stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_order_among_the_methods_of_a_row():
    numbers = {"a": printed(50), "b": printed(57), "c": printed(None)}
    assert in_order("a", numbers, {"a": 10, "b": 20, "c": math.inf})
    assert in_order("a", numbers, {"a": 10, "b": 9, "c": 99}) is False
    assert in_order("b", numbers, {"a": 10, "b": 20, "c": math.inf})
    assert in_order("c", numbers, {"a": 10, "b": 20, "c": 15}) is False
    assert in_order("a", numbers, {"a": 10, "b": 10, "c": 20}) is False, "a tie is no order"
    assert in_order("a", {"a": printed(50)}, {"a": 10}) is None
    assert in_order("a", {"a": printed(50), "b": printed(50)}, {"a": 1, "b": 2}) is None
    assert in_order("a", {"a": printed(50), "b": printed("> 70")}, {"a": 1, "b": 2}) is None


def said(relation, of, to, wanted=ACCURACY, **more):
    pair = dict(enumerate(of)), dict(enumerate(to))
    return compare(wanted, relation, *pair, 100, **more)[0]


def test_statements_go_by_paired_differences():
    assert said(">", [51, 61, 71], [50, 60, 70.1]).verdict == REPRODUCED, (
        "noise in common is no noise"
    )
    assert said(">", [50, 60, 71], [51, 60.2, 60]).verdict == DIRECTION
    assert said(">", [50, 60, 70], [51, 61, 71]).verdict == FAILED
    assert said("<", [3], [4], ROUNDS).verdict == DIRECTION, "one seed has no interval"
    assert said("<", [10, 11, 12], [math.inf] * 3, ROUNDS).verdict == REPRODUCED
    assert said("<", [math.inf] * 3, [math.inf] * 3, ROUNDS).verdict == FAILED, "a tie"
    assert said("~", [90, 91, 92], [90.5, 91.5, 92.5]).verdict == REPRODUCED
    assert said("~", [90, 91, 92], [91.9, 92.9, 93.9]).verdict == REPRODUCED, (
        "a difference: 2 points"
    )
    assert said("~", [90, 91, 92], [92.1, 93.1, 94.1]).verdict == FAILED
    assert said(">=", [90, 90, 90], [90.5, 90.5, 90.5], by=-0.7).verdict == REPRODUCED
    assert (
        said("<", [60, 61, 62], [100, 101, 102], metric("uploads"), times=0.7).verdict == REPRODUCED
    )
    assert said("<", [80, 81, 82], [100, 101, 102], metric("uploads"), times=0.7).verdict == FAILED


def test_statements_about_runs_that_diverge():
    lost, fine = [math.inf] * 2, [0.2, 0.3]
    assert said("<", fine, lost, LOSS).verdict == REPRODUCED
    assert said("<", lost, fine, LOSS).verdict == FAILED
    both = said("~", lost, lost, LOSS)
    assert (both.verdict, both.reason) == (FAILED, "both diverge")
    assert said("<", [0.1, math.inf], lost, LOSS).verdict == FAILED, "not in every seed"
    assert said("<", fine, [0.4, math.inf], LOSS).verdict == DIRECTION, "no interval"
    assert said("<", fine, [0.1, math.inf], LOSS).verdict == FAILED


@pytest.mark.parametrize("relation", ["<", "<=", "~", ">=", ">"])
def test_two_methods_that_never_get_there_show_nothing(relation: str):
    never, rounds = [math.inf] * 2, metric("rounds_to(95)")
    neither = said(relation, never, never, rounds)
    assert (neither.verdict, neither.reason) == (FAILED, "neither gets there")
    assert said("<", [40, math.inf], never, rounds).verdict == DIRECTION, "one of two seeds"


def test_entries_of_a_row_and_runs_that_were_cut():
    runs = {"a": {0: run(0.1, 0.8, 0.9)}, "b": {0: run(0.1, 0.2, 0.3)}}
    numbers = {"rounds_to(70)": {"a": 1, "b": None}, "test_accuracy": {"a": 90, "b": "~ 80"}}
    whole = {(e.metric, e.method): e for e in entries(numbers, runs, 2, None)}
    assert whole["rounds_to(70)", "a"].verdict == REPRODUCED
    assert whole["rounds_to(70)", "b"].verdict == REPRODUCED
    assert whole["test_accuracy", "a"].difference == pytest.approx(0)
    assert whole["test_accuracy", "b"].verdict == DIRECTION, "below a, as printed"
    cut = {(e.metric, e.method): e for e in entries(numbers, runs, 10, None)}
    assert cut["rounds_to(70)", "a"].verdict == REPRODUCED, "reached in the rounds there were"
    for key in (("rounds_to(70)", "b"), ("test_accuracy", "a")):
        assert cut[key].verdict == NOT_RUN
        assert cut[key].reason == "cut at round 2 of 10"
    absent = entries(numbers, {}, 0, "no data: mnist")
    assert {(e.verdict, e.reason) for e in absent} == {(NOT_RUN, "no data: mnist")}
    unknown = entries({"train_accuracy": {"a": 99}}, runs, 2, None)
    assert [e.verdict for e in unknown] == [NOT_RUN]


def test_speedups_without_two_numbers_count_as_not_reached():
    """b reaches 70 % in round 4 and twice as fast in a's seed 0; a misses it in seed 1."""
    slow = run(0.1, 0.2, 0.3, 0.4, 0.8)
    runs = {
        "a": {0: run(0.1, 0.2, 0.8, 0.8, 0.8), 1: run(0.1, 0.2, 0.2, 0.2, 0.2)},
        "b": {0: slow, 1: slow},
    }
    (entry,) = entries({"speedup(70,b)": {"a": 2.0}}, runs, 4, None)
    assert (entry.measured, entry.reached_share, entry.verdict) == (2.0, 0.5, FAILED)
    assert measured_text(asdict(entry)) == "2 (1 of 2)"
    (cut,) = entries({"speedup(70,b)": {"a": 2.0}}, runs, 9, None)
    assert cut.verdict == NOT_RUN


def test_statements_of_a_row():
    runs = {
        "a": {s: run(0.1, 0.8, 0.9) for s in (0, 1)},
        "b": {s: run(0.1, 0.2, 0.8) for s in (0, 1)},
    }
    claims = [
        Statement("a is faster", None, "a", "<", "b", 1.0, 0.0),
        Statement("only words", None, None, "~", None, 1.0, 0.0),
    ]
    numbers = {"rounds_to(70)": {"a": 1, "b": 2}}
    first, second = statements(claims, numbers, runs, 2, None)
    assert (first.verdict, first.metric, first.measured) == (REPRODUCED, "rounds_to(70)", -1)
    assert second.verdict == NOT_RUN
    assert [s.verdict for s in statements(claims, numbers, {}, 0, "no data")] == [NOT_RUN] * 2


def test_where_an_evaluation_is_needed_after_each_round():
    assert metric("rounds_to(70)").every_round
    assert Metric("gain", ("a",), 56).every_round
    assert not metric("test_accuracy").every_round


def test_what_is_scored_of_a_history():
    """The ranked model's accuracies are 50, 80, 70; the average model's 60, 40, 90."""
    history = [
        {"round": i, "test_accuracy": a, "average_test_accuracy": b, "clients_uploaded": 5.0}
        for i, (a, b) in enumerate([(0.1, 0.2), (0.5, 0.6), (0.8, 0.4), (0.7, 0.9)])
    ]

    def accuracies(evaluation: str, model: str) -> list[float]:
        return [entry["test_accuracy"] for entry in as_scored(history, evaluation, model)]

    assert accuracies("last", "ranked") == [0.1, 0.5, 0.8, 0.7]
    assert accuracies("best", "ranked") == [0.1, 0.5, 0.8, 0.8]
    assert accuracies("last", "average") == [0.2, 0.6, 0.4, 0.9]
    assert accuracies("best", "average") == [0.2, 0.6, 0.6, 0.9]
    assert as_scored(history, "best", "average")[3]["clients_uploaded"] == 5.0
    absent = {"a": {0: ClaimRun(as_scored(history, "best", "devices"), 3)}}
    for name in ("test_accuracy", "rounds_to(50)", "mean_accuracy", "best_test_accuracy"):
        assert measured(metric(name), "a", absent) == {}, "the method has no such model"


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [("23", "rounds", "23 rounds"), ("never", "rounds", "never"), ("1.82", "", "1.82")],
)
def test_a_printed_number_has_its_unit_where_it_is_one(number, unit, text):
    assert published({"published": number, "unit": unit}) == text
