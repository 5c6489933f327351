"""The audit of a search: its facts, against numbers computed by hand, and what counts as a finding."""

import pytest

from reports.leaderboard.audit import Audit, Edge, audit, combined, findings, wider
from tests.support.boards import searched
from trials.algorithm import Range

LR = Range("float", 0.01, 10.0, log=True)
SHARE = Range("float", 0.0, 1.0, at_least=0, at_most=1)
LINEAR = Range("float", 0.0, 10.0)


def kinds(facts):
    return [finding.kind for finding in findings(facts)]


# 0.01..10 has three decades: 5 % of them is a factor of 10^0.15 = 1.4125.
@pytest.mark.parametrize(
    ("spec", "value", "end", "found"),
    [
        *((LR, 7.079, None, []), (LR, 7.08, "high", ["edge"]), (LR, 30.0, "high", ["edge"])),
        *((LR, 0.0142, None, []), (LR, 0.0141, "low", ["edge"])),
        *((LINEAR, 0.5, "low", ["edge"]), (LINEAR, 0.51, None, [])),
        (SHARE, 0.99, "high", []),  # beyond which nothing has a meaning
        (Range("choice", choices=("a", "b")), "a", None, []),
    ],
)
def test_a_winner_within_5_percent_of_an_end_is_at_an_edge(spec, value, end, found):
    facts = audit(searched(*[0.5] * 20), 0, {"x": value}, {"x": spec, "absent": LR}, [], 1)
    assert [edge.end for edge in facts.edges] == ([end] if end else [])
    assert kinds(facts) == found


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


@pytest.mark.parametrize(
    ("values", "ends", "space", "noise", "found"),
    [
        ([0.50] * 9 + [0.53], "finished", {}, [0.50, 0.52], ["rising"]),
        ([0.50] * 9 + [0.53], "finished", {}, [0.50, 0.58], []),  # within the seeds' noise
        ([0.5, 0.9, None, 0.8], ["finished", "diverged", "failed", "pruned"], {}, [], ["diverged"]),
        ([0.5] * 19, "finished", {"a": LR, "b": LR}, [], ["few"]),
        ([0.5] * 20, "finished", {"a": LR, "b": LR}, [], []),
        ([0.5] * 9, "finished", None, [], []),  # what was not recorded is not made up
    ],
)
def test_findings(values, ends, space, noise, found):
    assert kinds(audit(searched(*values, status=ends), len(values) - 1, {}, space, noise, 1)) == found  # fmt: skip


def test_all_that_may_have_cost_a_method_something_is_found():
    edges = (Edge("lr", 9.9, 0.01, 10.0, "high", wider=(0.01, 100.0)),)
    assert kinds(Audit(3, 16, 0.5, edges, 0.02, 0.01, 0.005, 0)) == ["edge", "rising", "diverged", "few"]  # fmt: skip


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


def test_a_row_that_was_tuned_several_times_has_the_means():
    first = audit(searched(0.90, 0.80), 0, {"lr": 9.9}, {"lr": LR}, [0.90, 0.94], 1)
    second = audit(searched(0.90, 0.86), 0, {"lr": 0.01}, {"lr": LR}, [], 1)
    found = combined([first, second])
    assert (found.trials, found.hyperparameters) == (2, 1)
    assert found.margin == pytest.approx((0.10 + 0.04) / 2)
    assert found.noise == pytest.approx(0.04 / 2**0.5)
    assert combined([]).trials == 0


@pytest.mark.parametrize(("n", "least"), [(1, 1), (2, 2), (7, 2), (8, 3), (16, 3)])
def test_an_edge_counts_where_more_winners_are_at_it_than_chance_puts_there(n, least):
    """By hand for n = 8: P(2 or more) = 1 - 0.95^8 - 8 0.05 0.95^7 = 0.057, P(3 or more) = 0.0058."""
    high = audit(searched(0.9, 0.8), 0, {"lr": 9.9}, {"lr": LR}, [], 1)
    inside = audit(searched(0.9, 0.8), 0, {"lr": 0.3}, {"lr": LR}, [], 1)
    for k in range(1, n + 1):
        found = combined([high] * k + [inside] * (n - k)).edges
        assert [edge.end for edge in found] == ["high"] * (k >= least), k
