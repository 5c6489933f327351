"""The groups of a leaderboard as a page has them: with pictures of intervals, links, and what was tuned."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reports.charts.data import ReportData
from reports.charts.style import LEADERS, Look
from reports.leaderboard.board import Row
from reports.table import Cell, Column, ColumnKind, Line, Table
from reports.wording.tables import board_tables, groups, leads
from reports.wording.words import label, params_text, score_text

STRIP = 140
"""Width of the picture of an interval."""
FIXED = 4
"""The rank, the name, the score and what it is behind are on every page."""


def tables(data: ReportData, look: Look, linked: bool = True) -> list[Table]:
    """The tables of a board, one a group of rows that are ranked together; `linked` to the rows' runs in MLflow."""
    return [
        _table(data, found, rows, look, linked)
        for found, rows in zip(
            board_tables(data.board, ["all"]), groups(data.board).values(), strict=True
        )
    ]


def _table(data: ReportData, found: Table, rows: Sequence[Row], look: Look, linked: bool) -> Table:
    """The table without the columns in which all rows are alike, which are said below it."""
    scale = leading(rows)
    texts = [[line.texts[i] for line in found.lines] for i in range(len(found.columns))]
    last = len(found.columns) - 1
    wanted = [i for i in range(FIXED, last) if any(texts[i])]
    same = [i for i in wanted if len(rows) > 1 and len(set(texts[i])) == 1]
    kept = [i for i in wanted if i not in same]
    ends = " to ".join(score_text(end, rows[0]) for end in scale)
    bar = Column(ends, ColumnKind.WORDS, look="bar")
    lines = []
    for row, line in zip(rows, found.lines, strict=True):
        cells = line.full
        name, tuned = cells[1], Cell(cells[last].text, look="cut")
        if linked and row.page:
            name = Cell(label(row), href=data.server + row.page, about="The run in MLflow")
        if file := data.tuned.get((row.sweep, row.entry_id)):
            tuned = Cell(params_text(row.params), code=file)
        picture = Cell("", drawing={**strip(row, scale), "hue": look[row.algorithm][0]})
        score = replace(cells[2], value=row.mean)
        shown = [cells[0], name, score, picture, cells[3], *(cells[i] for i in kept), tuned]
        words = " ".join([row.algorithm, row.paper, found.title, found.small])
        lines.append(Line(shown, line.best, words))
    columns = found.columns
    heads = [*columns[:3], bar, columns[3], *(columns[i] for i in kept), columns[last]]
    alike = ", ".join(f"{columns[i].head} {texts[i][0]}" for i in same)
    notes = [f"All rows: {alike}."] if alike else []
    return replace(found, columns=heads, lines=lines, notes=notes, look="board")


def leading(rows: Sequence[Row]) -> tuple[float, float]:
    """The range of the intervals of the leaders: of the better half of the rows, at least three, and of
    all that tie with the best.
    """
    lead = rows[: max(3, round(LEADERS * len(rows)))]
    lead = [*lead, *filter(leads, rows)]
    ends = [v for row in lead for v in (row.mean, row.ci_low, row.ci_high) if v is not None]
    return min(ends), max(ends)


def strip(row: Row, scale: tuple[float, float]) -> dict[str, Any]:
    """The picture of a row's interval: where its ends and its mean are, and on which side it leaves the
    scale, -1 or 1, 0 for neither.
    """
    start, end = scale
    edge = 6.0

    def at(value: float | None) -> float:
        known = row.mean if value is None else value
        share = (known - start) / (end - start) if end > start else 0.5
        return round(edge + (STRIP - 2 * edge) * min(1.0, max(0.0, share)), 1)

    out = -1 if row.mean < start else 1 if row.mean > end else 0
    return {"low": at(row.ci_low), "mean": at(row.mean), "high": at(row.ci_high), "out": out}
