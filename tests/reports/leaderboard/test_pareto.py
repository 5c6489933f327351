"""Fronts and knees, against brute force and by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.leaderboard.pareto import front, knee

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)


@given(POINTS, st.booleans())
def test_a_front_is_what_no_other_point_beats(points, maximize):
    scores, costs = [s for s, _ in points], [c for _, c in points]
    sign = 1 if maximize else -1

    def beats(a: tuple[int, int], b: tuple[int, int]) -> bool:
        no_worse = sign * a[0] >= sign * b[0] and a[1] <= b[1]
        return no_worse and a != b

    expected = {p for p in points if not any(beats(q, p) for q in points)}
    found = front(scores, costs, maximize)
    assert {points[i] for i in found} == expected
    assert len(found) == len(expected), "equal points are one, the earliest"
    assert all(i == points.index(points[i]) for i in found)
    assert [costs[i] for i in found] == sorted(costs[i] for i in found)


def test_a_knee_by_hand():
    """Scaled gains: scores 0, 0.8, 0.9, 1; costs 0, 0.2, 0.5, 1: 0.8 - 0.2 is the most."""
    assert knee([0.1, 0.5, 0.55, 0.6], [10, 12, 15, 20]) == 1
    assert knee([0.6, 0.2, 0.15, 0.1], [10, 12, 15, 20]) == 1, "less is better"


@pytest.mark.parametrize(
    ("scores", "costs"),
    [
        ([], []),
        ([0.5], [1]),
        ([0.1, 0.9], [1, 2]),
        ([0, 0.5, 1], [0, 1, 2]),
        ([0, 0.2, 1], [0, 1, 2]),
    ],
)
def test_no_knee_where_nothing_lies_above_the_line_between_the_ends(scores, costs):
    assert knee(scores, costs) is None


@given(
    st.lists(st.tuples(st.integers(0, 64), st.integers(1, 64)), min_size=3, max_size=10),
    st.sampled_from([0.125, 2.0, 1024.0]),
    st.sampled_from([0.25, 8.0]),
)
def test_units_do_not_move_the_knee(points, scale, other):
    """Powers of two scale without rounding."""
    scores, costs = [s for s, _ in points], [c for _, c in points]
    kept = front(scores, costs, True)
    scores, costs = [scores[i] for i in kept], [costs[i] for i in kept]
    assert knee(scores, costs) == knee([s * scale for s in scores], [c * other for c in costs])
