"""Charts as Vega-Lite specifications, one question each, coloured for every eye.

A specification is plain data: the page draws it in the browser, where it answers to the mouse, and
`reports.page.drawing` draws the same one as SVG, PNG and PDF. An algorithm has the same colour and dash in
all charts. Charts of several algorithms have the parameter `shown` (the algorithms that are drawn) and, where
there are leaders to look at, `scope`: a key of the parameter `spans`, the ranges of the vertical axis.
"""

import math
import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

import numpy as np

from reports.leaderboard.leaderboard import Row
from reports.leaderboard.pareto import Front
from reports.leaderboard.statistics import interval
from reports.leaderboard.wording import short, title_of
from reports.page.data import Curve
from trials.metrics import direction, sign

INK, FAINT, PAPER = "#1b1f24", "#c8ccd1", "#fffffe"
"""Text and axes; rules and grids; the background. Of no other use, so that a page can replace them."""
HUES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a8d91")
"""Okabe and Ito's colours that can be told from white and from black."""
DASHES = ((1, 0), (7, 2), (2, 2), (8, 2, 2, 2), (2, 5))
WIDTH, HEIGHT, LINE = 420, 240, 12
"""Pixels of a plot, and of a line of text in it."""
LEADERS = 0.5
"""The share of the algorithms, best first, that are the leaders."""

Spec = dict[str, Any]
T = TypeVar("T", bound=Hashable)
Look = Mapping[str, tuple[str, Sequence[int]]]
"""Colour and dash of each algorithm."""
Span = tuple[float, float]
CONFIG: Spec = {
    "font": "system-ui, 'DejaVu Sans', sans-serif",
    "background": PAPER,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK, "titleColor": INK, "titleFontWeight": "normal", "labelFontSize": 11,
        "titleFontSize": 11, "gridColor": FAINT, "gridWidth": 0.5, "domainColor": FAINT,
        "tickColor": FAINT,
    },
    "axisY": {"domain": False, "ticks": False},
    "title": {"color": INK, "fontSize": 11, "fontWeight": "normal", "anchor": "start", "offset": 8},
    "text": {"color": INK, "fontSize": 11},
    "line": {"strokeWidth": 1.8},
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A chart, its file name without ending, its title and what it says to who cannot see it."""

    name: str
    title: str
    alt: str
    spec: Spec


def styles(algorithms: Iterable[str]) -> Look:
    """Colour and dash of each algorithm."""
    pairs = [(hue, dash) for dash, hue in product(DASHES, HUES)]
    return {name: pairs[i % len(pairs)] for i, name in enumerate(dict.fromkeys(algorithms))}


def slug(text: str) -> str:
    """Text as part of a file name or an id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def top(spec: Spec) -> Spec:
    """A specification that stands alone."""
    schema = "https://vega.github.io/schema/vega-lite/v6.json"
    return {"$schema": schema, "config": CONFIG, **spec}


def scale(look: Look, what: str) -> Spec:
    """The encoding of algorithms as colours, or as dashes of lines; labels stand where lines end."""
    part = {"color": 0, "strokeDash": 1}[what]
    chosen = [style[part] for style in look.values()]
    scale = {"domain": [short(name) for name in look], "range": chosen}
    return {"field": "algorithm", "type": "nominal", "scale": scale, "legend": None}


SHOWN = {"filter": "indexof(shown, datum.algorithm) >= 0"}


def shown(names: Iterable[str]) -> Spec:
    """The parameter that says which algorithms are drawn."""
    return {"name": "shown", "value": [short(name) for name in names]}


@dataclass(frozen=True)
class Line:
    """What one algorithm has at each abscissa, with the interval around it where there is one."""

    algorithm: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    trial: str = ""
    """What tells several lines of an algorithm apart."""


