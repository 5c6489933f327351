"""Figures of an entry's search: scores over each hyperparameter, and all hyperparameters at once."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports.page.data import Trial
from reports.page.figures import FAINT, HUES, PAPER, STYLE, blank


def slices(trials: Sequence[Trial], importance: Mapping[str, float], up: bool) -> Figure:
    """Importance of each hyperparameter, and validation score against its value."""
    names = [name for name in _varied(trials) if name in _shared(trials) or name in importance]
    done = _scored(trials, up)
    with mpl.rc_context({**STYLE, "font.size": 7, "axes.titlesize": 7}):
        fig = blank(0.9 + 1.35 * (len(names) + 1), 1.8)
        first, *others = fig.subplots(1, len(names) + 1, squeeze=False)[0]
        shown = sorted(importance, key=lambda name: importance[name])
        first.barh(range(len(shown)), [importance[n] for n in shown], color=HUES[0], height=0.6)
        first.set_yticks(range(len(shown)), shown)
        first.set_title("importance")
        first.xaxis.set_major_locator(MaxNLocator(2))
        first.grid(axis="y", visible=False)
        for axes, name in zip(others, names, strict=True):
            has = [t for t in done if name in t.params]
            x, ticks = _positions([t.params[name] for t in has])
            y = [float(t.value or 0) for t in has]
            axes.scatter(x, y, s=9, color=HUES[0], alpha=0.75, lw=0)
            best = (max if up else min)(range(len(y)), key=y.__getitem__)
            axes.scatter(x[best], y[best], s=55, facecolors="none", edgecolors=HUES[3], lw=1)
            axes.set_title(name)
            _label(axes.xaxis, ticks)
            axes.yaxis.set_major_locator(MaxNLocator(3))
            if axes is not others[0]:
                axes.set_yticklabels([])
    return fig


def parallel(trials: Sequence[Trial], up: bool) -> Figure:
    """Every scored trial as a line through its hyperparameters to its validation score."""
    names = [name for name in _varied(trials) if name in _shared(trials)]
    done = sorted(_scored(trials, up), key=lambda t: float(t.value or 0), reverse=not up)
    columns = [_positions([t.params[name] for t in done]) for name in names]
    columns.append(_positions([float(t.value or 0) for t in done], log=False))
    colours = mpl.colormaps["cividis"]
    with mpl.rc_context({**STYLE, "font.size": 7, "axes.grid": False}):
        fig = blank(0.9 + 1.35 * len(columns), 1.9)
        axes = fig.subplots()
        scaled = []
        for x, _ in columns:
            low, high = min(x), max(x)
            scaled.append([(v - low) / (high - low) if high > low else 0.5 for v in x])
        for i in range(len(done)):
            last = i == len(done) - 1
            tone = HUES[3] if last else colours(0.15 + 0.7 * i / max(1, len(done) - 1))
            axes.plot(
                range(len(columns)),
                [column[i] for column in scaled],
                color=tone,
                lw=1.8 if last else 0.8,
                alpha=1 if last else 0.7,
            )
        for j, (x, ticks) in enumerate(columns):
            axes.axvline(j, color=FAINT, lw=0.8, zorder=0)
            low, high = min(x), max(x)
            ends = ticks or {low: _number(low), high: _number(high)}
            for value, text in ends.items():
                at = (value - low) / (high - low) if high > low else 0.5
                box = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
                axes.text(j + 0.03, at, text, fontsize=6, va="center", ha="left", bbox=box)
        axes.set_xticks(range(len(columns)), [*names, "validation"])
        axes.set_yticks([])
        axes.set_xlim(-0.1, len(columns) - 0.6)
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(length=0)
    return fig


def _scored(trials: Sequence[Trial], up: bool) -> list[Trial]:
    """Trials at full rounds with a score."""
    return [t for t in trials if t.status == "finished" and t.value is not None]


def _varied(trials: Sequence[Trial]) -> list[str]:
    """Hyperparameters with more than one value."""
    names = dict.fromkeys(name for t in trials for name in t.params)
    return [n for n in names if len({str(t.params[n]) for t in trials if n in t.params}) > 1]


def _shared(trials: Sequence[Trial]) -> set[str]:
    """Hyperparameters that every trial has."""
    return set.intersection(*(set(t.params) for t in trials)) if trials else set()


def _positions(values: Sequence[Any], log: bool = True) -> tuple[list[float], dict[float, str]]:
    """Where values stand on an axis, and labels for it: logarithms where positive numbers span a
    factor of 20, as ranges that are searched on a log scale do; choices one after the other.
    """
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not numeric:
        order = sorted({str(v) for v in values})
        return [float(order.index(str(v))) for v in values], {
            float(i): v for i, v in enumerate(order)
        }
    if log and min(values) > 0 and max(values) / min(values) > 20:
        x = [math.log10(v) for v in values]
        return x, {min(x): _number(min(values)), max(x): _number(max(values))}
    return [float(v) for v in values], {}


def _number(value: float) -> str:
    return f"{value:.3g}"


def _label(axis: Any, ticks: Mapping[float, str]) -> None:
    if ticks:
        turned = sum(map(len, ticks.values())) > 16
        axis.set_ticks(list(ticks), list(ticks.values()), rotation=35 if turned else 0)
        for text in axis.get_ticklabels() if turned else ():
            text.set_ha("right")
    else:
        axis.set_major_locator(MaxNLocator(2))
        axis.set_major_formatter(FuncFormatter(lambda v, _: _number(v)))
