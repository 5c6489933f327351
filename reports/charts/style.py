"""How charts look: the same colours, dashes and type in all, on pages and in files."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from typing import Any

from reports.wording.words import short
from trials.algorithms import ALGORITHMS

INK, FAINT, PAPER = "#1b1f24", "#c8ccd1", "#fffffe"
"""Colours of text and axes, of rules and grids, of the background. Nothing else has them, so that a page can replace them."""
HUES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
"""Okabe and Ito's colours that can be told from white and from black."""
GREY = "#8a8d91"
"""The colour of what is not ranked."""
FIRST = ("fedavg", "fedprox", "safl", "folb", "fedagg", "fedumf")
"""The papers' methods and what all compare with: each has a colour of its own and an unbroken line."""
DASHES = ((1, 0), (7, 2), (2, 2), (8, 2, 2, 2), (2, 5))
WIDTH, HEIGHT = 420, 240
"""Pixels of a plot."""
LEADERS = 0.5
"""The share of the algorithms, best first, that are the leaders."""

Spec = dict[str, Any]
Look = Mapping[str, tuple[str, Sequence[int]]]
"""Colour and dash of each algorithm."""
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
    """A chart, its file name without ending, its title, and its description for those who cannot see it."""

    name: str
    title: str
    alt: str
    spec: Spec


def styles(algorithms: Iterable[str], unranked: Collection[str] = ()) -> Look:
    """Return colour and dash of each algorithm. The project's own have the same on every page; those never ranked are
    grey.
    """
    names = list(dict.fromkeys(algorithms))
    pairs = [(hue, dash) for dash, hue in product(DASHES, HUES)]
    ours = [*FIRST, *(name for name in ALGORITHMS if name not in FIRST)]
    chosen = dict[str, tuple[str, Sequence[int]]](zip(ours, pairs, strict=False))
    # Others take what none of those on this page has.
    free = cycle([pair for pair in pairs if pair not in map(chosen.get, names)] or pairs)
    for name in sorted({*names} - chosen.keys()):
        chosen[name] = next(free)
    return {name: (GREY, chosen[name][1]) if name in unranked else chosen[name] for name in names}


def slug(text: str) -> str:
    """Return text as part of a file name or an id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def top(spec: Spec) -> Spec:
    """Return a specification that stands alone."""
    schema = "https://vega.github.io/schema/vega-lite/v6.json"
    return {"$schema": schema, "config": CONFIG, **spec}


def scale(look: Look, channel: str) -> Spec:
    """Return the encoding of algorithms as `color`, or as `strokeDash` of lines."""
    part = {"color": 0, "strokeDash": 1}[channel]
    names, chosen = [*map(short, look)], [style[part] for style in look.values()]
    return {"field": "algorithm", "type": "nominal", "scale": {"domain": names, "range": chosen}}


def number(value: float) -> float:
    """Return a number as a page carries it: six digits are more than its pixels."""
    return float(f"{value:.6g}")
