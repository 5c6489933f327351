"""A picture of a partition: clients' sizes over a heat map of clients x labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reports.charts import drawing
from reports.charts.style import Spec, number, top

STEEP = 20
WIDTH = 800


def figure(counts: npt.NDArray[Any], labels: Sequence[str], title: str = "") -> Spec:
    """Return the chart of `counts` (n, C), the training samples of each client and label.

    Colour is the share of a client's own samples, so that small clients are seen as well, white is
    none; how many samples they are stands above, on a logarithmic axis where the largest client has
    more than `STEEP` times the median.
    """
    sizes = counts.sum(1)
    bars = [{"client": k, "samples": size} for k, size in enumerate(sizes.tolist())]
    cells = [
        {"client": k, "label": labels[label], "share": number(counts[k, label] / sizes[k])}
        for k, label in np.argwhere(counts).tolist()
    ]
    kind = "symlog" if sizes.max() > STEEP * np.median(sizes) else "linear"
    across = {"field": "client", "type": "ordinal", "axis": {"labelOverlap": True, "labelAngle": 0}}
    down = {"field": "label", "type": "ordinal", "sort": list(labels)}
    shade: Spec = {"field": "share", "type": "quantitative", "legend": None}
    shade["scale"] = {"domain": [0, 1], "range": ["#d6e6f4", "#08306b"]}
    height = {"field": "samples", "type": "quantitative", "scale": {"type": kind}}
    above = {
        "width": WIDTH,
        "height": 100,
        "data": {"values": bars},
        "mark": {"type": "bar", "color": "#4878a8"},
        "encoding": {"x": {**across, "axis": None}, "y": height},
    }
    below = {
        "width": WIDTH,
        "data": {"values": cells},
        "mark": "rect",
        "encoding": {"x": across, "y": down, "color": shade},
    }
    return top({"title": title, "vconcat": [above, below]})


def png(spec: Spec) -> bytes:
    """Return the figure as PNG."""
    return drawing.drawn(drawing.svg(spec), "png")
