"""Charts of lines: curves of test scores, and the best so far against the budget."""

import json
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from reports.charts.data import Curve
from reports.charts.style import (
    HEIGHT,
    LEADERS,
    LINE,
    SHOWN,
    WIDTH,
    Look,
    Spec,
    number,
    scale,
    shown,
    text_hue,
    top,
)
from reports.leaderboard.board import Row
from reports.leaderboard.replication import Draw, mean_of
from reports.wording.tables import leads
from reports.wording.words import short, title_of
from trials.scoring.metrics import direction, sign

T = TypeVar("T", bound=Hashable)
Span = tuple[float, float]


@dataclass(frozen=True)
class Trace:
    """What one algorithm has at each abscissa, with the interval around it where there is one."""

    algorithm: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def lines(
    found: Sequence[Trace],
    look: Look,
    titles: tuple[str, str],
    spans: Mapping[str, Span],
    interpolate: str = "linear",
) -> Spec:
    """Lines with their bands and names at their ends; `titles` are those of the axes, across first, and
    `spans` what of the vertical axis can be shown, the usual one first.
    """
    layers = _layers(found, look, titles, interpolate)
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
            "datasets": {"points": _points(found), "ends": _ends(found, look, spans)},
            "data": {"name": "points"},
            "transform": [SHOWN],
            "layer": layers,
        }
    )


def _layers(
    found: Sequence[Trace], look: Look, titles: tuple[str, str], interpolate: str
) -> list[Spec]:
    """Bands where there are any, lines, what the pointer is nearest to, and names at the lines' ends."""
    across: Spec = {"field": "x", "type": "quantitative", "title": titles[0]}
    across |= {"scale": {"nice": False, "zero": False}, "axis": {"grid": False, "tickCount": 6}}
    bounds = {"domainMin": {"expr": "spans[scope][0]"}, "domainMax": {"expr": "spans[scope][1]"}}
    up: Spec = {"type": "quantitative", "title": None, "axis": {"tickCount": 5}}
    up |= {"scale": {"zero": False, "nice": False, **bounds}}
    near: Spec = {"name": "near", "select": {"type": "point", "on": "pointerover", "nearest": True}}
    near["select"] |= {"clear": "pointerout"}
    zoom = {"type": "interval", "zoom": "wheel![event.shiftKey]"}  # the wheel alone moves the page
    opacity = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
    band = {"y": {**up, "field": "low"}, "y2": {"field": "high"}}
    y = {**up, "field": "y"}
    layers: list[Spec] = [
        {
            "mark": {"type": "area", "opacity": 1, "fillOpacity": 0.14, "clip": True},
            "encoding": band,
        },
        {"mark": {"type": "line", "clip": True, "interpolate": interpolate}, "encoding": {"y": y}},
        {
            "params": [near, {"name": "zoom", "select": zoom, "bind": "scales"}],
            "mark": {
                "type": "point",
                "filled": True,
                "size": 60,
                "clip": True,
                "tooltip": _told(*titles),
            },
            "encoding": {"y": y, "opacity": opacity},
        },
        {
            "data": {"name": "ends"},
            "transform": [SHOWN],
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": 20, "clip": True},
            "encoding": {"y": y},
        },
        {
            "data": {"name": "ends"},
            "transform": [
                SHOWN,
                {"calculate": "datum.at[scope]", "as": "label"},
                {"filter": "isValid(datum.label)"},
            ],
            "mark": {"type": "text", "align": "left", "dx": 6, "clip": False},
            "encoding": {
                "y": {**up, "field": "label"},
                "text": {"field": "algorithm"},
                "color": {"field": "hue", "type": "nominal", "scale": None},
            },
        },
    ]
    if all(line.low is None for line in found):
        del layers[0]
    colours = {key: scale(look, key) for key in ("color", "strokeDash")}
    for layer in layers:
        layer["encoding"] = {"color": colours["color"], **layer["encoding"]}
        layer["encoding"]["x"] = across
        if layer["mark"]["type"] == "line":
            layer["encoding"]["strokeDash"] = colours["strokeDash"]
    return layers


def _told(across: str, up: str) -> Spec:
    """What is said of the point that is nearest to the pointer, which is the datum of the area around it:
    Vega-Lite's own tooltips look for names in the area itself.
    """
    parts = {"algorithm": "algorithm", across: "x", up: "said"}
    said = (f"{json.dumps(name)}: (datum.datum || datum).{key}" for name, key in parts.items())
    return {"signal": f"{{{', '.join(said)}}}"}


