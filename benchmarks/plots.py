"""Figures of measurements, as PNG, SVG or PDF by the ending of the file name."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import measuring  # noqa: F401 - puts this checkout on the path
from reports.charts import drawing
from reports.charts.style import GREY, HUES, INK, Spec, top

if TYPE_CHECKING:
    import pandas as pd


def file(text: str) -> Path:
    """Return the path if it ends in .svg, .png or .pdf; raise `ValueError` otherwise, before anything is measured."""
    path = Path(text)
    if path.suffix[1:] not in drawing.FORMS:
        raise ValueError
    return path


def engine(document: dict[str, Any], path: Path) -> None:
    """Draw local steps per second on a logarithmic axis: a group of bars per workload, a bar per system."""
    values = [
        {"workload": row["workload"], "system": row["system"], "rate": row["steps_per_second"]}
        for row in document["systems"]
    ]
    systems = list(dict.fromkeys(value["system"] for value in values))
    rate = {"field": "rate", "type": "quantitative", "scale": {"type": "log"}}
    rate |= {"title": "local steps a second, one thread", "axis": {"format": "~s"}}
    least = min((value["rate"] for value in values), default=1.0)
    spec = {
        "width": {"step": 16},
        "height": 180,
        "data": {"values": [{**value, "least": least / 2} for value in values]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "workload", "sort": None, "title": None, "axis": {"labelAngle": 0}},
            "xOffset": {"field": "system", "sort": systems},
            "y": rate,
            "y2": {"field": "least"},
            "color": _named("system", systems),
        },
    }
    _save(spec, path)


def searchers(document: dict[str, Any], path: Path) -> None:
    """Draw regret against trials on logarithmic axes, a line per sampler."""
    log = {"type": "quantitative", "scale": {"type": "log"}}
    values = [
        {"sampler": sampler, "trials": at, "regret": value}
        for sampler, curve in document["curves"].items()
        for at, value in enumerate(curve, 1)
    ]
    spec = {
        "width": 300,
        "height": 200,
        "data": {"values": values},
        "mark": "line",
        "encoding": {
            "x": {**log, "field": "trials", "title": "trials"},
            "y": {**log, "field": "regret", "title": "regret, points of accuracy"},
            "color": _named("sampler", list(document["curves"])),
        },
    }
    _save(spec, path)


def edition(scenarios: "pd.DataFrame", families: "pd.DataFrame", path: Path) -> None:
    """Draw each method's mean gap to FedAvg over families, at equal rounds and at equal bytes, with a pale tick per scenario."""
    title = "points of test accuracy against FedAvg, equally tuned (grey: one scenario)"
    wide = families[families.low.notna()].sort_values("gap", ascending=False)
    methods = list(dict.fromkeys(wide[wide.kind == "equal rounds"].algorithm))
    wide = wide.assign(name=wide.algorithm + ", " + wide.kind)
    wide = wide.sort_values("algorithm", key=lambda names: names.map(methods.index), kind="stable")
    ticks = scenarios[scenarios.low.notna()]
    gaps(ticks.assign(name=ticks.algorithm + ", equal rounds"), wide, title, path)


def gaps(ticks: "pd.DataFrame", means: "pd.DataFrame", title: str, path: Path) -> None:
    """Draw a row per name, in the order of `means`: the mean `gap` from `low` to `high`, and a pale tick per row of `ticks`."""
    order = list(means.name)
    furthest = max(means.low.abs().max(), means.high.abs().max())
    ticks = ticks[ticks.name.isin(order)]
    ticks = ticks.assign(gap=ticks.gap.clip(-furthest, furthest))
    y = {"field": "name", "sort": order, "title": None, "axis": {"labelLimit": 300}}
    x = {"field": "gap", "type": "quantitative", "title": title}
    values = {"values": means[["name", "gap", "low", "high"]].to_dict("records")}
    bounds = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}
    layers: list[Spec] = [
        {
            "data": {"values": [{"gap": 0}]},
            "mark": {"type": "rule", "color": INK},
            "encoding": {"x": x},
        },
        {
            "data": {"values": ticks[["name", "gap"]].to_dict("records")},
            "mark": {"type": "tick", "opacity": 0.5, "color": GREY, "thickness": 1.5},
            "encoding": {"x": x, "y": y},
        },
        {
            "data": values,
            "mark": {"type": "rule", "strokeWidth": 3, "color": HUES[0]},
            "encoding": bounds,
        },
        {
            "data": values,
            "mark": {"type": "point", "filled": True, "size": 90, "color": HUES[0], "opacity": 1},
            "encoding": {"x": x, "y": y},
        },
    ]
    _save({"width": 520, "height": {"step": 26}, "layer": layers}, path)


def _named(field: str, names: list[str]) -> Spec:
    hues = [HUES[i % len(HUES)] for i in range(len(names))]
    legend = {"title": None, "orient": "bottom"}
    return {"field": field, "scale": {"domain": names, "range": hues}, "legend": legend}


def _save(spec: Spec, path: Path) -> None:
    path.write_bytes(drawing.drawn(drawing.svg(top(spec)), path.suffix[1:]))