def lines(
    found: Sequence[Line],
    look: Look,
    titles: tuple[str, str],
    spans: Mapping[str, Span],
    interpolate: str = "linear",
) -> Spec:
    """Lines with their bands and names at their ends; `titles` are those of the axes, across first, and
    `spans` what of the vertical axis can be shown, the usual one first.
    """
    across = {"field": "x", "type": "quantitative", "title": titles[0]}
    across |= {"scale": {"nice": False, "zero": False}, "axis": {"grid": False, "tickCount": 6}}
    bounds = {"domainMin": {"expr": "spans[scope][0]"}, "domainMax": {"expr": "spans[scope][1]"}}
    up = {"type": "quantitative", "title": None, "axis": {"tickCount": 5}}
    up |= {"scale": {"zero": False, "nice": False, **bounds}}
    near = {"name": "near", "select": {"type": "point", "on": "pointerover", "nearest": True}}
    near["select"] |= {"clear": "pointerout"}
    told = [
        {"field": "algorithm", "title": "algorithm"},
        {"field": "x", "type": "quantitative", "title": titles[0]},
        {"field": "said", "title": titles[1]},
    ]
    opacity = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
    band = {"y": {**up, "field": "low"}, "y2": {"field": "high"}}
    y = {**up, "field": "y"}
    layers: list[Spec] = [
        {"mark": {"type": "area", "opacity": 1, "fillOpacity": 0.14, "clip": True}, "encoding": band},
        {"mark": {"type": "line", "clip": True, "interpolate": interpolate}, "encoding": {"y": y}},
        {
            "params": [near],
            "mark": {"type": "point", "filled": True, "size": 60, "clip": True},
            "encoding": {"y": y, "opacity": opacity, "tooltip": told},
        },
        {
            "data": {"name": "ends"},
            "transform": [SHOWN, {"calculate": "datum.at[scope]", "as": "label"}]
            + [{"filter": "isValid(datum.label)"}],
            "mark": {"type": "text", "align": "left", "dx": 6},
            "encoding": {"y": {**up, "field": "label"}, "text": {"field": "algorithm"}},
        },
    ]
    if all(line.low is None for line in found):
        del layers[0]
    colours = {key: scale(look, key) for key in ("color", "strokeDash")}
    detail = {"field": "trial", "type": "nominal"}
    for layer in layers:
        layer["encoding"] |= {"x": across, "color": colours["color"], "detail": detail}
        if layer["mark"]["type"] == "line":
            layer["encoding"]["strokeDash"] = colours["strokeDash"]
    longest = max((len(short(name)) for name in look), default=0)
    return top(
        {
            "width": WIDTH,
            "height": HEIGHT,
            "padding": {"left": 5, "top": 5, "bottom": 5, "right": 12 + 7 * longest},
            "title": titles[1],
            "params": [
                shown(look),
                {"name": "scope", "value": next(iter(spans))},
                {"name": "spans", "value": {key: list(span) for key, span in spans.items()}},
            ],
            "datasets": {"points": _points(found), "ends": _ends(found, spans)},
            "data": {"name": "points"},
            "transform": [SHOWN],
            "layer": layers,
        }
    )


def _points(found: Sequence[Line]) -> list[Spec]:
    points = []
    for line in found:
        for i, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            if not math.isfinite(y):
                continue
            low, high = (y if of is None else of[i] for of in (line.low, line.high))
            said = f"{y:.4f}" + (f" ± {(high - low) / 2:.4f}" if high > low else "")
            numbers = {key: number(v) for key, v in (("x", x), ("y", y), ("low", low), ("high", high))}
            whose = {"algorithm": short(line.algorithm), "trial": line.trial}
            points.append({**whose, **numbers, "said": said})
    return points


def number(value: float) -> float:
    """A number as a page carries it: six digits are more than its pixels."""
    return float(f"{value:.6g}")


def _ends(found: Sequence[Line], spans: Mapping[str, Span]) -> list[Spec]:
    """Where the names of lines stand in each span: at the lines' ends, and no two on each other."""
    last = {}
    for line in found:
        known = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
        if known:
            last[line.algorithm, line.trial] = known[-1]
    places = {key: apart({n: y for n, (_, y) in last.items()}, span) for key, span in spans.items()}
    return [
        {
            "algorithm": short(name[0]),
            "x": number(x),
            "at": {key: number(at[name]) for key, at in places.items() if name in at},
        }
        for name, (x, _) in last.items()
    ]