def _points(found: Sequence[Trace]) -> list[Spec]:
    points = []
    for line in found:
        for i, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            if not math.isfinite(y):
                continue
            low, high = (y if of is None else of[i] for of in (line.low, line.high))
            said = f"{y:.4f}" + (f" ± {(high - low) / 2:.4f}" if high > low else "")
            numbers = {
                key: number(v) for key, v in (("x", x), ("y", y), ("low", low), ("high", high))
            }
            points.append({"algorithm": short(line.algorithm), **numbers, "said": said})
    return points


def _ends(found: Sequence[Trace], look: Look, spans: Mapping[str, Span]) -> list[Spec]:
    """Where the names of lines stand in each span: at the lines' ends, and no two on each other."""
    last = {}
    for line in found:
        known = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
        if known:
            last[line.algorithm] = known[-1]
    places = {key: apart({n: y for n, (_, y) in last.items()}, span) for key, span in spans.items()}
    return [
        {
            "algorithm": short(name),
            "x": number(x),
            "y": number(y),
            "hue": text_hue(look[name][0]),
            "at": {key: number(at[name]) for key, at in places.items() if name in at},
        }
        for name, (x, y) in last.items()
    ]


def apart(values: Mapping[T, float], span: Span) -> dict[T, float]:
    """Heights of the labels of these values within a span, moved up as far as a line of text needs, or
    down where there is no room above; what lies outside the span has none.
    """
    low, high = span
    gap = (high - low) * LINE / HEIGHT
    inside = sorted(
        (name for name, v in values.items() if low <= v <= high), key=values.__getitem__
    )
    at: list[float] = []
    for name in inside:
        at.append(max(values[name], at[-1] + gap) if at else values[name])
    for i in reversed(range(len(at))):
        at[i] = min(at[i], high if i == len(at) - 1 else at[i + 1] - gap)
    return dict(zip(inside, at, strict=True))


def spans(found: Sequence[Trace], better: int, ties: Collection[str] = ()) -> dict[str, Span]:
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


def _span(found: Sequence[Trace], skip: float) -> Span | None:
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
    """Means with a band of their 95 % intervals, over the tunings, deals, splits or seeds that the interval of
    a score is over (`reports.leaderboard.replication`), against rounds or bytes.
    """
    drawn = []
    for name in dict.fromkeys(curve.algorithm for curve in found):
        mine = [c for c in found if c.algorithm == name]
        x, values = _together(mine, against)
        draws = [Draw(*c.replicate, c.seed) for c in mine]
        estimates = [mean_of(dict(zip(draws, row, strict=True))) for row in values]
        means, bands = [of.mean for of in estimates], [of.interval() for of in estimates]
        low = [m if b[0] is None else b[0] for m, b in zip(means, bands, strict=True)]
        high = [m if b[1] is None else b[1] for m, b in zip(means, bands, strict=True)]
        drawn.append(Trace(name, x, means, low, high))
    metric = rows[0].metric
    ties = [row.algorithm for row in rows if leads(row)]
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
    """Best so far of each algorithm against search trials; `better` is 1 where more is."""
    drawn = _against_trials(found)
    return lines(drawn, look, ("search trials", title), spans(drawn, better), "step-after")


def average_ranks(found: Mapping[str, Sequence[float]], look: Look) -> Spec:
    """Average rank of each algorithm against search trials, the best, 1, on top."""
    drawn = _against_trials(found)
    worst = max(v for line in drawn for v in line.y if math.isfinite(v))
    span = {"all": (0.9, max(worst, 2.0) + 0.1)}
    spec = lines(drawn, look, ("search trials", "average rank on validation"), span, "step-after")
    for layer in spec["layer"]:
        layer["encoding"]["y"]["scale"]["reverse"] = True
    return spec


def _against_trials(found: Mapping[str, Sequence[float]]) -> list[Trace]:
    return [Trace(n, range(1, len(values) + 1), values) for n, values in found.items()]


def packed(spec: Spec) -> Spec:
    """A chart of lines with its points as rows of numbers by algorithm, a quarter of the size, which `page.js` unpacks,
    and with the colours in its first layer alone, whose scale the others share.
    """
    points = spec.get("datasets", {}).get("points")
    if not points or not points[0].keys() >= {"said", "low", "high"}:
        return spec
    lines: dict[str, list[list[float]]] = {}
    for point in points:
        row = [point[key] for key in ("x", "y", "low", "high")]
        row = row if point["low"] < point["high"] else row[:2]
        lines.setdefault(point["algorithm"], []).append([_short(value) for value in row])
    first, *others = spec["layer"]
    bare = [
        {**layer, "encoding": {**layer["encoding"], "color": {"field": "algorithm"}}}
        if layer["encoding"]["color"]["field"] == "algorithm"
        else layer
        for layer in others
    ]
    datasets = {**spec["datasets"], "points": lines}
    return {**spec, "datasets": datasets, "layer": [first, *bare]}


def _short(value: float) -> float:
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short
