"""Colours, ranges and numbers of charts."""

import math

import pandas as pd
import pytest

from reports.charts import charts as line_charts, style
from tests.support.boards import searched
from trials.algorithms import ALGORITHMS


@pytest.mark.parametrize(
    ("better", "ends", "span"),
    [
        (1, (0.9, 0.8, 0.7, 0.1), (0.7 - 0.006, 0.9 + 0.006)),
        (-1, (0.1, 0.2, 0.2, 0.9), (-0.0066, 0.22 + 0.0066)),
        (1, (math.nan,), (0.0, 1.0)),
    ],
)
def test_the_vertical_axis_shows_the_better_three_or_half(better, ends, span):
    traces = [line_charts.Trace(str(i), (0, 1, 2), (0.0, end, end)) for i, end in enumerate(ends)]
    assert line_charts.leaders_span(traces, better) == pytest.approx(span)


def test_a_method_looks_alike_in_every_order_and_only_references_are_grey():
    names = ["folb", "fedavg", "local_only", "fedprox"]
    one, other = (style.styles(given, {"local_only"}) for given in (names, names[::-1]))
    assert {**one} == {**other}
    assert list(one) == names, "in the order of the page"
    assert [name for name, (hue, _) in one.items() if hue == style.GREY] == ["local_only"]


def test_a_method_has_one_colour_whatever_stands_beside_it():
    alone, beside = (
        style.styles(["fedavg", "mine.py:Mine"]),
        style.styles(["scaffold", *ALGORITHMS]),
    )
    assert alone["fedavg"] == beside["fedavg"]
    assert len(set(map(str, beside.values()))) == len(ALGORITHMS), "no two of the project's alike"
    others = style.styles(["fedavg", *(f"m{i}.py:M{i}" for i in range(29))])
    assert others["fedavg"] == alone["fedavg"]
    assert len(set(map(str, others.values()))) == 30
    first = style.styles(style.FIRST).values()
    assert {hue for hue, _ in first} == set(style.HUES)
    assert {dash for _, dash in first} == {style.DASHES[0]}


def test_best_so_far_by_hand():
    ends = ["failed", "finished", "pruned", "finished", "finished"]
    tried = searched(None, 0.3, 0.9, 0.2, 0.5, status=ends)[::-1]
    up, down = (line_charts.best_so_far(tried, up) for up in (True, False))
    assert (math.isnan(up[0]), up[1:]) == (True, [0.3, 0.3, 0.3, 0.5])
    assert down[1:] == [0.3, 0.3, 0.2, 0.2]


def test_several_searches_of_an_entry_are_averaged_by_their_own_trials():
    """Two tunings of two trials are a budget of two, not of four."""
    tried = pd.concat([searched(0.2, 0.4), searched(0.8, 0.6, replicate="t1")])
    assert line_charts.best_so_far(tried, up=True) == pytest.approx([0.5, 0.6])