def apart(values: Mapping[T, float], span: Span) -> dict[T, float]:
    """Heights of the labels of these values within a span, moved up as far as a line of text needs, or
    down where there is no room above; what lies outside the span has none.
    """
    low, high = span
    gap = (high - low) * LINE / HEIGHT
    inside = sorted((name for name, v in values.items() if low <= v <= high), key=values.__getitem__)
    at: list[float] = []
    for name in inside:
        at.append(max(values[name], at[-1] + gap) if at else values[name])
    for i in reversed(range(len(at))):
        at[i] = min(at[i], high if i == len(at) - 1 else at[i + 1] - gap)
    return dict(zip(inside, at, strict=True))


def spans(found: Sequence[Line], better: int, ties: Collection[str] = ()) -> dict[str, Span]:
    """What of the vertical axis shows the `leaders`, those that tie with the best (`ties`), and `all`.

    Leaders are the better half of the lines by where they end, at least three; a span holds the last two
    thirds of its lines, all of them where nothing leads.
    """
    ended = [line for line in found if any(map(math.isfinite, line.y))]
    order = sorted(ended, key=lambda line: -better * [v for v in line.y if math.isfinite(v)][-1])
    lead = order[: max(3, round(LEADERS * len(order)))]
    tied = [line for line in ended if line.algorithm in ties]
    made = {"leaders": _span(lead, 1 / 3), "ties": _span(tied, 1 / 3), "all": _span(ended, 0)}
    return {key: span for key, span in made.items() if span is not None} or {"all": (0.0, 1.0)}


def _span(found: Sequence[Line], skip: float) -> Span | None:
    """The range of these lines and their bands but for their first part; of errors, which may start at any
    size, what all but the first few evaluations need.
    """
    values = [
        v
        for line in found
        for part in (line.y, line.low, line.high)
        for v in (part or ())[int(skip * len(line.y)) :]
        if math.isfinite(v)
    ]
    if not values:
        return None
    low, high = min(values), max(values)
    if high > 1.5:
        low, high = min(0.0, low), float(np.quantile(values, 0.95)) * 1.1
    room = 0.03 * (high - low) or 0.01
    return low - room, high + room


def curves(found: Sequence[Curve], look: Look, rows: Sequence[Row], against: str) -> Spec:
    """Mean over seeds with a band of its 95 % interval, against rounds or bytes."""
    drawn = []
    for name in dict.fromkeys(curve.algorithm for curve in found):
        x, values = _together([c for c in found if c.algorithm == name], against)
        means = [float(np.mean(row)) for row in values]
        bands = [interval(row) for row in values]
        low = [m if b[0] is None else b[0] for m, b in zip(means, bands, strict=True)]
        high = [m if b[1] is None else b[1] for m, b in zip(means, bands, strict=True)]
        drawn.append(Line(name, x, means, low, high))
    metric = rows[0].metric
    ties = [row.algorithm for row in rows if row.rank == 1 or row.within_noise]
    ranges = spans(drawn, sign(direction(metric)), ties)
    title = "rounds" if against == "rounds" else "MB sent, all directions"
    return lines(drawn, look, (title, title_of(metric)), ranges)


def _together(found: Sequence[Curve], against: str) -> tuple[list[float], list[list[float]]]:
    """Mean abscissa and all seeds' scores at each evaluation that all seeds had."""
    count = min(len(curve.scores) for curve in found)
    if against == "rounds":
        x = [float(r) for r in found[0].rounds[:count]]
    else:
        x = [float(np.mean([c.sent_bytes[i] for c in found])) / 1e6 for i in range(count)]
    return x, [[c.scores[i] for c in found] for i in range(count)]


