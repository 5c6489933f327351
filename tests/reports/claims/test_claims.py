"""Verdicts by hand-made cases: metrics of histories, numbers, bounds, statements."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.claims.judged import JudgedRow, Number, Statement, judge_numbers, judge_statements
from reports.claims.page import measured as measured_text
from reports.claims.page import row_blocks
from reports.claims.verdicts import (
    DIRECTION,
    FAILED,
    NOISY,
    NOT_RUN,
    REPRODUCED,
    ClaimRun,
    Order,
    compare,
    judge,
    measured,
    metric,
    order_of,
    printed,
    summary,
)
from trials.common.errors import UserError

NO_ORDER = Order((), False)
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


def verdict(number, values, wanted=ACCURACY, order=NO_ORDER, rounds=100):
    return judge(printed(number), wanted, dict(enumerate(values)), rounds, order).verdict


def test_a_number_is_reproduced_when_the_whole_interval_is_within_the_tolerance():
    """Three seeds 0.1 apart: s = 0.1, t(2) = 4.303, so half the interval is 0.25; the tolerance is 1."""
    assert verdict(90.0, [90.2, 90.3, 90.4]) == REPRODUCED, "90.05 to 90.55"
    assert verdict(90.0, [90.7, 90.8, 90.9]) == NOISY, "90.55 to 91.05 ends beyond 91"
    assert verdict(90.0, [91.1, 91.2, 91.3]) == NOISY, "90.95 to 91.45 begins before 91"
    assert verdict(90.0, [91.2, 91.3, 91.4]) == FAILED, "91.05 to 91.55"
    assert verdict(90.0, [90.3, 90.3, 90.3]) == REPRODUCED, "no noise"


def test_noise_buys_nothing():
    """Seeds 91 and 92: t(1) = 12.706, so half the interval is 6.4."""
    assert verdict(91.5, [91, 92]) == NOISY, "not even where the mean is the printed number"
    assert verdict(80.0, [91, 92]) == FAILED, "85.1 to 97.9"
    assert verdict(90.0, [90.0]) == NOISY, "one seed shows no noise"


def test_how_many_seeds_would_say():
    """s = 0.5 and mean 90: half the interval is 1.24 with 3 seeds, t(3) 0.5 / 2 = 0.80 with 4."""
    found = judge(printed(90.0), ACCURACY, dict(enumerate([89.5, 90.0, 90.5])), 9, NO_ORDER)
    assert (found.verdict, found.seeds_needed) == (NOISY, 4)
    assert found.reason == "about 4 seeds would say"
    assert judge(printed(90.0), ACCURACY, {0: 90.0}, 9, NO_ORDER).reason == "one seed"
    edge = judge(printed(90.0), ACCURACY, dict(enumerate([90.5, 91.0, 91.5])), 9, NO_ORDER)
    assert (edge.seeds_needed, edge.reason) == (None, "about over 1000 seeds would say")


def test_order_to_the_other_methods_of_a_row():
    far, near = [95.0, 95.1, 95.2], [90.0, 90.1, 90.2]
    assert verdict(90.0, far, order=Order((), True)) == DIRECTION
    assert verdict(90.0, far, order=Order((), False)) == FAILED
    assert verdict(90.0, near, order=Order((), True)) == REPRODUCED
    wrong = judge(printed(90.0), ACCURACY, dict(enumerate(near)), 9, Order(("b",), False))
    assert (wrong.verdict, wrong.reason) == (FAILED, "the order to b is reversed")


def test_rounds_to_a_target():
    assert verdict(50, [58, 59, 58], ROUNDS) == REPRODUCED, "40 to 60"
    assert verdict(50, [58, 62], ROUNDS) == NOISY
    assert verdict(50, [80, 80], ROUNDS) == FAILED
    assert verdict(4, [6, 6], ROUNDS) == REPRODUCED, "at least 2 rounds"
    assert verdict(None, [math.inf, math.inf], ROUNDS) == REPRODUCED
    # Of 100 rounds never is 101, with a tolerance of 20.2.
    assert verdict(None, [math.inf, 99, 100], ROUNDS) == REPRODUCED
    assert verdict(None, [math.inf, 60], ROUNDS) == NOISY
    assert verdict(None, [90, 90], ROUNDS) == REPRODUCED
    assert verdict(None, [60, 61, 60], ROUNDS) == FAILED
    assert verdict(None, [math.inf, 2], metric("speedup(70,b)")) == FAILED, "no number of rounds"


def test_a_seed_that_never_gets_there_counts_as_at_least_the_last_round_plus_one():
    values = dict(enumerate([50, math.inf]))
    found = judge(printed(50), ROUNDS, values, 100, NO_ORDER)
    assert (found.verdict, found.reason) == (NOISY, "not all seeds got there")
    assert verdict(50, [math.inf] * 2, ROUNDS) == FAILED, "101 is too much already"
    assert verdict(99, [math.inf] * 2, ROUNDS) == NOISY, "101 would do, but it may be more"
    assert verdict("<= 101", [math.inf] * 2, ROUNDS) == NOISY
    assert verdict("> 70", [math.inf] * 2, ROUNDS) == REPRODUCED


def test_bounds():
    assert verdict("> 50", [60, 61, 62]) == REPRODUCED
    assert verdict("> 50", [20, 60, 90]) == NOISY, "the mean alone"
    assert verdict("> 50", [40, 40.1]) == FAILED
    assert verdict("> 50", [50, 50]) == FAILED, "50 is not more than 50"
    assert verdict(">= 50", [50, 50]) == REPRODUCED
    assert verdict("<= 20", [15, 15], ROUNDS) == REPRODUCED
    assert verdict("> 70", [65, math.inf], ROUNDS) == NOISY, "one seed did reach it"


@given(st.lists(st.floats(0, 100), min_size=2, max_size=6), st.floats(0, 100))
def test_verdicts_go_by_the_interval_that_is_shown(values, number):
    shown = summary(dict(enumerate(values)), ACCURACY, 9)
    inside = number - 1 <= shown.low and shown.high <= number + 1
    outside = shown.low > number + 1 or shown.high < number - 1
    assert verdict(number, values) == (REPRODUCED if inside else FAILED if outside else NOISY)


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("spread", [0.1, 0.5, 2.0])
def test_verdicts_are_rarely_wrong(seeds, spread):
    """A true mean just outside the tolerance is called reproduced, and one just inside is called not reproduced, in
    at most 2.5 % of cases: in 4,000 that is 100, and 134 are 3.4 standard errors more.
    """
    draws = np.random.default_rng(seeds).normal(91.0, spread, (4000, seeds))
    counts = Counter(verdict(90.0, list(values)) for values in draws)
    assert counts[REPRODUCED] <= 134
    assert counts[FAILED] <= 134


def stands(of, **numbers):
    """How a method stands; each has its printed number, and its values over seeds."""
    claims = {name: printed(number) for name, (number, _) in numbers.items()}
    values = {name: dict(enumerate(found)) for name, (_, found) in numbers.items()}
    return order_of(of, claims, values, 99)


def test_order_among_the_methods_of_a_row():
    a, b, c = (50, [10, 11, 12]), (57, [20, 21, 22.1]), (None, [math.inf] * 3)
    assert stands("a", a=a, b=b, c=c) == Order([], True)
    assert stands("b", a=a, b=b, c=c) == Order([], True)
    assert stands("a", a=a, b=(57, [9, 10, 10.9]), c=c) == Order(["b"], False)
    assert stands("c", a=a, b=b, c=(None, [15, 16, 17.1])) == Order(["b"], False)
    noisy = (57, [5, 40, 11])
    assert stands("a", a=a, b=noisy) == Order([], False), "nothing is shown"
    assert stands("a", a=a) == Order([], False)
    assert stands("a", a=a, b=(50, [20, 21, 22])) == Order([], False), "printed alike"
    assert stands("a", a=a, b=("> 70", [20, 21, 22])) == Order([], False), "a bound"
    assert stands("a", a=(50, [10]), b=(57, [20])) == Order([], False), "one seed"


def test_intervals_of_an_order_hold_together():
    """Gaps of 0.9, 1 and 1.1: low is 1 - t s / sqrt(3), t(2) 4.30 at 95 % and 6.21 at 97.5 %; with gaps of
    spread 0.35 that is 0.13 for one pair, and -0.25 for two.
    """
    gaps = [0.65, 1.0, 1.35]
    up = [10 + gap for gap in gaps]
    one = {"a": (1, [10, 10, 10]), "b": (2, up)}
    assert stands("a", **one) == Order([], True)
    assert stands("a", **one, c=(3, up)) == Order([], False)


def said(relation, of, to, wanted=ACCURACY, **more):
    pair = dict(enumerate(of)), dict(enumerate(to))
    return compare(wanted, relation, *pair, 100, **more)[0]


def test_statements_go_by_paired_differences():
    assert said(">", [51, 61, 71], [50, 60, 70.1]).verdict == REPRODUCED, (
        "noise in common is no noise"
    )
    assert said(">", [50, 60, 71], [51, 60.2, 60]).verdict == NOISY
    assert said(">", [50, 60, 70], [51, 61, 71]).verdict == FAILED
    assert said("<", [3], [4], ROUNDS).verdict == NOISY, "one seed has no interval"
    assert said("<", [10, 11, 12], [math.inf] * 3, ROUNDS).verdict == REPRODUCED
    assert said("<", [math.inf] * 3, [math.inf] * 3, ROUNDS).verdict == FAILED, "a tie"
    assert said("~", [90, 91, 92], [90.5, 91.5, 92.5]).verdict == REPRODUCED
    assert said("~", [90, 91, 92], [91.9, 92.9, 93.9]).verdict == REPRODUCED, (
        "a difference: 2 points"
    )
    assert said("~", [90, 91, 92], [92.1, 93.1, 94.1]).verdict == FAILED
    assert said("~", [90, 91, 92], [90, 94, 91]).verdict == NOISY
    assert said(">=", [90, 90, 90], [90.5, 90.5, 90.5], by=-0.7).verdict == REPRODUCED
    assert (
        said("<", [60, 61, 62], [100, 101, 102], metric("uploads"), times=0.7).verdict == REPRODUCED
    )
    assert said("<", [80, 81, 82], [100, 101, 102], metric("uploads"), times=0.7).verdict == FAILED


def test_statements_about_runs_that_diverge():
    lost, fine = [math.inf] * 2, [0.2, 0.3]
    assert said("<", fine, lost, LOSS).verdict == REPRODUCED
    assert said(">", lost, fine, LOSS).verdict == REPRODUCED
    assert said("<", lost, fine, LOSS).verdict == FAILED
    assert said("~", lost, fine, LOSS).verdict == FAILED
    both = said("~", lost, lost, LOSS)
    assert (both.verdict, both.reason) == (FAILED, "both diverge")
    assert said("<", [0.1, math.inf], lost, LOSS).verdict == NOISY, "not in every seed"
    assert said("<", fine, [0.4, math.inf], LOSS).verdict == NOISY
    assert said("<", [0.2], [math.inf], LOSS).verdict == NOISY, "one seed"


@pytest.mark.parametrize("relation", ["<", "<=", "~", ">=", ">"])
def test_two_methods_that_never_get_there_show_nothing(relation: str):
    never, rounds = [math.inf] * 2, metric("rounds_to(95)")
    neither = said(relation, never, never, rounds)
    assert (neither.verdict, neither.reason) == (FAILED, "neither gets there")
    assert said("<", [40, math.inf], never, rounds).verdict == NOISY, "one of two seeds"


def test_entries_of_a_row_and_runs_that_were_cut():
    runs = {
        "a": dict.fromkeys((0, 1), run(0.1, 0.8, 0.9)),
        "b": dict.fromkeys((0, 1), run(0.1, 0.2, 0.3)),
    }
    numbers = {"rounds_to(70)": {"a": 1, "b": None}, "test_accuracy": {"a": 90, "b": "~ 80"}}
    whole = {(e.metric, e.method): e for e in judge_numbers(numbers, runs, 2, "")}
    assert whole["rounds_to(70)", "a"].verdict == REPRODUCED
    assert whole["rounds_to(70)", "b"].verdict == REPRODUCED
    assert whole["test_accuracy", "a"].difference == pytest.approx(0)
    assert whole["test_accuracy", "b"].verdict == DIRECTION, "below a, as printed"
    cut = {(e.metric, e.method): e for e in judge_numbers(numbers, runs, 10, "")}
    assert cut["rounds_to(70)", "a"].verdict == REPRODUCED, "reached in the rounds there were"
    for key in (("rounds_to(70)", "b"), ("test_accuracy", "a")):
        assert cut[key].verdict == NOT_RUN
        assert cut[key].reason == "cut at round 2 of 10"
    absent = judge_numbers(numbers, {}, 0, "no data: mnist")
    assert {(e.verdict, e.reason) for e in absent} == {(NOT_RUN, "no data: mnist")}
    unknown = judge_numbers({"train_accuracy": {"a": 99}}, runs, 2, "")
    assert [e.verdict for e in unknown] == [NOT_RUN]


def test_speedups_without_two_numbers_count_as_not_reached():
    """b reaches 70 % in round 4 and twice as fast in a's seed 0; a misses it in seed 1."""
    slow = run(0.1, 0.2, 0.3, 0.4, 0.8)
    runs = {
        "a": {0: run(0.1, 0.2, 0.8, 0.8, 0.8), 1: run(0.1, 0.2, 0.2, 0.2, 0.2)},
        "b": {0: slow, 1: slow},
    }
    (entry,) = judge_numbers({"speedup(70,b)": {"a": 2.0}}, runs, 4, "")
    assert (entry.measured, entry.reached_share, entry.verdict) == (2.0, 0.5, FAILED)
    assert measured_text(entry) == "2 (1 of 2)"
    (cut,) = judge_numbers({"speedup(70,b)": {"a": 2.0}}, runs, 9, "")
    assert cut.verdict == NOT_RUN


