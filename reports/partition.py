"""A picture of a partition: clients' sizes over a heat map of clients x labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reports.charts import drawing
from reports.charts.style import Spec, number, top

STEEP = 20


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
    height = {"field": "samples", "type": "quantitative", "scale": {"type": kind}}
    down = {"field": "label", "type": "ordinal", "sort": list(labels)}
    shade: Spec = {"field": "share", "type": "quantitative", "legend": None}
    shade["scale"] = {"domain": [0, 1], "range": ["#d6e6f4", "#08306b"]}
    above = _plot(bars, "bar", {"y": height}) | {"height": 100}
    return top(
        {"title": title, "vconcat": [above, _plot(cells, "rect", {"y": down, "color": shade})]}
    )


def _plot(values: list[dict[str, Any]], mark: str, encoding: Spec) -> Spec:
    axis = {"labelOverlap": True, "labelAngle": 0}
    across = {"x": {"field": "client", "type": "ordinal", "axis": axis}}
    return {"width": 800, "data": {"values": values}, "mark": mark, "encoding": across | encoding}


def png(spec: Spec) -> bytes:
    """Return the figure as PNG."""
    return drawing.drawn(drawing.svg(spec), "png")
