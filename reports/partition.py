"""A picture of a partition: clients' sizes over a heat map of clients x labels, as PNG or HTML."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.charts.drawing import SIGN
from reports.document import Block, Fold, Page, Section
from reports.page.page import show
from reports.table import Column, ColumnKind, table

Array = npt.NDArray[Any]
HELD = LinearSegmentedColormap.from_list("held", mpl.colormaps["Blues"](np.linspace(0.15, 1, 256)))
"""Blues without the palest, which cannot be told from white."""
STEEP = 20


def figure(counts: Array, labels: Sequence[str], title: str = "") -> Figure:
    """`counts` (n, C): training samples of each client and label.

    Colour is the share of a client's own samples, so that small clients are seen as well, white is
    none; how many samples they are stands above, on a logarithmic axis where the largest client has
    more than `STEEP` times the median.
    """
    clients, classes = counts.shape
    sizes = counts.sum(1)
    height = float(np.clip(0.22 * classes, 2.0, 9.0))
    fig = Figure(figsize=(10, height + 2.2), layout="constrained")
    above, below = fig.subplots(2, 1, sharex=True, height_ratios=[1.2, height])
    width = 0.9 if clients <= 100 else 1.0  # gaps finer than a pixel only blur
    above.bar(np.arange(clients), sizes, width=width, color="#4878a8", linewidth=0)
    above.set_ylabel("samples")
    if sizes.max() > STEEP * np.median(sizes):
        above.set_yscale("log")
        above.set_ylim(bottom=0.8 * sizes.min())
    above.set_title(title, fontsize=11)
    above.spines[["top", "right"]].set_visible(False)
    share = np.ma.masked_equal(counts / sizes[:, None], 0).T
    image = below.imshow(share, aspect="auto", cmap=HELD, vmin=0, interpolation="none")
    below.set_xlabel("client")
    below.set_ylabel("label")
    below.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    shown = np.arange(0, classes, -(-classes // 40))
    below.set_yticks(shown, [labels[i] for i in shown], fontsize=8)
    fig.colorbar(image, ax=below, label="share of the client's samples", pad=0.01, fraction=0.03)
    return fig


def png(fig: Figure) -> bytes:
    """The figure as PNG."""
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=150, metadata={"Software": SIGN})
    return out.getvalue()


def html(
    fig: Figure,
    title: str,
    facts: Mapping[str, Any],
    summaries: Mapping[str, Mapping[str, float]],
    per_client: Mapping[str, Array],
    counts: Array,
    labels: Sequence[str],
) -> str:
    """One self-contained page: the figure, a summary, and a table with a row for each client."""
    columns = list(next(iter(summaries.values())))
    summary = [[name, *(number(row[c]) for c in columns)] for name, row in summaries.items()]
    clients = [
        [str(k), *(number(values[k]) for values in per_client.values()), *map(number, counts[k])]
        for k in range(len(counts))
    ]
    every = table(_heads("client", [*per_client, *labels]), clients, sortable=False)
    blocks: list[Block] = [
        table(_heads("per client", columns), summary, sortable=False),
        Fold("Every client: samples of each label", [every]),
    ]
    setting = [(key, str(value)) for key, value in facts.items()]
    page = Page(title, title, [Section("clients", "", blocks)], setting=setting)
    return show(page, "partition.html", figure=Markup(_svg(fig)))


def _heads(first: str, numbers: Sequence[str]) -> list[Column]:
    return [Column(first, ColumnKind.NAME), *(Column(name) for name in numbers)]


def _svg(fig: Figure) -> str:
    """The figure as an inline element; the same bytes for the same figure."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "suite"}):
        fig.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def number(value: float) -> str:
    """Whole numbers as they are, others to three decimals."""
    return f"{value:.0f}" if value == int(value) else f"{value:.3f}"
