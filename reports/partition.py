"""A picture of a partition: clients' sizes over a heat map of clients x labels, as PNG or HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from reports.charts import drawing
from reports.charts.style import Spec, number, top
from reports.document import Page, Section
from reports.page.page import show
from reports.table import Column, ColumnKind, table

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


def html(
    spec: Spec,
    title: str,
    facts: Mapping[str, Any],
    summaries: Mapping[str, Mapping[str, float]],
) -> str:
    """Return one self-contained page: the figure and a summary over clients."""
    names = list(next(iter(summaries.values())))
    head = [Column("per client", ColumnKind.NAME), *map(Column, names)]
    rows = [[what, *(f"{row[name]:.4g}" for name in names)] for what, row in summaries.items()]
    blocks = [table(head, rows, sortable=False)]
    setting = [(key, str(value)) for key, value in facts.items()]
    page = Page(title, title, [Section("clients", "", blocks)], setting=setting)
    return show(page, "partition.html", figure=Markup(drawing.svg(spec)))
