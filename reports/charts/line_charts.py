"""Charts of lines: curves of test scores, and the best so far against the budget."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from reports.charts.charts import unit
from reports.charts.data import Curve
from reports.charts.style import (
    HEIGHT,
    LEADERS,
    WIDTH,
    Look,
    Spec,
    number,
    scale,
    top,
)
from reports.leaderboard.replication import Draw, mean_of
from reports.wording.words import head_of, short
from trials.scoring.metrics import direction, sign

if TYPE_CHECKING:
    import pandas as pd

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
    traces: Sequence[Trace],
    look: Look,
    titles: tuple[str, str],
    better: int,
    interpolate: str = "linear",
) -> Spec:
    """Draw lines with their bands; `titles` are those of the axes, across first, and `better` is
    -1 where less is. The vertical axis holds the leaders; Shift and the wheel show the others.
    """
    span = leaders_span(traces, better)
    points = []
    for trace in traces:
        low, high = trace.low or trace.y, trace.high or trace.y
        for x, y, *ends in zip(trace.x, trace.y, low, high, strict=True):
            if math.isfinite(y):
                values = zip(("x", "y", "low", "high"), (x, y, *ends), strict=True)
                numbers = {key: number(value) for key, value in values}
                points.append({"algorithm": short(trace.algorithm), **numbers})
    return top(
        {
            "width": WIDTH,
            "height": HEIGHT,
            "title": titles[1],
            "params": [{"name": "shown", "value": [short(name) for name in look]}],
            "data": {"values": points},
            "transform": [{"filter": "indexof(shown, datum.algorithm) >= 0"}],
            "layer": _layers(look, titles, span, interpolate),
        }
    )


def _layers(look: Look, titles: tuple[str, str], span: Span, interpolate: str) -> list[Spec]:
    """Return bands, lines, and what the pointer is nearest to."""
    across: Spec = {"field": "x", "type": "quantitative", "title": titles[0]}
    across |= {"scale": {"nice": False, "zero": False}, "axis": {"grid": False, "tickCount": 6}}
    up: Spec = {"type": "quantitative", "title": None, "axis": {"tickCount": 5}}
    up |= {"scale": {"domain": list(span), "zero": False, "nice": False}}
    y = {**up, "field": "y"}
    near = {"type": "point", "on": "pointerover", "nearest": True, "clear": "pointerout"}
    zoom = {"type": "interval", "zoom": "wheel![event.shiftKey]"}  # the wheel alone moves the page
    opacity = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
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
                "tooltip": _told(*titles),
            },
            "encoding": {"y": y, "opacity": opacity},
        },
    ]
    for layer in layers:
        layer["encoding"] = {"color": scale(look, "color"), **layer["encoding"], "x": across}
    return layers


def _told(across: str, up: str) -> Spec:
    """Return what is said of the point that is nearest to the pointer, which is the datum of the area around it:
    Vega-Lite's own tooltips look for names in the area itself.
    """
    it = "(datum.datum || datum)"
    half = f"({it}.high - {it}.low) / 2"
    score = f"format({it}.y, '.4~g') + ({half} > 0 ? ' ± ' + format({half}, '.2~g') : '')"
    parts = {"algorithm": f"{it}.algorithm", across: f"{it}.x", up: score}
    said = (f"{json.dumps(name)}: {value}" for name, value in parts.items())
    return {"signal": f"{{{', '.join(said)}}}"}


def _end(trace: Trace) -> float:
    return next(filter(math.isfinite, reversed(trace.y)), math.nan)


def leaders_span(traces: Sequence[Trace], better: int) -> Span:
    """Return what of the vertical axis shows the last two thirds of the leaders with their bands: of the better half of
    the lines by where they end, at least three. Of errors, which may start at any size, it is what most evaluations need.
    """
    ended = [trace for trace in traces if math.isfinite(_end(trace))]
    order = sorted(ended, key=lambda trace: -better * _end(trace))
    values: list[float] = []
    for trace in order[: max(3, round(LEADERS * len(order)))]:
        for part in (trace.y, trace.low, trace.high):
            values += filter(math.isfinite, (part or ())[len(trace.y) // 3 :])
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if better < 0:
        low, high = min(0.0, low), float(np.quantile(values, 0.95)) * 1.1
    room = 0.03 * (high - low) or 0.01
    return low - room, high + room


def curves(runs: Sequence[Curve], look: Look, metric: str, against: str) -> Spec:
    """Draw means with a band of their 95 % intervals, over the tunings, partitions, splits or seeds that the interval of
    a score is over (`reports.leaderboard.replication`), against rounds or bytes.
    """
    traces = []
    for name in dict.fromkeys(curve.algorithm for curve in runs):
        own = [curve for curve in runs if curve.algorithm == name]
        x, values = _together(own, against)
        draws = [Draw(*curve.replicate, curve.seed) for curve in own]
        estimates = [mean_of(dict(zip(draws, scores, strict=True))) for scores in values]
        halves = [estimate.half() or 0.0 for estimate in estimates]
        means = np.array([estimate.mean for estimate in estimates]) * unit(metric)
        half = np.array(halves) * unit(metric)
        bands = ((means - half).tolist(), (means + half).tolist())
        traces.append(Trace(name, x, means.tolist(), *bands))
    title = "rounds" if against == "rounds" else "MB sent, all directions"
    return lines(traces, look, (title, head_of(metric)), sign(direction(metric)))


def _together(runs: Sequence[Curve], against: str) -> tuple[list[float], list[list[float]]]:
    """Return the mean abscissa and all seeds' scores at each evaluation that all seeds had."""
    count = min(len(curve.scores) for curve in runs)
    if against == "rounds":
        x = [float(r) for r in runs[0].rounds[:count]]
    else:
        x = [fmean(curve.sent_bytes[i] for curve in runs) / 1e6 for i in range(count)]
    return x, [[curve.scores[i] for curve in runs] for i in range(count)]


def budget(best: Mapping[str, Sequence[float]], look: Look, metric: str) -> Spec:
    """Draw the best so far of each algorithm, scores of a metric, against search trials."""
    traces = [
        Trace(name, range(1, len(values) + 1), [unit(metric) * value for value in values])
        for name, values in best.items()
    ]
    titles = ("search trials", f"best validation score{' %' * (unit(metric) > 1)}")
    return lines(traces, look, titles, sign(direction(metric)), "step-after")


def best_so_far(trials: "pd.DataFrame", up: bool) -> list[float]:
    """Return the best validation score of the first 1, 2, ... trials; nan until one was scored at full
    rounds. Of an entry that was searched several times the mean of its searches.
    """
    curves = []
    for _, own in trials.sort_values("number").groupby("replicate"):
        scores = own["val_score"].astype(float).where(own["status"] == "finished")
        curves.append((scores.cummax() if up else scores.cummin()).ffill())
    return [fmean(values) for values in zip(*curves, strict=False)]
