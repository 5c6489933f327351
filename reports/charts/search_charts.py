"""The chart of an entry's search: scores over each hyperparameter, and all hyperparameters at once."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reports.charts.data import TrialPoint
from reports.charts.style import FAINT, HUES, INK, PAPER, Spec, number, top
from trials.run.outcome import Status

LOG = 20
"""Positive values that span more than this factor are shown on a log scale."""
BEST = HUES[3]
SIDE, DOWN = 130, 110
"""Pixels of the plot of one hyperparameter."""
POINTED = {"param": "pointed", "empty": False}
SHOWN = 12
"""Hyperparameters that are drawn at most."""


def search(trials: Sequence[TrialPoint], importance: Mapping[str, float], up: bool) -> Spec:
    """The importance of each hyperparameter, the validation score against its values, and below every
    scored trial as a line through its hyperparameters. The pointer on a trial marks it in all of them.
    """
    scored = [t for t in trials if t.status == Status.FINISHED and t.value is not None]
    shared = set.intersection(*(set(t.params) for t in trials)) if trials else set()
    varied = [name for name in _varied(trials) if name in shared or name in importance][:SHOWN]
    best = (max if up else min)(scored, key=lambda t: float(t.value or 0))
    values = [
        {
            "trial": t.name,
            "score": number(float(t.value or 0)),
            "best": t is best,
            **{f"p{i}": t.params.get(name) for i, name in enumerate(varied)},
        }
        for t in scored
    ]
    plots = [_importance(importance)] if importance else []
    plots += [_slice(i, name, scored, i == 0) for i, name in enumerate(varied)]
    pointer = {"type": "point", "fields": ["trial"], "on": "pointerover", "clear": "pointerout"}
    views = [f"p{i}" for i in range(len(varied))]
    return top(
        {
            "params": [{"name": "pointed", "select": pointer, "views": views}],
            "datasets": {"trials": values},
            "vconcat": [
                {"hconcat": plots, "spacing": 14},
                _parallel([name for name in varied if name in shared], scored, best),
            ],
            "spacing": 16,
        }
    )


def _importance(importance: Mapping[str, float]) -> Spec:
    shares = [{"name": name, "share": number(share)} for name, share in importance.items()]
    axis = {"tickCount": 2, "format": ".0%"}
    return {
        "title": "importance",
        "width": SIDE,
        "height": DOWN,
        "data": {"values": shares},
        "mark": {"type": "bar", "color": HUES[0], "tooltip": True},
        "encoding": {
            "y": {"field": "name", "sort": "-x", "title": None, "axis": {"grid": False}},
            "x": {"field": "share", "type": "quantitative", "title": None, "axis": axis},
        },
    }


def _slice(place: int, name: str, scored: Sequence[TrialPoint], first: bool) -> Spec:
    """The scores against one hyperparameter; `place` is its field's."""
    values = [t.params[name] for t in scored if name in t.params]
    across: dict[str, Any] = {
        "field": f"p{place}",
        "title": None,
        "axis": {"tickCount": 3, "grid": False},
    }
    if _numeric(values):
        kind = "log" if _log(values) else "linear"
        across |= {"type": "quantitative", "scale": {"type": kind, "zero": False, "nice": False}}
        across["axis"]["format"] = "~g"
    else:
        across |= {"type": "nominal"}
    score: dict[str, Any] = {
        "field": "score",
        "type": "quantitative",
        "title": None,
        "scale": {"zero": False},
    }
    score["axis"] = {"tickCount": 3, "labels": first}
    told: list[Spec] = [
        {"field": "trial"},
        {"field": across["field"], "title": name},
        {"field": "score", "format": ".4f", "title": "validation score"},
    ]
    mark = {"condition": {"test": "datum.best", "value": BEST}, "value": HUES[0]}
    size: Spec = {"condition": [{**POINTED, "value": 160}, {"test": "datum.best", "value": 90}]}
    size["value"] = 35
    return {
        "name": across["field"],
        "title": name,
        "width": SIDE,
        "height": DOWN,
        "data": {"name": "trials"},
        "transform": [{"filter": f"isValid(datum.p{place})"}],
        "mark": {"type": "point", "filled": True, "opacity": 0.8},
        "encoding": {"x": across, "y": score, "color": mark, "size": size, "tooltip": told},
    }


