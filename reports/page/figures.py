"""Figures of a report, one question each, drawn with Matplotlib and coloured for every eye.

An algorithm has the same colour and dash in all figures. `inline` gives an SVG element whose ink
follows the page (dark or light) and whose lines can be hidden by class; `files` the same figure with
its legend as SVG, PNG and PDF.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.leaderboard.pareto import Front
from reports.leaderboard.statistics import Across, interval
from reports.leaderboard.wording import short, title_of
from reports.page.data import Curve

INK, FAINT, PAPER = "#1b1f24", "#c8ccd1", "#fffffe"
"""Text and axes; rules and grids; the background. Of no other use, so that a page can replace them."""
HUES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a8d91")
"""Okabe and Ito's colours that can be told from white and from black."""
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (2, 4)),
)
Style = Mapping[str, tuple[str, Any]]
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Drawn:
    """A figure, its file name without ending, its title and what it says to who cannot see it."""

    name: str
    title: str
    alt: str
    figure: Figure

    @property
    def width(self) -> int:
        """The figure's natural width on a page, in CSS pixels."""
        return round(float(self.figure.get_size_inches()[0]) * 96)


SIGN = "made by suite-fl"
"""In every page and figure that is written as a file, so that it is known again."""


def styles(algorithms: Sequence[str]) -> Style:
    """Colour and dash of each algorithm."""
    pairs = [(hue, dash) for dash, hue in product(DASHES, HUES)]
    return {name: pairs[i % len(pairs)] for i, name in enumerate(algorithms)}


def slug(text: str) -> str:
    """Text as part of a file name or a CSS class."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def inline(drawn: Drawn) -> str:
    """The figure as an SVG element: no size, no ids that another figure has, ink by CSS variables."""
    out = io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": drawn.name}):
        _settle(drawn.figure)
        drawn.figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="s-([^"]*)">', r'<g class="s s-\1">', text)
    text = re.sub(r'<g id="[A-Za-z0-9]+_\d+">', "<g>", text)
    text = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{drawn.name}-", text)
    text = re.sub(r'xml:space="preserve"|xmlns:xlink="[^"]*"', "", text)
    text = re.sub(r"(\d+\.\d{2})\d+", r"\1", text)
    for colour, name in ((INK, "ink"), (FAINT, "faint"), (PAPER, "paper")):
        text = text.replace(colour, f"var(--{name})")
    text = re.sub(r">\s+<", "><", text)
    text = re.sub(r'^<svg width="[^"]*" height="[^"]*"', "<svg", re.sub(r"\s+", " ", text))
    label = drawn.alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1).replace(
        "xlink:href", "href"
    )


def files(drawn: Drawn, folder: Path, forms: Sequence[str] = ("svg", "png", "pdf")) -> None:
    """Write the figure, with a legend where lines have names."""
    handles: dict[str, Any] = {}
    for axes in drawn.figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        drawn.figure.set_layout_engine("constrained")
        drawn.figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=4,
            frameon=False,
            fontsize=7,
        )
    with mpl.rc_context({**STYLE, "svg.hashsalt": drawn.name}):
        _settle(drawn.figure)
        for form in forms:
            path = folder / f"{drawn.name}.{form}"
            drawn.figure.savefig(path, format=form, dpi=150, metadata=metadata(form))


def metadata(form: str) -> dict[str, str | None]:
    """What a figure's file says of itself, in its form's words: who made it, and not when."""
    if form == "png":
        return {"Software": SIGN}
    return {"Creator": SIGN, "CreationDate" if form == "pdf" else "Date": None}


def _settle(figure: Figure) -> None:
    """Lay the figure out once; every file would do it again."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def blank(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, in the report's style."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def curves(found: Sequence[Curve], look: Style, metric: str, against: str) -> Figure:
    """Mean over seeds with a band of its 95 % interval, against rounds or bytes."""
    with mpl.rc_context(STYLE):
        fig = blank(4.4, 3.0)
        axes = fig.subplots()
        for name in dict.fromkeys(curve.algorithm for curve in found):
            x, rows = _together([c for c in found if c.algorithm == name], against)
            bands = [interval(row) for row in rows]
            hue, dash = look[name]
            means = [float(np.mean(row)) for row in rows]
            low = [m if b[0] is None else b[0] for m, b in zip(means, bands, strict=True)]
            high = [m if b[1] is None else b[1] for m, b in zip(means, bands, strict=True)]
            axes.plot(
                x, means, color=hue, ls=dash, lw=1.5, label=short(name), gid=f"s-{slug(name)}"
            )
            axes.fill_between(x, low, high, color=hue, alpha=0.15, lw=0, gid=f"s-{slug(name)}")
        axes.set_xlabel("rounds" if against == "rounds" else "MB sent, all directions")
        axes.set_ylabel(title_of(metric))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.margins(x=0)
        _limit(axes, [v for curve in found for v in curve.scores])
    return fig


