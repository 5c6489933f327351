"""Published against measured: a plot for each paper and unit, a dot a number."""

from collections.abc import Iterable, Mapping
from typing import Any

from reports.charts.style import FAINT, HUES, INK, Spec, number, top

SIDE, COLUMNS = 170, 3
"""Pixels of a plot, and plots beside each other."""
LOOKS = {
    "reproduced": (HUES[2], "circle"),
    "direction only": (HUES[1], "triangle-up"),
    "not reproduced": (HUES[3], "cross"),
    "too noisy to say": (HUES[0], "diamond"),
}
"""Colour and shape of each verdict."""


def published(drawn: Iterable[tuple[str, Mapping[str, Any]]]) -> Spec:
    """Draw papers' numbers beside the measured ones, as `reports.claims.summary_page.drawn` gives them: percents and
    points on even scales, all else on logarithmic ones. What has no unit has a plot for each metric.
    """
    plots: dict[tuple[str, str], list[Spec]] = {}
    for paper, dot in drawn:
        where = f"{dot['table']}/{dot['row']}, {dot['method']}: {dot['metric']}"
        point = {"x": number(dot["value"]), "y": number(dot["measured"]), "number": where}
        unit = dot["unit"] or dot["metric"].replace("_", " ")
        plots.setdefault((paper, unit), []).append({**point, "verdict": dot["verdict"]})
    return top(
        {
            "columns": COLUMNS,
            "concat": [_plot(*name, points) for name, points in plots.items()],
            "resolve": {"scale": {"color": "shared", "shape": "shared"}},
        }
    )


def _plot(paper: str, unit: str, points: list[Spec]) -> Spec:
    values = [point[axis] for point in points for axis in ("x", "y")]
    log = unit not in ("%", "points") and min(values) > 0
    low, high = min(values), max(values)
    room = 0.03 * (high - low) or 1.0
    ends = [low / 1.2, high * 1.2] if log else [low - room, high + room]
    scale = {"type": "log" if log else "linear", "domain": ends, "nice": False, "zero": False}
    shared = {"type": "quantitative", "scale": scale, "axis": {"tickCount": 4, "format": "~g"}}
    place: Spec = {
        "x": {"field": "x", "title": "published", **shared},
        "y": {"field": "y", "title": "measured", **shared},
    }
    verdict: Spec = {"field": "verdict", "type": "nominal"}
    verdict["legend"] = {"orient": "bottom", "title": None, "labelColor": INK}
    hues, shapes = ([look[part] for look in LOOKS.values()] for part in (0, 1))
    look = {
        "color": {**verdict, "scale": {"domain": list(LOOKS), "range": hues}},
        "shape": {**verdict, "scale": {"domain": list(LOOKS), "range": shapes}},
        "tooltip": [{"field": field} for field in ("number", "verdict", "x", "y")],
    }
    line = {"type": "line", "color": FAINT, "strokeWidth": 1}
    dots = {"type": "point", "filled": True, "size": 30, "opacity": 0.75}
    equal = [{"x": end, "y": end} for end in ends]
    return {
        "title": f"{paper}, {unit}",
        "width": SIDE,
        "height": SIDE,
        "layer": [
            {"data": {"values": equal}, "mark": line, "encoding": place},
            {"data": {"values": points}, "mark": dots, "encoding": {**place, **look}},
        ],
    }
