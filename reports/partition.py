"""A picture of a partition: clients' sizes over a heat map of clients x labels."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.charts.drawing import SIGN

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
