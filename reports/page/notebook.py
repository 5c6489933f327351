"""Results in notebooks: tables as HTML and charts as SVG, none of which needs a script."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.charts import drawing
from reports.charts.charts import Trace, lines, unit
from reports.charts.style import Chart, styles
from reports.leaderboard.board import Leaderboard, ReportData
from reports.leaderboard.names import as_shown
from reports.page.page import SECTIONS, gallery, look_of, page_legend, render, tables
from reports.table import Block, Text
from reports.wording.tables import interim_tables
from reports.wording.words import head_of, title_of
from trials.common.errors import unknown
from trials.scoring.metrics import direction, sign


@dataclass(frozen=True)
class Plot:
    """Charts that a notebook displays; `save` writes each as a file."""

    charts: Sequence[Chart]

    def __repr__(self) -> str:
        return f"Plot of {', '.join(chart.name for chart in self.charts) or 'nothing'}"

    def _repr_html_(self) -> str:
        drawn = [(chart.title, chart.alt, drawing.svg(chart.spec)) for chart in self.charts]
        return render("notebook.html", content=[], drawings=drawn)

    def save(self, folder: str | Path, form: str = "svg") -> list[Path]:
        """Write the charts into a folder as `svg`, `png` or `pdf`, and return the paths; raise `UserError` for another form."""
        if form not in drawing.FORMS:
            raise unknown("form of figures", form, drawing.FORMS)
        Path(folder).mkdir(parents=True, exist_ok=True)
        files = drawing.files(self.charts, [form])
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        return [Path(folder) / name for name in files]


@dataclass(frozen=True, repr=False)
class ShownBoard(Leaderboard):
    """A leaderboard that a notebook displays with the tables of a report."""

    @classmethod
    def of(cls, board: Leaderboard) -> "ShownBoard":
        """Return a copy of a leaderboard that notebooks display as tables."""
        return cls(**vars(board))

    def _repr_html_(self) -> str:
        return board_html(self)

    def plot(self, *kinds: str) -> Plot:
        """Return the charts of these kinds (default: both): `dots` shows scores with intervals, `ranks` shows average ranks.
        For charts of curves, call a sweep's `plot`.
        """
        return board_plot(ReportData(self), kinds)


def html(blocks: Sequence[Block]) -> str:
    """Return paragraphs and tables as HTML for a notebook."""
    return render("notebook.html", content=blocks, drawings=[])


def board_html(board: Leaderboard) -> str:
    """Return a leaderboard's tables as HTML for a notebook, as a report shows them."""
    data = ReportData(as_shown(board, board))
    # Without links, since MLflow's pages may not be served.
    blocks: list[Block] = [*tables(data, look_of(data), linked=False), *interim_tables(data.board)]
    return html([*blocks, Text(page_legend(board) if board.rows else "", "legend")])


def board_plot(data: ReportData, kinds: Sequence[str] = ()) -> Plot:
    """Return a report's charts of these kinds, such as `dots` (default: all). Raise `UserError` for an unknown kind."""
    data = as_shown(data, data.board)
    charts = gallery(data, look_of(data))
    shown: list[Chart] = []
    for kind in kinds or charts:
        if kind not in SECTIONS:
            raise unknown("chart", kind, SECTIONS)
        shown += charts.get(kind, [])
    return Plot(shown)


def run_plot(name: str, history: Sequence[dict[str, float]], metric: str) -> Plot:
    """Return a chart of a run's validation and test scores by round, from its evaluations `history`."""
    traces = []
    for part in ("val", "test"):
        if f"{part}_{metric}" in history[-1]:
            scores = [unit(metric) * entry[f"{part}_{metric}"] for entry in history]
            traces.append(Trace(part, [entry["round"] for entry in history], scores))
    look, better = styles(trace.algorithm for trace in traces), sign(direction(metric))
    spec = lines(traces, look, ("rounds", head_of(metric)), better)
    return Plot([Chart("run", name, f"{name}: {title_of(metric)} against rounds", spec)])
