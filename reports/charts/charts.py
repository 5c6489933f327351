"""Charts of scores: intervals, and average ranks; lines are in `line_charts`.

A chart is a Vega-Lite specification, plain data: the page draws it in the browser, where it answers to the
mouse, and `reports.charts.drawing` draws the same one as SVG, PNG and PDF. Shares are in percent, as in tables.
"""

from collections.abc import Sequence

from reports.charts.style import WIDTH, Look, Spec, number, scale, top
from reports.leaderboard.board import Row
from reports.leaderboard.statistics import Across
from reports.wording.words import head_of, percent, short


def unit(metric: str) -> int:
    """Return the factor by which charts show scores of a metric."""
    return 100 if percent(metric) else 1


def dots(rows: Sequence[Row], look: Look) -> Spec:
    """Draw scores and their intervals, best first."""
    factor = unit(rows[0].metric)
    values: list[tuple[str, float, float, float]] = []
    for row in rows:
        low = row.mean if row.ci_low is None else row.ci_low
        high = row.mean if row.ci_high is None else row.ci_high
        values.append((row.algorithm, factor * row.mean, factor * low, factor * high))
    return _intervals(values, look, head_of(rows[0].metric))


def ranks(across: Across, look: Look) -> Spec:
    """Draw average ranks over families of data sets and their intervals, best first."""
    values = [
        (name, across.ranks[i], across.rank_low[i], across.rank_high[i])
        for i, name in enumerate(across.algorithms)
    ]
    return _intervals(values, look, "average rank")


def _intervals(values: Sequence[tuple[str, float, float, float]], look: Look, title: str) -> Spec:
    """Draw points (algorithm, mean, low, high) with the lines between their ends, one below the other."""
    points = [
        {"algorithm": short(name), "mean": number(mean), "low": number(low), "high": number(high)}
        for name, mean, low, high in values
    ]
    across: Spec = {"type": "quantitative", "title": title}
    across |= {"scale": {"zero": False}, "axis": {"tickCount": 5}}
    place: Spec = {"y": {"field": "algorithm", "type": "nominal", "sort": None, "title": None}}
    place["color"] = {**scale(look, "color"), "legend": None}
    ends = {"x": {**across, "field": "low"}, "x2": {"field": "high"}}
    return top(
        {
            "width": WIDTH,
            "height": {"step": 22},
            "data": {"values": points},
            "encoding": place,
            "layer": [
                {"mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5}, "encoding": ends},
                {
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                    "encoding": {"x": {**across, "field": "mean"}},
                },
            ],
        }
    )