def _together(found: Sequence[Curve], against: str) -> tuple[list[float], list[list[float]]]:
    """Mean abscissa and all seeds' scores at each evaluation that all seeds had."""
    count = min(len(curve.scores) for curve in found)
    if against == "rounds":
        x = [float(r) for r in found[0].rounds[:count]]
    else:
        x = [float(np.mean([c.sent_bytes[i] for c in found])) / 1e6 for i in range(count)]
    return x, [[c.scores[i] for c in found] for i in range(count)]


def _limit(axes: Axes, values: Sequence[float]) -> None:
    """Errors may start at any size; show what all but the first few evaluations need."""
    known = [v for v in values if math.isfinite(v)]
    if known and max(known) > 1.5:
        axes.set_ylim(0, float(np.quantile(known, 0.95)) * 1.1)


def budget(found: Mapping[str, Sequence[float]], look: Style, label: str) -> Figure:
    """Best-so-far (or average rank) of each algorithm against search trials."""
    with mpl.rc_context(STYLE):
        fig = blank(4.4, 3.0)
        axes = fig.subplots()
        for name, values in found.items():
            hue, dash = look[name]
            axes.step(
                range(1, len(values) + 1),
                values,
                where="post",
                color=hue,
                ls=dash,
                lw=1.5,
                label=short(name),
                gid=f"s-{slug(name)}",
            )
        axes.set_xlabel("search trials")
        axes.set_ylabel(label)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if "rank" in label:
            axes.invert_yaxis()
            axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    return fig


def fronts(found: Sequence[Front], look: Style) -> Figure:
    """What each algorithm scores on validation data at most at a cost; its best and knee are ringed."""
    with mpl.rc_context(STYLE):
        fig = blank(4.4, 3.0)
        axes = fig.subplots()
        unit = 1e6 if found[0].cost.endswith("_bytes") else 1
        for front in found:
            hue, dash = look[front.algorithm]
            gid = f"s-{slug(front.algorithm)}"
            x = [point.cost / unit for point in front.points]
            y = [point.val_score for point in front.points]
            named: dict[str, Any] = {"color": hue, "label": short(front.algorithm), "gid": gid}
            axes.step(x, y, where="post", ls=dash, lw=1.5, marker="o", ms=3, **named)
            ringed = [i for i, point in enumerate(front.points) if point.role]
            ring: dict[str, Any] = {"ms": 8, "mfc": "none", "color": hue, "gid": gid}
            axes.plot([x[i] for i in ringed], [y[i] for i in ringed], "o", **ring)
        known = [p.cost for front in found for p in front.points]
        if min(known) > 0 and max(known) > 30 * min(known):
            axes.set_xscale("log")
        cost = found[0].cost.replace("_", " ")
        axes.set_xlabel(cost.replace(" bytes", " MB") if unit > 1 else cost)
        axes.set_ylabel(f"validation {found[0].metric}")
    return fig


