"""How charts look: the same colours, dashes and type in all, on pages and in files."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from zlib import crc32

from reports.wording.words import short
from trials.algorithms import ALGORITHMS

INK, FAINT, PAPER = "#1b1f24", "#c8ccd1", "#fffffe"
"""Text and axes; rules and grids; the background. Of no other use, so that a page can replace them."""
HUES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
"""Okabe and Ito's colours that can be told from white and from black."""
GREY = "#8a8d91"
"""Of what is not ranked."""
TEXT = 0.5
"""The share of a colour in text that has it, the rest is ink: contrast is at least 4.5 on white and black."""
FIRST = ("fedavg", "fedprox", "safl", "folb", "fedagg", "fedumf")
"""The papers' methods and what all compare with: each has a colour of its own and an unbroken line."""
DASHES = ((1, 0), (7, 2), (2, 2), (8, 2, 2, 2), (2, 5))
WIDTH, HEIGHT, LINE = 420, 240, 12
"""Pixels of a plot, and of a line of text in it."""
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
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A chart, its file name without ending, its title and what it says to who cannot see it."""

    name: str
    title: str
    alt: str
    spec: Spec


def styles(algorithms: Iterable[str], unranked: Collection[str] = ()) -> Look:
    """Colour and dash of each algorithm: on every page the same of one of the project's, and of another's unless
    one beside it has them; those that are nowhere ranked are grey.
    """
    names = list(dict.fromkeys(algorithms))
    pairs = [(hue, dash) for dash, hue in product(DASHES, HUES)]
    own = [*FIRST, *(name for name in ALGORITHMS if name not in FIRST)]
    found = dict[str, tuple[str, Sequence[int]]](zip(own, pairs, strict=False))
    taken = {found.get(name) for name in names}
    for name in sorted({*names} - found.keys()):
        start = crc32(short(name).encode()) % len(pairs)
        wanted = [*pairs[start:], *pairs[:start]]
        found[name] = next((pair for pair in wanted if pair not in taken), wanted[0])
        taken.add(found[name])
    return {name: (GREY, found[name][1]) if name in unranked else found[name] for name in names}


def text_hue(hue: str) -> str:
    """A colour as text has it on white; pages mix it with their own ink (`reports.charts.drawing.inline`)."""
    parts = [(int(hue[i : i + 2], 16), int(INK[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(TEXT * own + (1 - TEXT) * ink):02x}" for own, ink in parts)


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


def number(value: float) -> float:
    """A number as a page carries it: six digits are more than its pixels."""
    return float(f"{value:.6g}")
