"""Pictures of what `suite bench` measured: PNG, SVG or PDF by the ending of the file's name."""

from pathlib import Path
from typing import Any

from reports.page import drawing
from reports.page.drawing import FORMS, SIGN
from reports.page.style import HUES, Spec, top
from suite.yaml_files import refuse_foreign, write_files
from trials.errors import UserError

ENDINGS = tuple(f".{form}" for form in FORMS)


def check(path: Path | None) -> None:
    """Raise `UserError` for a file that could not be written; before anything is measured."""
    if path is None:
        return
    if path.suffix not in ENDINGS:
        raise UserError(f"--plot is {str(path)!r}, but must end in {', '.join(ENDINGS)}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--plot is {str(path)!r}, but there is no such folder")
    refuse_foreign([path], SIGN)


def engine(document: dict[str, Any], path: Path) -> None:
    """Local steps per second of every system, a group of bars a workload, on a logarithmic axis."""
    values = [
        {"workload": work["workload"], "system": one["system"], "rate": one["steps_per_second"]}
        for work in document["workloads"]
        for one in work["systems"]
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


def scaling(document: dict[str, Any], path: Path) -> None:
    """Time of a round along each axis, both logarithmic."""
    models = [line["model"] for one in document["axes"] for line in one["lines"]]
    plots = []
    for place, one in enumerate(document["axes"]):
        values = [
            {"model": line["model"], "at": at, "seconds": seconds}
            for line in one["lines"]
            for at, seconds in zip(one["points"], line["seconds_a_round"], strict=True)
        ]
        log = {"type": "quantitative", "scale": {"type": "log"}}
        across = {**log, "field": "at", "title": one["axis"], "axis": {"format": "~s"}}
        title = "seconds a round" if place == 0 else None
        plots.append(
            {
                "width": 180,
                "height": 150,
                "data": {"values": values},
                "mark": {"type": "line", "point": True},
                "encoding": {
                    "x": across,
                    "y": {**log, "field": "seconds", "title": title},
                    "color": _named("model", list(dict.fromkeys(models))),
                },
            }
        )
    _save({"hconcat": plots, "resolve": {"scale": {"y": "shared"}}}, path)


def _named(field: str, names: list[str]) -> Spec:
    hues = [HUES[i % len(HUES)] for i in range(len(names))]
    legend = {"title": None, "orient": "bottom"}
    return {"field": field, "scale": {"domain": names, "range": hues}, "legend": legend}


def _save(spec: Spec, path: Path) -> None:
    write_files({path: drawing.drawn(drawing.svg(top(spec)), path.suffix[1:])}, SIGN)