def critical_difference(found: Across) -> Figure:
    """Average ranks on a line, best left; bars join what Nemenyi's test cannot tell apart."""
    k, ranks = len(found.algorithms), found.ranks
    half = math.ceil(k / 2)
    width = found.critical_difference or 0.0
    bars: list[tuple[int, int]] = []
    for i in range(k):
        j = max(m for m in range(k) if ranks[m] - ranks[i] <= width)
        if j > i and (not bars or j > bars[-1][1]):
            bars.append((i, j))
    with mpl.rc_context(STYLE):
        fig = blank(4.6, 1.15 + 0.2 * half + 0.12 * len(bars))
        axes = fig.subplots()
        axes.set_axis_off()
        margin = 0.42 * max(1, k - 1)
        axes.set_xlim(1 - margin, k + margin)
        lowest = -0.9 - 0.4 * len(bars) - half
        axes.set_ylim(lowest, 2.4)
        axes.plot([1, k], [0, 0], color=INK, lw=1)
        for tick in range(1, k + 1):
            axes.plot([tick, tick], [0, 0.18], color=INK, lw=0.8)
            axes.text(tick, 0.32, str(tick), ha="center", va="bottom", fontsize=7)
        shown = min(width, k - 1)
        axes.plot([1, 1 + shown], [1.5, 1.5], color=INK, lw=1.2, marker="|", ms=5)
        beyond = ", more than all ranks span" if width > k - 1 else ""
        text = f"critical difference {width:.2f}{beyond}"
        axes.text(1, 1.7, text, ha="left", va="bottom", fontsize=7)
        for i, (first, last) in enumerate(bars):
            y = -0.4 - 0.4 * i
            axes.plot([ranks[first] - 0.04, ranks[last] + 0.04], [y, y], color=HUES[3], lw=3)
        base = -0.5 - 0.4 * len(bars)
        for i, (name, rank) in enumerate(zip(found.algorithms, ranks, strict=True)):
            left = i < half
            y = base - (i if left else k - 1 - i)
            end, align = (1 - 0.05 * k, "right") if left else (k + 0.05 * k, "left")
            axes.plot([rank, rank, end], [0, y, y], color=INK, lw=0.7)
            axes.plot([rank], [0], color=INK, marker="o", ms=3)
            pad = -0.02 * k if left else 0.02 * k
            label = f"{short(name)} {rank:.2f}"
            axes.text(end + pad, y, label, ha=align, va="center", fontsize=8)
    return fig


def heat(
    scores: Sequence[Sequence[float | None]], rows: Sequence[str], columns: Sequence[str]
) -> Figure:
    """Scores of algorithms (rows) in cells (columns); the deeper the nearer to the cell's best."""
    table = np.array([[np.nan if v is None else v for v in row] for row in scores], float)
    behind = np.nanmax(table, axis=0) - table
    span = float(np.nanquantile(behind, 0.9)) or 1.0
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        width = 1.5 + 0.62 * len(columns)
        fig = blank(max(3.6, width), 1.5 + 0.27 * len(rows))
        axes = fig.subplots()
        shade = mpl.colormaps["Blues"](0.75 - 0.72 * np.clip(behind / span, 0, 1))
        shade[~np.isfinite(table)] = 0
        axes.imshow(shade, aspect="auto", interpolation="none")
        for i, j in product(range(len(rows)), range(len(columns))):
            if np.isfinite(table[i, j]):
                dark = shade[i, j, :3] @ (0.3, 0.59, 0.11) < 0.6
                text = f"{abs(table[i, j]):.3f}".lstrip("0")
                # not INK and PAPER, which a page would turn over
                tone = "#ffffff" if dark else "#111111"
                axes.text(j, i, text, ha="center", va="center", fontsize=7, color=tone)
        axes.set_yticks(range(len(rows)), [short(name) for name in rows])
        axes.set_xticks(range(len(columns)), columns, rotation=40, ha="right", fontsize=7)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return fig