def test_statements_of_a_row():
    runs = {
        "a": {s: run(0.1, 0.8, 0.9) for s in (0, 1)},
        "b": {s: run(0.1, 0.2, 0.8) for s in (0, 1)},
    }
    claims = [
        Statement(says="a is faster", of="a", relation="<", to="b"),
        Statement(says="only words"),
    ]
    numbers = {"rounds_to(70)": {"a": 1, "b": 2}}
    first, second = judge_statements(claims, numbers, runs, 2, "")
    assert (first.verdict, first.metric, first.measured) == (REPRODUCED, "rounds_to(70)", -1)
    assert second.verdict == NOT_RUN
    assert [s.verdict for s in judge_statements(claims, numbers, {}, 0, "no data")] == [NOT_RUN] * 2


def test_a_target_that_a_paper_never_reached_has_no_unit_on_a_page():
    number = {"method": "fedprox", "metric": "rounds_to(80)", "unit": "rounds"}
    number |= {"verdict": "not run", "reason": "no data"}
    numbers = [Number(published=text, **number) for text in ("never", "23")]
    place = {"source": "Table I", "table": "table1", "row": "mnist", "about": "rounds"}
    place |= dict.fromkeys(("dataset", "model", "heterogeneity"))
    lines = row_blocks(JudgedRow(**place, numbers=numbers, claims=[]))[-1].lines
    assert [line.texts[2] for line in lines] == ["never", "23 rounds"]
    assert lines[0].texts[-1] == "not run (no data)"
