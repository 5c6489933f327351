"""The critical-difference diagram: average ranks on a line, and what cannot be told apart."""

import math
from typing import Any

from reports.charts.style import HUES, INK, Spec, top
from reports.leaderboard.statistics import Across
from reports.wording.words import short

ROW, UNIT = 18, 62
"""Pixels of a row of text, and of one rank."""


def critical_difference(found: Across) -> Spec:
    """Average ranks on a line, best left; bars join what Nemenyi's test cannot tell apart."""
    k, ranks = len(found.algorithms), found.ranks
    half = math.ceil(k / 2)
    width = found.critical_difference or 0.0
    bars = _bars(ranks, width)
    rules: list[dict[str, Any]] = [_rule(1, k, 0), _rule(1, 1 + min(width, k - 1), -2.2, 1.6)]
    texts = [_text(tick, -0.7, str(tick), "center") for tick in range(1, k + 1)]
    rules += [_rule(tick, tick, -0.3, to=0) for tick in range(1, k + 1)]
    beyond = ", more than all ranks span" if width > k - 1 else ""
    texts.append(_text(1, -2.8, f"critical difference {width:.2f}{beyond}", "left"))
    rules += [
        _rule(ranks[i] - 0.04, ranks[j] + 0.04, 0.5 + 0.45 * place, 3.5, hue=HUES[3])
        for place, (i, j) in enumerate(bars)
    ]
    base = 0.9 + 0.45 * len(bars)
    points = []
    for i, (name, rank) in enumerate(zip(found.algorithms, ranks, strict=True)):
        left = i < half
        y = base + (i if left else k - 1 - i)
        end = 0.75 if left else k + 0.25
        rules += [_rule(rank, rank, 0, 0.8, to=y), _rule(rank, end, y, 0.8)]
        points.append({"x": rank, "y": 0, "algorithm": short(name), "rank": f"{rank:.2f}"})
        place = end + (-0.06 if left else 0.06)
        label = f"{short(name)} {rank:.2f}"
        texts.append(_text(place, y, label, "right" if left else "left"))
    return _spec(rules, texts, points, (0.75 - 2.2, k + 0.25 + 2.2, base + half - 0.4))


def _bars(ranks: tuple[float, ...], width: float) -> list[tuple[int, int]]:
    """First and last of each longest run of ranks that lie within `width`."""
    bars: list[tuple[int, int]] = []
    for i in range(len(ranks)):
        j = max(m for m in range(len(ranks)) if ranks[m] - ranks[i] <= width)
        if j > i and (not bars or j > bars[-1][1]):
            bars.append((i, j))
    return bars


def _rule(
    start: float, end: float, y: float, thick: float = 1.0, to: float | None = None, hue: str = INK
) -> dict[str, Any]:
    down = y if to is None else to
    return {"x": start, "x2": end, "y": y, "y2": down, "thick": thick, "hue": hue}


def _text(x: float, y: float, text: str, align: str) -> dict[str, Any]:
    return {"x": x, "y": y, "text": text, "align": align}


def _spec(
    rules: list[dict[str, Any]],
    texts: list[dict[str, Any]],
    points: list[dict[str, Any]],
    extent: tuple[float, float, float],
) -> Spec:
    left, right, bottom = extent
    top_row = -3.3
    x = {"field": "x", "type": "quantitative", "axis": None, "scale": {"domain": [left, right]}}
    y: Spec = {"field": "y", "type": "quantitative", "axis": None}
    y["scale"] = {"domain": [bottom, top_row], "nice": False}
    raw: Spec = {"type": "nominal", "scale": None}
    lines = {
        "x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "y2"},
        "color": {"field": "hue", **raw},
        "strokeWidth": {"field": "thick", "type": "quantitative", "scale": None},
    }  # fmt: skip
    told = [{"field": "algorithm"}, {"field": "rank", "title": "average rank"}]
    return top(
        {
            "width": round(UNIT * (right - left)),
            "height": round(ROW * (bottom - top_row)),
            "layer": [
                {"data": {"values": rules}, "mark": "rule", "encoding": lines},
                *(
                    {
                        "data": {"values": [t for t in texts if t["align"] == align]},
                        "mark": {"type": "text", "align": align},
                        "encoding": {"x": x, "y": y, "text": {"field": "text"}},
                    }
                    for align in ("left", "center", "right")
                ),
                {
                    "data": {"values": points},
                    "mark": {"type": "point", "filled": True, "size": 40, "color": INK},
                    "encoding": {"x": x, "y": y, "tooltip": told},
                },
            ],
        }
    )
