"""Results in notebooks: the tables of pages as HTML, and charts as SVG, which need no script."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.charts import drawing
from reports.charts.data import ReportData
from reports.charts.line_charts import Trace, lines, spans
from reports.charts.style import Chart, styles
from reports.document import Block, Text
from reports.leaderboard.board import Leaderboard
from reports.leaderboard.names import told_apart
from reports.page.board_table import tables
from reports.page.gallery import gallery, look_of
from reports.page.page import PICTURE, render
from reports.wording.tables import interim_tables
from reports.wording.words import legend, title_of
from trials.common.errors import unknown
from trials.scoring.metrics import direction, sign

SECTIONS = ("dots", "rounds", "bytes", "cd", "heat", "budget")
"""The kinds of charts that a leaderboard or a sweep has."""


@dataclass(frozen=True)
class Plot:
    """Charts, which a notebook shows; `save` writes each as a file."""

    charts: Sequence[Chart]

    def __repr__(self) -> str:
        return f"Plot of {', '.join(chart.name for chart in self.charts) or 'nothing'}"

    def _repr_html_(self) -> str:
        drawn = [(chart.title, chart.alt, drawing.svg(chart.spec)) for chart in self.charts]
        return render("notebook.html", found=[], drawings=drawn)

    def save(self, folder: str | Path, form: str = "svg") -> list[Path]:
        """Write the charts into a folder as `svg`, `png` or `pdf`; where they are."""
        if form not in drawing.FORMS:
            raise unknown("form of figures", form, drawing.FORMS)
        Path(folder).mkdir(parents=True, exist_ok=True)
        made = drawing.files(self.charts, [form])
        for name, content in made.items():
            (Path(folder) / name).write_bytes(content)
        return [Path(folder) / name for name in made]


def html(blocks: Sequence[Block]) -> str:
    """Blocks of a page for a notebook."""
    return render("notebook.html", found=blocks, drawings=[])


def board_html(board: Leaderboard) -> str:
    """The tables of a leaderboard, as a report has them."""
    data = ReportData(told_apart(board, (row.algorithm for row in board.rows)))
    # Without links, since MLflow's pages may not be served.
    found: list[Block] = [*tables(data, look_of(data), linked=False), *interim_tables(data.board)]
    found.append(Text(f"{legend(board)} {PICTURE}" if board.rows else "", "legend"))
    return html(found)


def board_plot(shown: ReportData | Leaderboard, kinds: Sequence[str] = ()) -> Plot:
    """The charts of a leaderboard, or of a report, all or those of some sections: `dots`, `rounds`, `bytes`, `cd`, `heat`,
    `budget`. Raises `UserError` for others.
    """
    data = ReportData(shown) if isinstance(shown, Leaderboard) else shown
    data = told_apart(data, (row.algorithm for row in data.board.rows))
    found = gallery(data, look_of(data))
    for kind in kinds:
        if kind not in SECTIONS:
            raise unknown("chart", kind, SECTIONS)
    wanted = kinds or list(found)
    return Plot([chart for kind in wanted for chart in found.get(kind, [])])


def run_plot(name: str, history: Sequence[dict[str, float]], metric: str) -> Plot:
    """The curves of a run: its score on validation and on test data against rounds."""
    parts = [part for part in ("val", "test") if f"{part}_{metric}" in history[-1]]
    look = styles(parts)
    x = [entry["round"] for entry in history]
    drawn = [Trace(part, x, [e[f"{part}_{metric}"] for e in history]) for part in parts]
    spec = lines(drawn, look, ("rounds", title_of(metric)), spans(drawn, sign(direction(metric))))
    return Plot([Chart("run", name, f"{name}: {title_of(metric)} against rounds", spec)])
