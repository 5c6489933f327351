"""The report of a study: one HTML file that needs nothing else, and its charts as files.

What is shown comes from `ReportData` alone, and where it stands is in `reports/templates/report.html`.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reports.charts import drawing
from reports.charts.data import ReportData
from reports.charts.drawing import FORMS, SIGN
from reports.charts.style import Look
from reports.leaderboard import interim
from reports.leaderboard.board import Leaderboard
from reports.leaderboard.names import as_shown, without_paths
from reports.page.board_table import tables
from reports.page.gallery import SECTIONS, Gallery, gallery, look_of
from reports.page.headline import headline
from reports.table import Cell, Cells, Table, table, visible
from reports.wording import audits
from reports.wording.tables import across_table, interim_tables, overview, several
from reports.wording.words import HEADS, legend, setting_notes, short
from trials.run.outcome import Status

PICTURE = (
    "The picture of an interval spans the leaders; an arrow: the row lies outside. Shaded: what may be the best. Click a "
    "heading to sort, best first."
)
"""What a table on a page has beyond the terminal's."""


def build(data: ReportData, forms: Iterable[str] = FORMS) -> tuple[str, dict[str, bytes]]:
    """Return the page, and its figures as files of these forms by name."""
    data = as_shown(data, data.board)
    look = look_of(data)
    charts = gallery(data, look)
    figures = [chart for of_section in charts.values() for chart in of_section]
    return _report(data, look, charts), drawing.files(figures, forms)


def leaderboard_page(board: Leaderboard) -> str:
    """Return a leaderboard alone as a page: no charts, no search."""
    data = ReportData(as_shown(board, board))
    return _report(data, look_of(data), {})


def _report(data: ReportData, look: Look, charts: Gallery) -> str:
    board = data.board
    drawn = {key: drawing.inlined(charts.get(key, [])) for key in SECTIONS[1:]}
    lead, more = headline(board)
    return render(
        "report.html",
        title=f"{board.study} · leaderboard",
        board=board,
        lead=lead,
        more=more,
        setting=[*_setting(data).items()],
        tables=tables(data, look),
        notes=[*board.notes, *setting_notes(board.rows)],
        legend=page_legend(board),
        heads=[*HEADS.items()],
        interim=interim,
        standings=interim_tables(board),
        audits=audits,
        audit=audits.audit_table(board),
        findings=audits.findings(board.rows),
        across=[across_table(*pair) for pair in several(board).items()],
        overview=overview(board),
        charts=drawn,
        chips=[(short(name), *style) for name, style in look.items()] if charts else [],
        failures=_failures(data),
        data=data,
        script=drawing.script() if charts else "",
    )


def page_legend(board: Leaderboard) -> str:
    """Say how the rows were made, and what the pictures are."""
    return f"{legend(board)} {PICTURE}"


def _setting(data: ReportData) -> dict[str, str]:
    """Return what was the same for all algorithms, when and how long it ran, where sweeps differ of each, and how many there
    are of what.
    """
    rows, facts = data.board.rows, dict[str, dict[str, None]]()
    for sweep in data.sweeps:
        for key, value in sweep.setting.items():
            facts.setdefault(key, {})[value] = None
    counts = {
        "scenarios": len({row.group for row in rows}),
        "algorithms": len({row.algorithm for row in rows}),
        "search trials": sum(map(len, data.trials.values())),
        "final runs": sum(row.seeds for row in rows),
        "diverged finals": sum(row.failed_seeds for row in rows),
        "crashed": sum(failure.status == Status.FAILED for failure in data.failures),
    }
    values = {key: " / ".join(of_sweeps) for key, of_sweeps in facts.items()}
    return values | {name: str(count) for name, count in counts.items() if count}


def _failures(data: ReportData) -> Table:
    rows: list[Cells] = [
        [
            Cell(failure.name, href=data.server + failure.page),
            failure.kind,
            failure.status,
            Cell(failure.error or "the loss was not finite", look="code"),
        ]
        for failure in data.failures
    ]
    return table(["run", "kind", "status", "end of the error"], rows)


def render(template: str, **content: Any) -> str:
    """Return a page from a template of the project's. No text in it names a folder of somebody's disk."""
    return _templates().get_template(template).render(sign=SIGN, **content)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        finalize=lambda value: _shown(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = _coded
    return environment


def _shown(text: str) -> str:
    return without_paths(visible(text))


def _coded(text: str) -> Markup:
    """Return text with what stands in backticks as code, and powers raised elsewhere."""
    parts = re.split(r"`([^`]+)`", str(escape(_shown(text))))
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<=\w)\^(\d+)", r"<sup>\1</sup>", parts[i])
    parts[1::2] = [f"<code>{part}</code>" for part in parts[1::2]]
    return Markup("".join(parts))
