"""All charts: intervals, average ranks, curves of test scores, best score against search trials, published against measured.

A chart is a Vega-Lite specification, which is plain data. A page draws it in the browser, where it reacts to the mouse;
`reports.charts.drawing` draws the same specification as SVG, PNG and PDF. Shares are shown in percent, as in tables.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from reports.charts.style import (
    FAINT,
    HEIGHT,
    HUES,
    INK,
    LEADERS,
    WIDTH,
    Look,
    Spec,
    number,
    scale,
    top,
)
from reports.leaderboard.board import Curve, Row
from reports.leaderboard.replication import Draw, mean_of
from reports.leaderboard.statistics import Across
from reports.wording.words import head_of, percent, short
from trials.scoring.metrics import direction, sign

if TYPE_CHECKING:
    import pandas as pd


def unit(metric: str) -> int:
    """Return the factor by which charts multiply a metric's scores: 100 if they are shown in percent, else 1."""
    return 100 if percent(metric) else 1


def dots(rows: Sequence[Row], look: Look) -> Spec:
    """Return a chart of the rows' mean scores with 95 % intervals, in the order of the rows."""
    factor = unit(rows[0].metric)
    values: list[tuple[str, float, float, float]] = []
    for row in rows:
        low = row.mean if row.ci_low is None else row.ci_low
        high = row.mean if row.ci_high is None else row.ci_high
        values.append((row.algorithm, factor * row.mean, factor * low, factor * high))
    return _intervals(values, look, head_of(rows[0].metric))


def ranks(across: Across, look: Look) -> Spec:
    """Return a chart of average ranks with 95 % intervals, best first. Ranks are averaged over families of data sets."""
    ends = across.rank_low, across.rank_high
    values = zip(across.algorithms, across.ranks, *ends, strict=True)
    return _intervals([*values], look, "average rank")