def _parallel(names: Sequence[str], scored: Sequence[TrialPoint], best: TrialPoint) -> Spec:
    """Every scored trial as a line through its hyperparameters to its validation score."""
    heads = [*names, "validation"]
    columns = [[t.params[name] for t in scored] for name in names]
    columns.append([float(t.value or 0) for t in scored])
    places = [_places(column, log=i < len(names)) for i, column in enumerate(columns)]
    points: list[Spec] = [
        {
            "trial": t.name, "column": head, "at": number(at[i]), "best": t is best,
            "score": number(float(t.value or 0)), "value": _text(column[i]),
        }
        for head, column, at in zip(heads, columns, places, strict=True)
        for i, t in enumerate(scored)
    ]  # fmt: skip
    ends = [
        {"column": head, "at": at[i], "value": _text(column[i])}
        for head, column, at in zip(heads, columns, places, strict=True)
        for i in {at.index(min(at)), at.index(max(at))}
    ]
    return _threads(heads, points, ends)


def _threads(heads: Sequence[str], points: Sequence[Spec], ends: Sequence[Spec]) -> Spec:
    """Lines from axis to axis, with what stands at the ends of each axis."""
    x: Spec = {
        "field": "column",
        "type": "nominal",
        "sort": heads,
        "title": None,
        "scale": {"padding": 0.2},
    }
    x["axis"] = {"labelAngle": 0, "domain": False, "ticks": False, "grid": True, "gridColor": FAINT}
    y: Spec = {"field": "at", "type": "quantitative", "axis": None, "scale": {"domain": [0, 1]}}
    shade = {
        "field": "score",
        "type": "quantitative",
        "legend": None,
        "scale": {"scheme": "cividis"},
    }
    told: list[Spec] = [{"field": key} for key in ("trial", "column", "value")]
    told.append({"field": "score", "format": ".4f", "title": "validation score"})
    thick: Spec = {"condition": [{**POINTED, "value": 4}, {"test": "datum.best", "value": 2.4}]}
    thick["value"] = 1
    colour = {"condition": {"test": "datum.best", "value": BEST}, **shade}
    return {
        "width": SIDE * len(heads),
        "height": DOWN,
        "data": {"values": points},
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "mark": {"type": "line", "opacity": 0.8},
                "encoding": {
                    "color": colour, "strokeWidth": thick,
                    "detail": {"field": "trial"}, "tooltip": told,
                },
            },
            {
                "data": {"values": ends},
                "mark": {"type": "text", "align": "left", "dx": 4, "stroke": PAPER,
                         "strokeWidth": 3, "strokeOpacity": 0.8, "fontSize": 10},
                "encoding": {"text": {"field": "value"}},
            },
            {
                "data": {"values": ends},
                "mark": {"type": "text", "align": "left", "dx": 4, "fontSize": 10, "color": INK},
                "encoding": {"text": {"field": "value"}},
            },
        ],
    }  # fmt: skip


def _varied(trials: Sequence[TrialPoint]) -> list[str]:
    """Hyperparameters with more than one value."""
    names = dict.fromkeys(name for t in trials for name in t.params)
    return [n for n in names if len({str(t.params[n]) for t in trials if n in t.params}) > 1]


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _log(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > LOG


def _places(values: Sequence[Any], log: bool) -> list[float]:
    """Where values stand between 0 and 1: choices one after the other, numbers in proportion, or in
    proportion of their logarithms.
    """
    if not _numeric(values):
        order = sorted({str(v) for v in values})
        numbers = [float(order.index(str(v))) for v in values]
    else:
        logs = log and _log(values)
        numbers = [math.log(v) if logs else float(v) for v in values]
    low, high = min(numbers), max(numbers)
    return [(v - low) / (high - low) if high > low else 0.5 for v in numbers]


def _text(value: Any) -> str:
    return f"{value:.3g}" if _numeric([value]) else str(value)