def budget(found: Mapping[str, Sequence[float]], look: Look, title: str, better: int) -> Spec:
    """Best so far (or average rank) of each algorithm against search trials; `better` is 1 where more is."""
    drawn = [Line(n, range(1, len(values) + 1), values) for n, values in found.items()]
    spec = lines(drawn, look, ("search trials", title), spans(drawn, better), "step-after")
    if "rank" in title:
        for layer in spec["layer"]:
            layer["encoding"]["y"]["scale"]["reverse"] = True
    return spec


def fronts(found: Sequence[Front], look: Look) -> Spec:
    """What each algorithm scores on validation data at most at a cost; its best and knee are ringed."""
    unit = 1e6 if found[0].cost.endswith("_bytes") else 1
    cost = found[0].cost.replace("_", " ")
    points = [
        {"algorithm": short(f.algorithm), "x": number(p.cost / unit), "y": number(p.val_score)}
        | {"role": p.role}
        for f in found
        for p in f.points
    ]
    known = [point["x"] for point in points]
    log = min(known) > 0 and max(known) > 30 * min(known)
    title = cost.replace(" bytes", " MB") if unit > 1 else cost
    across = {"field": "x", "type": "quantitative", "title": title}
    across |= {"scale": {"type": "log" if log else "linear", "zero": False, "nice": False}}
    score = {"field": "y", "type": "quantitative", "title": None, "scale": {"zero": False}}
    told = [
        {"field": "algorithm"},
        {"field": "x", "type": "quantitative", "title": title},
        {"field": "y", "type": "quantitative", "title": "validation score", "format": ".4f"},
        {"field": "role", "title": "repeated as"},
    ]
    place = {"x": across, "y": score, "color": scale(look, "color")}
    legend = {"orient": "bottom", "title": None, "labelColor": INK, "symbolType": "stroke"}
    dashes = {**scale(look, "strokeDash"), "legend": legend}
    named = {**place, "color": {**place["color"], "legend": legend}}
    return top(
        {
            "width": WIDTH,
            "height": HEIGHT,
            "title": f"validation {found[0].metric}",
            "params": [shown(look)],
            "datasets": {"points": points},
            "data": {"name": "points"},
            "transform": [SHOWN],
            "layer": [
                {
                    "mark": {"type": "line", "interpolate": "step-after"},
                    "encoding": {**named, "strokeDash": dashes},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 30},
                    "encoding": {**place, "tooltip": told},
                },
                {
                    "transform": [{"filter": "datum.role"}],
                    "mark": {"type": "point", "size": 140},
                    "encoding": place,
                },
            ],
        }
    )


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
    across = {"type": "quantitative", "title": title_of(rows[0].metric)}
    across |= {"scale": {"zero": False}, "axis": {"tickCount": 5}}
    place = {"y": {"field": "algorithm", "type": "nominal", "sort": None, "title": None}}
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
    """Scores of algorithms (rows) in cells (columns); the deeper the nearer to the cell's best."""
    table = np.array([[np.nan if v is None else v for v in row] for row in scores], float)
    behind = np.nanmax(table, axis=0) - table
    span = float(np.nanquantile(behind, 0.9)) or 1.0
    names = [short(name) for name in rows]
    cells = [
        {
            "algorithm": names[i],
            "level": columns[j],
            "score": number(abs(table[i, j])),
            "near": number(1 - min(1.0, behind[i, j] / span)),
        }
        for i, j in product(range(len(rows)), range(len(columns)))
        if math.isfinite(table[i, j])
    ]
    shade = {"field": "near", "type": "quantitative", "legend": None}
    shade["scale"] = {"domain": [0, 1], "range": ["#eef4fb", "#08519c"]}
    light = {"condition": {"test": "datum.near > 0.55", "value": "#ffffff"}, "value": "#111111"}
    wide = max(64, 7 * max(map(len, columns), default=0))
    return top(
        {
            "width": {"step": min(wide, 150)},
            "height": {"step": 26},
            "data": {"values": cells},
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
