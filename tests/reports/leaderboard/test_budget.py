"""What fewer trials would have chosen: by hand, and by trying all subsets."""

from itertools import combinations
from statistics import fmean
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.leaderboard.budget import budgets, expected_best
from reports.wording.words import budget_text, tuning_notes
from trials.run.scenario import Scenario

PLACE = Scenario("digits", "logreg", "iid")
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


def test_who_leads_at_which_budget():
    """Safe trials lead where there is one to choose from, a wide search from two on."""
    safe, wide = [(0.6, 0.6)] * 3, [(0.1, 0.1), (0.7, 0.7), (0.9, 0.9)]
    found = budgets("night", PLACE, {"safe": [safe], "wide": [wide]}, 1)
    assert found.expected["wide"] == pytest.approx((1.7 / 3, 2.5 / 3, 0.9))
    assert found.leads == ((1, "safe"), (2, "wide"))
    assert found.settled == 2
    assert budget_text(found) == (
        "By the search trials alone, safe would be expected to lead with a search of 1 trial; from 2 on, wide. "
        "Their order is settled from 2 of 3 trials on."
    )
    assert found.low["wide"] == (None,) * 3, "one tuning has no band"


def test_a_method_alone_leads_nobody():
    row = SimpleNamespace(sweep="night", scenario=PLACE, metric="score", selected=None, rank=1)
    for methods in ({"a": [[(0.5, 0.5)]]}, {"a": [[(0.5, 0.5)]], "b": [[(0.4, 0.4)]]}):
        found = budgets("night", PLACE, methods, 1)
        said = tuning_notes(SimpleNamespace(budgets=(found,)), [row])
        assert any("expected to lead" in text for text in said) == (len(methods) > 1)


def test_bands_are_over_tunings_and_errors_rank_the_other_way():
    tunings = [[(-0.3, -0.3), (-0.2, -0.2)], [(-0.5, -0.5), (-0.4, -0.4)]]
    found = budgets("night", PLACE, {"a": tunings, "b": [[(-0.9, -0.9)] * 2]}, -1)
    assert found.expected["a"] == pytest.approx((0.35, 0.3))
    assert found.low["a"][0] < 0.35 < found.high["a"][0]
    assert found.leads == ((1, "a"),)


def test_a_ranking_that_still_changes_is_said():
    late = [(0.1, 0.1), (0.2, 0.2), (0.99, 0.99)]
    found = budgets("night", PLACE, {"late": [late], "even": [[(0.8, 0.8)] * 3]}, 1)
    assert found.settled == 3
    assert budget_text(found) == (
        "By the search trials alone, even would be expected to lead with a search of 1 trial; from 3 on, late. "
        "Their order still changes at the last of 3 trials: they are too few."
    )
    assert budgets("night", PLACE, {"a": []}, 1) is None
