"""Charts of scores: intervals, and a heat map; lines are in `line_charts`.

A chart is a Vega-Lite specification, plain data: the page draws it in the browser, where it answers to the
mouse, and `reports.charts.drawing` draws the same one as SVG, PNG and PDF. Charts of several algorithms have the
parameter `shown` (the algorithms that are drawn) and, where there are leaders to look at, `scope`: a key of
the parameter `spans`, the ranges of the vertical axis.
"""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from reports.charts.style import (
    PAPER,
    WIDTH,
    Look,
    Spec,
    number,
    scale,
    top,
)
from reports.leaderboard.board import Row
from reports.wording.words import short, title_of

SHADES = ["#eef4fb", "#08519c"]
"""A heat map's, from far behind the best to it."""
LIGHT = 0.76
"""The shade from which text on it is white: contrast is at least 4.5 on all."""


def dots(rows: Sequence[Row], look: Look) -> Spec:
    """Scores and their intervals, best first."""
    values = [
        {
            "algorithm": short(row.algorithm),
            "mean": number(row.mean),
            "low": number(row.mean if row.ci_low is None else row.ci_low),
            "high": number(row.mean if row.ci_high is None else row.ci_high),
        }
        for row in rows
    ]
    across: Spec = {"type": "quantitative", "title": title_of(rows[0].metric)}
    across |= {"scale": {"zero": False}, "axis": {"tickCount": 5}}
    place: Spec = {"y": {"field": "algorithm", "type": "nominal", "sort": None, "title": None}}
    place["color"] = scale(look, "color")
    ends = {"x": {**across, "field": "low"}, "x2": {"field": "high"}}
    return top(
        {
            "width": WIDTH,
            "height": {"step": 22},
            "data": {"values": values},
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


def heat(
    scores: Sequence[Sequence[float | None]], rows: Sequence[str], columns: Sequence[str]
) -> Spec:
    """Scores of algorithms (rows) in scenarios (columns); the deeper the nearer to the scenario's best."""
    table = np.array([[np.nan if v is None else v for v in row] for row in scores], float)
    behind = np.nanmax(table, axis=0) - table
    span = float(np.nanquantile(behind, 0.9)) or 1.0
    names = [short(name) for name in rows]
    values = [
        {
            "algorithm": names[i],
            "level": columns[j],
            "score": number(abs(table[i, j])),
            "near": number(1 - min(1.0, behind[i, j] / span)),
        }
        for i, j in product(range(len(rows)), range(len(columns)))
        if math.isfinite(table[i, j])
    ]
    shade: Spec = {"field": "near", "type": "quantitative", "legend": None}
    shade["scale"] = {"domain": [0, 1], "range": SHADES, "interpolate": "rgb"}
    light = {"condition": {"test": f"datum.near > {LIGHT}", "value": "#ffffff"}, "value": "#000000"}
    wide = max(64, 7 * max(map(len, columns), default=0))
    return top(
        {
            "width": {"step": min(wide, 150)},
            "height": {"step": 26},
            "data": {"values": values},
            "encoding": {
                "y": {"field": "algorithm", "sort": names, "title": None, "axis": {"grid": False}},
                "x": {
                    "field": "level", "sort": list(columns), "title": None,
                    "axis": {"orient": "top", "labelAngle": 0, "labelLimit": 145, "grid": False},
                },
            },
            "layer": [
                {
                    "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 2},
                    "encoding": {"color": shade, "tooltip": [
                        {"field": "algorithm"}, {"field": "level"},
                        {"field": "score", "type": "quantitative", "format": ".4f"},
                    ]},
                },
                {
                    "mark": {"type": "text"},
                    "encoding": {
                        "text": {"field": "score", "type": "quantitative", "format": ".3f"},
                        "color": light,
                    },
                },
            ],
        }
    )  # fmt: skip
