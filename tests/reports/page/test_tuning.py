"""What a report says of searches, by hand: the best so far, and ranks by budget."""

import math

import pytest

from reports.charts import tuning
from reports.charts.data import TrialPoint


def test_best_so_far_by_hand():
    group = ("s", "d", "m", "iid", False)

    def trial(i, status, value):
        return TrialPoint(group, "a", i, status, value)

    ends = [
        ("failed", None),
        ("finished", 0.3),
        ("pruned", 0.9),
        ("finished", 0.2),
        ("finished", 0.5),
    ]
    found = tuning.best_so_far([trial(i, *end) for i, end in enumerate(ends)][::-1], up=True)
    assert math.isnan(found[0])
    assert found[1:] == [0.3, 0.3, 0.3, 0.5]
    found = tuning.best_so_far([trial(i, *end) for i, end in enumerate(ends)], up=False)
    assert found[1:] == [0.3, 0.3, 0.2, 0.2]


def test_several_searches_of_an_entry_are_averaged_by_their_own_trials():
    """Two tunings of two trials are a budget of two, not of four."""
    group = ("s", "d", "m", "iid", False)
    first, second = (
        [TrialPoint(group, "a", i, "finished", value, name) for i, value in enumerate(of)]
        for name, of in (("", (0.2, 0.4)), ("t1", (0.8, 0.6)))
    )
    assert tuning.best_so_far([*first, *second], up=True) == pytest.approx([0.5, 0.6])


def test_ranks_by_budget_by_hand():
    cells = {
        "x": {"a": [math.nan, 0.5, 0.9], "b": [0.4, 0.5, 0.5], "only here": [1, 1, 1]},
        "y": {"a": [0.1, 0.1, 0.3], "b": [0.2, 0.2, 0.2]},
    }
    assert tuning.ranks_by_budget(cells) == {"a": [2.0, 1.75, 1.0], "b": [1.0, 1.25, 2.0]}
    assert tuning.ranks_by_budget({}) == {}
