"""What fewer trials would have chosen: by hand, and by trying all subsets."""

from itertools import combinations
from math import inf
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.leaderboard.budget import Tuning, budgets, expected_best
from reports.leaderboard.replication import Draw, mean_of
from trials.run.scenario import Scenario

PLACE = Scenario("digits", "logreg", "iid")
FIRST, SECOND, THIRD = (0, 0, 0), (0, 0, 1), (0, 0, 2)
"""Replicates of a search."""


def once(*trials):
    """A search whose choice ran again and scored the same."""
    return Tuning({FIRST: trials}, {Draw(*FIRST, 1): max(trials)[1]})


SCORES = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=7, unique_by=lambda t: t[0]
)


@given(SCORES)
def test_the_expectation_is_the_mean_over_all_subsets(trials):
    for n, value in enumerate(expected_best(trials), 1):
        chosen = [max(subset)[1] for subset in combinations(trials, n)]
        assert value == pytest.approx(fmean(chosen), abs=1e-12)


def test_by_hand_what_validates_best_need_not_test_best():
    """Of two of three trials the best validated (test 0.6) is in 2 of 3, else the second (0.9) is."""
    trials = [(0.5, 0.1), (0.9, 0.6), (0.8, 0.9)]
    assert expected_best(trials) == pytest.approx([1.6 / 3, (2 * 0.6 + 0.9) / 3, 0.6])


def test_equal_validation_scores_share_their_test_scores():
    assert expected_best([(0.5, 0.2), (0.5, 0.8)]) == pytest.approx([0.5, 0.5])


def test_each_method_has_a_curve_and_none_has_none():
    safe, wide = [(0.6, 0.6)] * 3, [(0.1, 0.1), (0.7, 0.7), (0.9, 0.9)]
    found = budgets("night", PLACE, {"safe": once(*safe), "wide": once(*wide)}, 1)
    assert found.expected["safe"] == pytest.approx((0.6, 0.6, 0.6))
    assert found.expected["wide"] == pytest.approx((1.7 / 3, 2.5 / 3, 0.9))
    assert found.low["wide"] == (None,) * 3, "one tuning has no band"
    assert budgets("night", PLACE, {}, 1) is None


def test_bands_are_over_tunings_and_errors_rank_the_other_way():
    pairs = {FIRST: (-0.3, -0.2), SECOND: (-0.5, -0.4), THIRD: (-0.4, -0.3)}
    trials = {replicate: [(score, score) for score in of] for replicate, of in pairs.items()}
    tuned = Tuning(trials, {Draw(*replicate, 1): max(of) for replicate, of in pairs.items()})
    found = budgets("night", PLACE, {"a": tuned, "b": once(*[(-0.9, -0.9)] * 2)}, -1)
    assert found.expected["a"] == pytest.approx((0.35, 0.3))
    assert found.low["a"][0] < 0.35 < found.high["a"][0]
    assert found.low["b"] == (None, None), "one tuning has no band"


def test_a_trial_that_diverged_is_drawn_too():
    """One trial of three is the untrained model (0.1), behind whatever can be chosen: alone in 1 of 3 draws of one."""
    found = budgets("night", PLACE, {"a": once((0.5, 0.5), (-inf, 0.1), (0.8, 0.6))}, 1)
    assert found.expected["a"] == pytest.approx((1.2 / 3, (2 * 0.6 + 0.5) / 3, 0.6))


def test_a_search_that_ended_early_keeps_its_score():
    found = budgets("night", PLACE, {"a": once((0.5, 0.5)), "b": once((0.1, 0.1), (0.2, 0.2))}, 1)
    assert found.expected["a"] == (0.5, 0.5)


@given(
    st.dictionaries(
        st.tuples(*[st.integers(0, 2)] * 3),
        st.tuples(SCORES, st.lists(st.floats(0, 1), min_size=1, max_size=3)),
        min_size=1,
        max_size=6,
    )
)
def test_at_the_whole_budget_it_is_the_mean_in_the_table(replicates):
    """Whatever was drawn how often, and though the winner's own trial scored otherwise."""
    finals = {
        Draw(*replicate, seed): score
        for replicate, (_, scores) in replicates.items()
        for seed, score in enumerate(scores)
    }
    trials = {at: [*of, (inf, fmean(scores))] for at, (of, scores) in replicates.items()}
    found = budgets("night", PLACE, {"a": Tuning(trials, finals)}, 1)
    assert found.expected["a"][-1] == pytest.approx(mean_of(finals).mean, abs=1e-12)
