"""The audit of a search: its facts, against numbers computed by hand, and what counts as a finding."""

import pytest

from reports.leaderboard.audit import Audit, Edge, audit, combined, findings, wider
from tests.support.boards import searched
from trials.algorithm import Range

LR = Range("float", 0.01, 10.0, log=True)
SHARE = Range("float", 0.0, 1.0, at_least=0, at_most=1)


def kinds(facts):
    return [finding.kind for finding in findings(facts)]


# 0.01..10 has three decades: 5 % of them is a factor of 10^0.15 = 1.4125.
@pytest.mark.parametrize(
    ("lr", "end"),
    [
        *((7.0, None), (7.079, None), (7.08, "high"), (10.0, "high"), (30.0, "high")),
        *((0.0142, None), (0.0141, "low"), (0.001, "low"), (0.3, None)),
    ],
)
def test_a_winner_within_5_percent_of_an_end_is_at_an_edge(lr, end):
    facts = audit(searched(0.9, 0.5), 0, {"lr": lr}, {"lr": LR}, [], 1)
    assert [edge.end for edge in facts.edges] == ([end] if end else [])
    assert [f.kind for f in findings(facts)] == ["edge"] * bool(end) + ["few"]


def test_edges_are_measured_on_the_range_s_own_scale():
    linear = Range("float", 0.0, 10.0)
    (edge,) = audit(searched(0.9), 0, {"x": 0.5}, {"x": linear}, [], 1).edges
    assert edge == Edge("x", 0.5, 0.0, 10.0, "low", wider=(-10.0, 10.0))
    assert audit(searched(0.9), 0, {"x": 0.51}, {"x": linear}, [], 1).edges == ()


def test_an_end_beyond_which_nothing_has_a_meaning_is_an_edge_and_no_finding():
    facts = audit(searched(*[0.5] * 20), 0, {"e": 0.99}, {"e": SHARE}, [], 1)
    assert [(edge.end, edge.wider) for edge in facts.edges] == [("high", None)]
    assert findings(facts) == ()


def test_choices_and_hyperparameters_that_do_not_exist_have_no_edges():
    ranges = {"variant": Range("choice", choices=("a", "b")), "psi": LR}
    facts = audit(searched(0.9), 0, {"variant": "a"}, ranges, [], 1)
    assert (facts.edges, facts.hyperparameters) == ((), 2)


def test_margin_noise_and_how_many_are_as_good():
    """Seeds 0.90, 0.92, 0.94: standard deviation 0.02. Behind the winner by 0.01, 0.02 and 0.30."""
    facts = audit(searched(0.90, 0.91, 0.89, 0.61), 1, {}, {}, [0.90, 0.92, 0.94], 1)
    assert (facts.margin, facts.noise) == pytest.approx((0.01, 0.02))
    assert facts.as_good == 2
    errors = audit(searched(4.0, 3.0, 2.5), 2, {}, {}, [2.0, 3.0], -1)
    assert (errors.margin, errors.late_gain, errors.as_good) == (0.5, 0.5, 1)


@pytest.mark.parametrize(
    ("values", "gain"),
    [
        ([0.5] * 9 + [0.8], 0.3),  # of 10 trials the last tenth is one
        ([0.5] * 8 + [0.8, 0.5], 0.0),
        ([0.5] * 9 + [0.8, 0.5], 0.3),  # of 11 it is two
        ([0.5], None),
        ([0.9137529137529138] * 9 + [0.9137529137529139], 0.0),
    ],
)
def test_what_the_last_tenth_of_the_trials_gained(values, gain):
    found = audit(searched(*values), 0, {}, {}, [], 1).late_gain
    assert found == (None if gain is None else pytest.approx(gain))


def test_a_gain_within_the_seeds_noise_is_no_finding():
    values = [0.50] * 9 + [0.53]
    assert kinds(audit(searched(*values), 9, {}, {}, [0.50, 0.52], 1)) == ["rising"]
    assert kinds(audit(searched(*values), 9, {}, {}, [0.50, 0.58], 1)) == []


def test_trials_that_diverged_count_for_the_budget_and_not_for_the_scores():
    ends = ["finished", "diverged", "failed", "pruned"]
    facts = audit(searched(0.5, 0.9, None, 0.8, status=ends), 0, {}, {}, [], 1)
    assert (facts.trials, facts.diverged_share, facts.margin) == (4, 0.25, None)
    assert kinds(facts) == ["diverged"]


def test_ten_trials_a_hyperparameter_are_enough():
    assert kinds(audit(searched(*[0.5] * 19), 0, {}, {"a": LR, "b": LR}, [], 1)) == ["few"]
    assert kinds(audit(searched(*[0.5] * 20), 0, {}, {"a": LR, "b": LR}, [], 1)) == []


def test_what_was_not_recorded_is_not_made_up():
    facts = audit(searched(*[0.5] * 9), 0, {"lr": 10.0}, None, [], 1)
    assert (facts.hyperparameters, facts.edges) == (None, None)
    assert facts.noise is None
    assert findings(facts) == ()


@pytest.mark.parametrize(
    ("spec", "end", "span"),
    [
        (LR, "high", (0.01, 100.0)),
        (LR, "low", (0.001, 10.0)),
        (Range("float", 2.0, 4.0), "high", (2.0, 6.0)),
        (Range("float", 2.0, 4.0), "low", (1.0, 4.0)),
        (Range("float", 0.0, 4.0), "low", (-4.0, 4.0)),
        (Range("float", 0.0, 0.9, at_least=0, at_most=1), "high", (0.0, 0.95)),
        (Range("float", 0.5, 1.0, at_least=0), "low", (0.25, 1.0)),
    ],
)
def test_a_wider_range(spec, end, span):
    assert wider(spec, end) == pytest.approx(span)


def test_all_that_may_have_cost_a_method_something_is_found():
    edges = (Edge("lr", 9.9, 0.01, 10.0, "high", wider=(0.01, 100.0)),)
    facts = Audit(3, 16, 0.5, edges, 0.02, 0.01, 0.005, 0)
    assert kinds(facts) == ["edge", "rising", "diverged", "few"]


def test_a_row_that_was_tuned_several_times_has_the_means():
    first = audit(searched(0.90, 0.80), 0, {"lr": 9.9}, {"lr": LR}, [0.90, 0.94], 1)
    second = audit(searched(0.90, 0.86), 0, {"lr": 0.01}, {"lr": LR}, [], 1)
    found = combined([first, second])
    assert (found.trials, found.hyperparameters) == (2, 1)
    assert found.margin == pytest.approx((0.10 + 0.04) / 2)
    assert found.noise == pytest.approx(0.04 / 2**0.5)
    assert combined([first]) == first
    assert combined([]).trials == 0


@pytest.mark.parametrize(("n", "least"), [(1, 1), (2, 2), (7, 2), (8, 3), (16, 3)])
def test_an_edge_counts_where_more_winners_are_at_it_than_chance_puts_there(n, least):
    """By hand for n = 8: P(2 or more) = 1 - 0.95^8 - 8 0.05 0.95^7 = 0.057, P(3 or more) = 0.0058."""
    high = audit(searched(0.9, 0.8), 0, {"lr": 9.9}, {"lr": LR}, [], 1)
    inside = audit(searched(0.9, 0.8), 0, {"lr": 0.3}, {"lr": LR}, [], 1)
    assert inside.edges == ()
    for k in range(1, n + 1):
        found = combined([high] * k + [inside] * (n - k)).edges
        assert [edge.end for edge in found] == ["high"] * (k >= least), k