def _intervals(values: Sequence[tuple[str, float, float, float]], look: Look, title: str) -> Spec:
    """Return a chart with a row per algorithm: a point at `mean`, and a line from `low` to `high`. `values` are (name, mean, low, high)."""
    points = []
    for name, *numbers in values:
        place = zip(("mean", "low", "high"), map(number, numbers), strict=True)
        points.append({"algorithm": short(name), **dict(place)})
    across: Spec = {"type": "quantitative", "title": title}
    across |= {"scale": {"zero": False}, "axis": {"tickCount": 5}}
    rows: Spec = {"y": {"field": "algorithm", "type": "nominal", "sort": None, "title": None}}
    rows["color"] = {**scale(look, "color"), "legend": None}
    ends = {"x": {**across, "field": "low"}, "x2": {"field": "high"}}
    return top(
        {
            "width": WIDTH,
            "height": {"step": 22},
            "data": {"values": points},
            "encoding": rows,
            "layer": [
                {"mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5}, "encoding": ends},
                {
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                    "encoding": {"x": {**across, "field": "mean"}},
                },
            ],
        }
    )


Span = tuple[float, float]


@dataclass(frozen=True)
class Trace:
    """The curve of one algorithm: `y` at each `x`, with a band from `low` to `high` if it has one."""

    algorithm: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def lines(
    traces: Sequence[Trace],
    look: Look,
    titles: tuple[str, str],
    better: int,
    interpolate: str = "linear",
) -> Spec:
    """Return a chart of curves with their bands. `titles` names the horizontal and the vertical axis. `better` is 1 if
    larger values are better, and -1 if smaller values are. The vertical axis fits the leading curves. On a page, Shift with
    the mouse wheel zooms out to the other curves.
    """
    span = leaders_span(traces, better)
    points = []
    for trace in traces:
        low, high = trace.low or trace.y, trace.high or trace.y
        for x, y, *ends in zip(trace.x, trace.y, low, high, strict=True):
            if math.isfinite(y):
                numbers = map(number, (x, y, *ends))
                place = zip(("x", "y", "low", "high"), numbers, strict=True)
                points.append({"algorithm": short(trace.algorithm), **dict(place)})
    return top(
        {
            "width": WIDTH,
            "height": HEIGHT,
            "title": titles[1],
            "params": [{"name": "shown", "value": [*map(short, look)]}],
            "data": {"values": points},
            "transform": [{"filter": "indexof(shown, datum.algorithm) >= 0"}],
            "layer": _layers(look, titles, span, interpolate),
        }
    )


def _layers(look: Look, titles: tuple[str, str], span: Span, interpolate: str) -> list[Spec]:
    """Return a chart's layers: bands, lines, and a point with a tooltip where a curve is nearest to the pointer."""
    across: Spec = {"field": "x", "type": "quantitative", "title": titles[0]}
    across |= {"scale": {"nice": False, "zero": False}, "axis": {"grid": False, "tickCount": 6}}
    up: Spec = {"type": "quantitative", "title": None, "axis": {"tickCount": 5}}
    up |= {"scale": {"domain": list(span), "zero": False, "nice": False}}
    y = {**up, "field": "y"}
    near = {"type": "point", "on": "pointerover", "nearest": True, "clear": "pointerout"}
    zoom = {"type": "interval", "zoom": "wheel![event.shiftKey]"}  # the wheel alone moves the page
    opacity = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
    # A point is nested as `datum` in the area around it, where Vega-Lite's own tooltips would not find its fields.
    it = "(datum.datum || datum)"
    half = f"({it}.high - {it}.low) / 2"
    score = f"format({it}.y, '.4~g') + ({half} > 0 ? ' ± ' + format({half}, '.2~g') : '')"
    x_title, y_title = map(json.dumps, titles)
    texts = f"'algorithm': {it}.algorithm, {x_title}: {it}.x, {y_title}: {score}"
    layers: list[Spec] = [
        {
            "mark": {"type": "area", "opacity": 1, "fillOpacity": 0.14, "clip": True},
            "encoding": {"y": {**up, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "clip": True, "interpolate": interpolate},
            "encoding": {"y": y, "strokeDash": scale(look, "strokeDash")},
        },
        {
            "params": [
                {"name": "near", "select": near},
                {"name": "zoom", "select": zoom, "bind": "scales"},
            ],
            "mark": {
                "type": "point",
                "filled": True,
                "clip": True,
                "size": 60,
                "tooltip": {"signal": f"{{{texts}}}"},
            },
            "encoding": {"y": y, "opacity": opacity},
        },
    ]
    for layer in layers:
        layer["encoding"] = {"color": scale(look, "color"), **layer["encoding"], "x": across}
    return layers


def leaders_span(traces: Sequence[Trace], better: int) -> Span:
    """Return the ends of a vertical axis that shows the last two thirds of the leading curves and bands. The leading curves
    are the half with the best last finite values, but at least three. If less is better, the axis reaches from 0 to a little
    above the 95 % quantile of the values, since errors may start very high. Without any values the ends are (0, 1).
    """
    ended = []
    for trace in traces:
        last = next(filter(math.isfinite, reversed(trace.y)), None)
        ended += [] if last is None else [(-better * last, trace)]
    values: list[float] = []
    for _, trace in sorted(ended, key=itemgetter(0))[: max(3, round(LEADERS * len(ended)))]:
        for part in (trace.y, trace.low, trace.high):
            values += filter(math.isfinite, (part or ())[len(trace.y) // 3 :])
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if better < 0:
        low, high = min(0.0, low), float(np.quantile(values, 0.95)) * 1.1
    room = 0.03 * (high - low) or 0.01  # also where all are equal
    return low - room, high + room


def curves(runs: Sequence[Curve], look: Look, metric: str, against: str) -> Spec:
    """Return a chart of each algorithm's mean test score, with its 95 % interval, over `against`: "rounds" or "bytes" (in MB)."""
    traces = []
    for name in dict.fromkeys(curve.algorithm for curve in runs):
        seeds = [curve for curve in runs if curve.algorithm == name]
        draws = [Draw(*curve.replicate, curve.seed) for curve in seeds]
        numbers = []
        # zip ends with the shortest run, since only evaluations that all runs have can be averaged.
        for scores in zip(*(curve.scores for curve in seeds), strict=False):
            estimate = mean_of(dict(zip(draws, scores, strict=True)))
            numbers.append((estimate.mean, estimate.half() or 0.0))
        means, half = np.array(numbers).reshape(-1, 2).T * unit(metric)
        x: Sequence[float] = seeds[0].rounds[: len(means)]
        if against != "rounds":
            sent = zip(*(curve.sent_bytes[: len(means)] for curve in seeds), strict=True)
            x = [fmean(step) / 1e6 for step in sent]
        bands = ((means - half).tolist(), (means + half).tolist())
        traces.append(Trace(name, x, means.tolist(), *bands))
    title = "rounds" if against == "rounds" else "MB sent, all directions"
    return lines(traces, look, (title, head_of(metric)), sign(direction(metric)))


def budget(best: Mapping[str, Sequence[float]], look: Look, metric: str) -> Spec:
    """Return a chart of each algorithm's best validation score so far against the number of search trials."""
    traces = []
    for name, values in best.items():
        scores = [unit(metric) * value for value in values]
        traces.append(Trace(name, range(1, len(values) + 1), scores))
    titles = ("search trials", f"best validation score{' %' * (unit(metric) > 1)}")
    return lines(traces, look, titles, sign(direction(metric)), "step-after")


def best_so_far(trials: "pd.DataFrame", up: bool) -> list[float]:
    """Return the best validation score after 1, 2, ... trials, as the mean over repeated searches. Only trials that finished
    all rounds count; before the first such trial the score is NaN. `up` says that larger scores are better.
    """
    # Pruned and diverged trials have no score at full rounds, so the best score stays as it was.
    curves = []
    for _, search in trials.sort_values("number").groupby("replicate"):
        scores = search["val_score"].astype(float).where(search["status"] == "finished")
        curves.append((scores.cummax() if up else scores.cummin()).ffill())
    return list(map(fmean, zip(*curves, strict=False)))


SIDE, COLUMNS = 170, 3
"""The size of a plot in pixels, and the number of plots in a row of the figure."""
LOOKS = {
    "reproduced": (HUES[2], "circle"),
    "direction only": (HUES[1], "triangle-up"),
    "not under these settings": (HUES[3], "cross"),
    "too noisy to say": (HUES[0], "diamond"),
}
"""The colour and the shape of each verdict."""


def published(drawn: Iterable[tuple[str, Mapping[str, Any]]]) -> Spec:
    """Return a figure that plots measured against published numbers. Each paper has a plot for each unit (such as "%"), and
    one for each metric without a unit. `drawn` has pairs: a paper's name, and a number from that paper. A plot of
    percent or points, or with a value of 0 or less, has linear scales. The other plots have logarithmic scales.
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
    # Rounds to a target and losses span several powers of ten; percents do not.
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
    hues, shapes = map(list, zip(*LOOKS.values(), strict=True))
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
