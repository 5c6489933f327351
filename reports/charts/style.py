"""The look of charts: the same colours, dashes and fonts in all charts, on pages and in files."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from typing import Any

from reports.wording.words import short
from trials.algorithms import ALGORITHMS

INK, FAINT, PAPER = "#1b1f24", "#c8ccd1", "#fffffe"
"""The colours of text, of axes and grids, and of the background. Nothing else has these colours, so a page can replace them."""
HUES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
"""The colours of Okabe and Ito (readable by the colour-blind) that stand out from white and from black."""
GREY = "#8a8d91"
"""The colour of methods without a rank."""
FIRST = ("fedavg", "fedprox", "safl", "folb", "fedagg", "fedumf")
"""The methods of the papers, and those that all papers compare with: each has a different colour and an unbroken line."""
DASHES = ((1, 0), (7, 2), (2, 2), (8, 2, 2, 2), (2, 5))
WIDTH, HEIGHT = 420, 240
"""The size of a plot in pixels."""
LEADERS = 0.5
"""The share of the algorithms, best first, to whose values a chart's scale is fitted."""

Spec = dict[str, Any]
Look = Mapping[str, tuple[str, Sequence[int]]]
"""The colour and the dash pattern of each algorithm."""
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
    "legend": {
        "orient": "bottom", "title": None, "columns": 3, "symbolType": "stroke", "symbolSize": 400,
        "labelColor": INK, "labelFontSize": 11,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A chart: its file name without ending, its title, a description for screen readers, and its Vega-Lite specification."""

    name: str
    title: str
    alt: str
    spec: Spec


def styles(algorithms: Iterable[str], unranked: Collection[str] = ()) -> Look:
    """Return each algorithm's colour and dash pattern. The `unranked` are grey; other shipped algorithms look the same on every page."""
    names = list(dict.fromkeys(algorithms))
    pairs = [(hue, dash) for dash, hue in product(DASHES, HUES)]
    ours = [*FIRST, *(name for name in ALGORITHMS if name not in FIRST)]
    chosen = dict[str, tuple[str, Sequence[int]]](zip(ours, pairs, strict=False))
    # Other algorithms get styles that no algorithm on this page has.
    free = cycle([pair for pair in pairs if pair not in map(chosen.get, names)] or pairs)
    for name in sorted({*names} - chosen.keys()):
        chosen[name] = next(free)
    return {name: (GREY, chosen[name][1]) if name in unranked else chosen[name] for name in names}


def slug(text: str) -> str:
    """Return a text for file names and ids, in lower case and with dashes for special characters."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def top(spec: Spec) -> Spec:
    """Return a complete Vega-Lite specification from a chart's parts, with schema and style."""
    schema = "https://vega.github.io/schema/vega-lite/v6.json"
    return {"$schema": schema, "config": CONFIG, **spec}


def scale(look: Look, channel: str) -> Spec:
    """Return the Vega-Lite encoding of the algorithms' colours or dash patterns. `channel` is `color` or `strokeDash`."""
    part = {"color": 0, "strokeDash": 1}[channel]
    names, chosen = [*map(short, look)], [style[part] for style in look.values()]
    return {"field": "algorithm", "type": "nominal", "scale": {"domain": names, "range": chosen}}


def number(value: float) -> float:
    """Return the value rounded to six significant digits, to keep pages small."""
    return float(f"{value:.6g}")
