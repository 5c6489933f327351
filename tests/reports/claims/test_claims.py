"""Verdicts by hand-made cases: metrics of histories, numbers, bounds, statements."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.claims.judged import Statement, judge_numbers, judge_statements
from reports.claims.page import measured as measured_text
from reports.claims.verdicts import (
    DIRECTION,
    FAILED,
    NOISY,
    NOT_RUN,
    REPRODUCED,
    ClaimRun,
    compare,
    judge,
    measured,
    metric,
    order_of,
    printed,
    summary,
)
from trials.common.errors import UserError

NO_ORDER = (), False
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("test_accuracy", 70),
        ("test_accuracy@2", 80),
        ("best_test_accuracy", 80),
        ("mean_accuracy", 200 / 3),  # round 0 is not trained
        ("largest_drop", 10),
        ("mean_train_loss", 0.5),  # round 0 has none
        ("top5_accuracy", 90),
        ("test_loss", 0.25),
        ("uploads", 30),
        ("rounds_to(50)", 1),  # reached at the target itself
        ("rounds_to(75)", 2),  # the first time
        ("rounds_to(5)", 1),  # the untrained model does not count
        ("rounds_to(90)", math.inf),
    ],
)
def test_metrics_of_a_history(name, value):
    one = run(0.1, 0.5, 0.8, 0.7, test_loss=0.25, clients_uploaded=30, test_top5_accuracy=0.9)
    for entry, loss in zip(one.history[1:], (0.8, 0.4, 0.3), strict=True):
        entry["train_loss"] = loss
    assert of(name, one) == {0: pytest.approx(value)}


def test_metrics_against_another_method():
    fast, slow = run(0.1, 0.6, 0.8, 0.8, 0.8), run(0.1, 0.2, 0.3, 0.4, 0.6)
    assert of("gain(b)", fast, b=slow) == {0: pytest.approx(20)}
    assert of("gain(b)@2", fast, b=slow) == {0: pytest.approx(50)}
    assert of("speedup(60,b)", fast, b=slow) == {0: 4}
    for target, a, b in ((70, fast, slow), (70, slow, fast), (90, fast, slow)):
        assert of(f"speedup({target},b)", a, b=b) == {0: math.inf}, "one never reaches it: no ratio"
    assert of("gain(b)", fast) == {}, "no other run"
    regression = ClaimRun([{"round": i, "test_mse": 1.0} for i in range(3)], 2)
    assert of("rounds_to(60)", regression) == {}, "no accuracy"


def test_a_run_that_diverged():
    lost = run(0.1, 0.8, math.nan, rounds=5, diverged=True, test_loss=math.nan)
    for name in ("test_accuracy", "best_test_accuracy", "mean_accuracy"):
        assert of(name, lost) == {0: pytest.approx(10)}, "the untrained model's"
    assert of("test_loss", lost) == of("largest_drop", lost) == {0: math.inf}
    assert of("rounds_to(80)", lost) == {0: 1}, "it was there before"


@pytest.mark.parametrize("text", ["test_acuracy", "rounds_to", "rounds_to(70,80)", "a b", "gain()"])
def test_metrics_that_are_none(text):
    with pytest.raises(UserError):
        metric(text)


def test_numbers_as_papers_print_them():
    assert [str(printed(n)) for n in (99.85, "~ 99.7", "> 50", None, "<= 0.7")] == [
        *("99.85", "~ 99.7", "> 50", "never", "<= 0.7")
    ]
    with pytest.raises(UserError):
        printed("about 3")


NEVER = math.inf


# Three seeds 0.1 apart: s = 0.1, t(2) = 4.303, so half the interval is 0.25; the tolerance is 1 point.
# Seeds 91 and 92: t(1) = 12.706, so half the interval is 6.4: noise buys nothing.
@pytest.mark.parametrize(
    ("number", "values", "wanted", "expected"),
    [
        (90.0, [90.2, 90.3, 90.4], ACCURACY, REPRODUCED),  # 90.05 to 90.55
        (90.0, [90.7, 90.8, 90.9], ACCURACY, NOISY),  # 90.55 to 91.05 ends beyond 91
        (90.0, [91.1, 91.2, 91.3], ACCURACY, NOISY),  # 90.95 to 91.45 begins before 91
        (90.0, [91.2, 91.3, 91.4], ACCURACY, FAILED),  # 91.05 to 91.55
        (90.0, [90.3, 90.3, 90.3], ACCURACY, REPRODUCED),
        (91.5, [91, 92], ACCURACY, NOISY),  # not even where the mean is the printed number
        (80.0, [91, 92], ACCURACY, FAILED),  # 85.1 to 97.9
        (90.0, [90.0], ACCURACY, NOISY),  # one seed shows no noise
        ("> 50", [60, 61, 62], ACCURACY, REPRODUCED),
        ("> 50", [20, 60, 90], ACCURACY, NOISY),  # the mean alone
        ("> 50", [50, 50], ACCURACY, FAILED),  # 50 is not more than 50
        (">= 50", [50, 50], ACCURACY, REPRODUCED),
        ("<= 20", [15, 15], ROUNDS, REPRODUCED),
        (50, [58, 59, 58], ROUNDS, REPRODUCED),  # 40 to 60
        (50, [58, 62], ROUNDS, NOISY),
        (50, [80, 80], ROUNDS, FAILED),
        (4, [6, 6], ROUNDS, REPRODUCED),  # at least 2 rounds
        # Of 100 rounds never is 101, with a tolerance of 20.2.
        (None, [NEVER, NEVER], ROUNDS, REPRODUCED),
        (None, [NEVER, 99, 100], ROUNDS, REPRODUCED),
        (None, [NEVER, 60], ROUNDS, NOISY),
        (None, [60, 61, 60], ROUNDS, FAILED),
        (None, [NEVER, 2], metric("speedup(70,b)"), FAILED),  # no number of rounds
        # A seed that never gets there counts as at least the last round plus one.
        (50, [50, NEVER], ROUNDS, NOISY),
        (50, [NEVER] * 2, ROUNDS, FAILED),  # 101 is too much already
        (99, [NEVER] * 2, ROUNDS, NOISY),  # 101 would do, but it may be more
        ("<= 101", [NEVER] * 2, ROUNDS, NOISY),
        ("> 70", [NEVER] * 2, ROUNDS, REPRODUCED),
        ("> 70", [65, NEVER], ROUNDS, NOISY),
    ],
)
def test_verdicts_on_numbers(number, values, wanted, expected):
    assert judged(number, values, wanted).verdict == expected


def judged(number, values, wanted=ACCURACY, order=NO_ORDER, rounds=100):
    return judge(printed(number), wanted, dict(enumerate(values)), rounds, order)


def test_how_many_seeds_would_say():
    """s = 0.5 and mean 90: half the interval is 1.24 with 3 seeds, t(3) 0.5 / 2 = 0.80 with 4."""
    verdict, reason = judged(90.0, [89.5, 90.0, 90.5])
    assert (verdict, "about 4 seeds" in reason) == (NOISY, True)


def test_order_to_the_other_methods_of_a_row():
    far, near = [95.0, 95.1, 95.2], [90.0, 90.1, 90.2]
    assert judged(90.0, far, order=((), True)).verdict == DIRECTION
    assert judged(90.0, far, order=((), False)).verdict == FAILED
    assert judged(90.0, near, order=((), True)).verdict == REPRODUCED
    assert judged(90.0, near, order=(("b",), False)).verdict == FAILED


@given(st.lists(st.floats(0, 100), min_size=2, max_size=6), st.floats(0, 100))
def test_verdicts_go_by_the_interval_that_is_shown(values, number):
    shown = summary(dict(enumerate(values)), ACCURACY, 9)
    inside = number - 1 <= shown.ci_low and shown.ci_high <= number + 1
    outside = shown.ci_low > number + 1 or shown.ci_high < number - 1
    expected = REPRODUCED if inside else FAILED if outside else NOISY
    assert judged(number, values).verdict == expected


@pytest.mark.parametrize("seeds", [3, 10])
@pytest.mark.parametrize("spread", [0.1, 2.0])
def test_verdicts_are_rarely_wrong(seeds, spread):
    """A true mean just outside the tolerance is called reproduced, and one just inside is called not reproduced, in
    at most 2.5 % of cases: in 4,000 that is 100, and 134 are 3.4 standard errors more.
    """
    draws = np.random.default_rng(seeds).normal(91.0, spread, (4000, seeds))
    counts = Counter(judged(90.0, list(values)).verdict for values in draws)
    assert counts[REPRODUCED] <= 134
    assert counts[FAILED] <= 134


def test_orders_and_statements_of_equal_methods_are_rarely_wrong():
    """An order is shown in at most 5 % of rows, a difference or a likeness at its limit in 2.5 %: of 2,000 these are 100
    and 50, with 3.4 standard errors 133 and 74.
    """
    claims = {name: printed(number) for name, number in (("a", 50), ("b", 57), ("c", 60))}
    counts = Counter[str]()
    for draw in np.random.default_rng(0).normal(90.0, 1.0, (2000, 3, 5)):
        values = {name: dict(enumerate(seeds)) for name, seeds in zip("abc", draw, strict=True)}
        wrong, right = order_of("a", claims, values, 99)
        counts["order"] += bool(wrong) or right
        far = {seed: value + 2.0 for seed, value in values["b"].items()}
        for relation, other in ((">", values["b"]), ("~", far)):
            verdict, _ = compare(ACCURACY, relation, values["a"], other, 99)
            counts[relation] += verdict.verdict == REPRODUCED
    assert 0 < counts["order"] <= 133
    assert 0 < counts[">"] <= 74
    assert counts["~"] <= 74


A, B, C = (50, [10, 11, 12]), (57, [20, 21, 22.1]), (None, [NEVER] * 3)
UP = [10.65, 11.0, 11.35]
"""One more than 10, with a spread of 0.35: low is 1 - t s / sqrt(3), t(2) 4.30 for one pair and 6.21 for two: 0.13 and -0.25."""


@pytest.mark.parametrize(
    ("method", "others", "expected"),
    [
        ("a", {"b": B, "c": C}, ([], True)),
        ("b", {"b": B, "c": C}, ([], True)),
        ("a", {"b": (57, [9, 10, 10.9]), "c": C}, (["b"], False)),
        ("a", {"b": (57, [5, 40, 11])}, ([], False)),  # nothing is shown
        ("a", {}, ([], False)),
        ("a", {"b": (50, [20, 21, 22])}, ([], False)),  # printed alike
        ("a", {"b": ("> 70", [20, 21, 22])}, ([], False)),  # a bound
        ("a", {"a": (1, [10, 10, 10]), "b": (2, UP)}, ([], True)),
        ("a", {"a": (1, [10, 10, 10]), "b": (2, UP), "c": (3, UP)}, ([], False)),
    ],
)
def test_order_among_the_methods_of_a_row(method, others, expected):
    numbers = {"a": A, **others}
    claims = {name: printed(number) for name, (number, _) in numbers.items()}
    values = {name: dict(enumerate(found)) for name, (_, found) in numbers.items()}
    assert order_of(method, claims, values, 99) == expected


UPLOADS, FINE, LOST = metric("uploads"), [0.2, 0.3], [NEVER] * 2


@pytest.mark.parametrize(
    ("relation", "of", "to", "wanted", "terms", "expected"),
    [
        (">", [51, 61, 71], [50, 60, 70.1], ACCURACY, (), REPRODUCED),  # noise in common is none
        (">", [50, 60, 71], [51, 60.2, 60], ACCURACY, (), NOISY),
        (">", [50, 60, 70], [51, 61, 71], ACCURACY, (), FAILED),
        ("~", [90, 91, 92], [91.9, 92.9, 93.9], ACCURACY, (), REPRODUCED),  # within 2 points
        ("~", [90, 91, 92], [92.1, 93.1, 94.1], ACCURACY, (), FAILED),
        ("~", [90, 91, 92], [90, 94, 91], ACCURACY, (), NOISY),
        (">=", [90, 90, 90], [90.5, 90.5, 90.5], ACCURACY, (1.0, -0.7), REPRODUCED),
        ("<", [60, 61, 62], [100, 101, 102], UPLOADS, (0.7,), REPRODUCED),
        ("<", [80, 81, 82], [100, 101, 102], UPLOADS, (0.7,), FAILED),
        ("<", [3], [4], ROUNDS, (), NOISY),  # one seed has no interval
        ("<", [10, 11, 12], [NEVER] * 3, ROUNDS, (), REPRODUCED),
        ("<", [40, NEVER], LOST, ROUNDS, (), NOISY),  # one of two seeds
        *((relation, LOST, LOST, ROUNDS, (), FAILED) for relation in ("<", "<=", "~", ">=", ">")),
        ("<", FINE, LOST, LOSS, (), REPRODUCED),
        (">", LOST, FINE, LOSS, (), REPRODUCED),
        ("<", LOST, FINE, LOSS, (), FAILED),
        ("~", LOST, FINE, LOSS, (), FAILED),
        ("~", LOST, LOST, LOSS, (), FAILED),
        ("<", [0.1, NEVER], LOST, LOSS, (), NOISY),  # not in every seed
        ("<", [NEVER], [NEVER], LOSS, (), NOISY),
    ],
)
def test_statements_go_by_paired_differences(relation, of, to, wanted, terms, expected):
    pair = dict(enumerate(of)), dict(enumerate(to))
    assert compare(wanted, relation, *pair, 100, *terms)[0].verdict == expected


def test_entries_of_a_row_and_runs_that_were_cut():
    runs = {
        "a": dict.fromkeys((0, 1), run(0.1, 0.8, 0.9)),
        "b": dict.fromkeys((0, 1), run(0.1, 0.2, 0.3)),
    }
    numbers = {"rounds_to(70)": {"a": 1, "b": None}, "test_accuracy": {"a": 90, "b": "~ 80"}}
    whole, cut = (
        {(e.metric, e.method): e.verdict for e in judge_numbers(numbers, runs, planned, "")}
        for planned in (2, 10)
    )
    first, second, accuracy = ("rounds_to(70)", "a"), ("rounds_to(70)", "b"), ("test_accuracy", "b")
    assert (whole[first], whole[second]) == (REPRODUCED, REPRODUCED)
    assert whole[accuracy] == DIRECTION, "below a, as printed"
    assert cut[first] == REPRODUCED, "reached in the rounds there were"
    assert (cut[second], cut[accuracy]) == (NOT_RUN, NOT_RUN)
    absent = judge_numbers(numbers, {}, 0, "no data: mnist")
    assert {(e.verdict, e.reason) for e in absent} == {(NOT_RUN, "no data: mnist")}
    unknown = judge_numbers({"accuracy_gap": {"a": 99}}, runs, 2, "")
    assert [e.verdict for e in unknown] == [NOT_RUN]


def test_speedups_without_two_numbers_count_as_not_reached():
    """b reaches 70 % in round 4 and twice as fast in a's seed 0; a misses it in seed 1."""
    slow = run(0.1, 0.2, 0.3, 0.4, 0.8)
    fast, missed = run(0.1, 0.2, 0.8, 0.8, 0.8), run(0.1, 0.2, 0.2, 0.2, 0.2)
    runs = {"a": {0: fast, 1: missed}, "b": {0: slow, 1: slow}}
    (entry,) = judge_numbers({"speedup(70,b)": {"a": 2.0}}, runs, 4, "")
    assert (entry.measured, entry.reached_share, entry.verdict) == (2.0, 0.5, FAILED)
    assert measured_text(entry) == "2 (1 of 2)"
    (cut,) = judge_numbers({"speedup(70,b)": {"a": 2.0}}, runs, 9, "")
    assert cut.verdict == NOT_RUN


def test_statements_of_a_row():
    runs = {"a": dict.fromkeys((0, 1), run(0.1, 0.8, 0.9)), "b": dict.fromkeys((0, 1), run(0.1, 0.2, 0.8))}  # fmt: skip
    faster = Statement(says="a is faster", of="a", relation="<", to="b")
    gaps = Statement(says="a gap", metric="test_accuracy", of="a - b", relation=">", to="b - a")
    claims, numbers = [faster, gaps, Statement(says="only words")], {"rounds_to(70)": {"a": 1}}
    first, gap, words = judge_statements(claims, numbers, runs, 2, "")
    assert (first.verdict, first.metric, first.measured) == (REPRODUCED, "rounds_to(70)", -1)
    assert (gap.verdict, gap.measured) == (REPRODUCED, pytest.approx(20)), "10 points and -10"
    assert words.verdict == NOT_RUN
    assert [s.verdict for s in judge_statements(claims, numbers, {}, 0, "no data")] == [NOT_RUN] * 3
