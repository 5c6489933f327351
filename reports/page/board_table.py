"""The groups of a leaderboard as a page has them: with pictures of intervals, links, and what was tuned."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reports.charts.data import ReportData
from reports.charts.style import LEADERS, Look
from reports.leaderboard.board import Row
from reports.table import Cell, Column, ColumnKind, Line, Table
from reports.wording.tables import board_tables, groups, leads
from reports.wording.words import score_text

STRIP, EDGE = 140, 6.0
"""Width of the picture of an interval, and of its margins."""
FIXED = 4
"""The rank, the name, the score and what it is behind are on every page."""


def tables(data: ReportData, look: Look, linked: bool = True) -> list[Table]:
    """Return the tables of a board, one a group of rows that are ranked together; `linked` to the rows' runs in MLflow."""
    of_groups = zip(board_tables(data.board, ["all"]), groups(data.board).values(), strict=True)
    return [_table(data, content, rows, look, linked) for content, rows in of_groups]


def _table(
    data: ReportData, content: Table, rows: Sequence[Row], look: Look, linked: bool
) -> Table:
    """Return the table without the columns in which all rows are alike, which are said below it."""
    scale = leading(rows)
    heads, last = content.columns, len(content.columns) - 1
    texts = list(zip(*(line.texts for line in content.lines), strict=True))
    full = [i for i in range(FIXED, last) if any(texts[i])]
    same = [i for i in full if len(rows) > 1 and len(set(texts[i])) == 1]
    order = [3, *(i for i in full if i not in same), last]
    ends = " to ".join(score_text(end, rows[0]) for end in scale)
    columns = [*heads[:3], Column(ends, ColumnKind.WORDS, look="bar"), *(heads[i] for i in order)]
    lines = []
    for row, line in zip(rows, content.lines, strict=True):
        cells = line.full
        if linked and row.page:
            cells[1] = replace(cells[1], href=data.server + row.page)
        file = data.tuned.get((row.sweep, row.entry_id), "")
        cells[last] = replace(cells[last], code=file, look="cut")
        picture = Cell("", drawing={**strip(row, scale), "hue": look[row.algorithm][0]})
        words = " ".join([row.algorithm, row.paper, content.title, content.small])
        lines.append(Line([*cells[:3], picture, *(cells[i] for i in order)], line.best, words))
    alike = ", ".join(f"{heads[i].head} {texts[i][0]}" for i in same)
    notes = [f"All rows: {alike}."] if alike else []
    return replace(content, columns=columns, lines=lines, notes=notes, look="board")


def leading(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the range of the intervals of the leaders: of the better half of the rows, at least three, and of
    all that tie with the best.
    """
    lead = [*rows[: max(3, round(LEADERS * len(rows)))], *filter(leads, rows)]
    ends = [v for row in lead for v in (row.mean, row.ci_low, row.ci_high) if v is not None]
    return min(ends), max(ends)


def strip(row: Row, scale: tuple[float, float]) -> dict[str, Any]:
    """Return the picture of a row's interval: where its ends and its mean are, and on which side it leaves the
    scale, -1 or 1, 0 for neither.
    """
    start, end = scale

    def at(value: float | None) -> float:
        score = row.mean if value is None else value
        share = (score - start) / (end - start) if end > start else 0.5
        return round(EDGE + (STRIP - 2 * EDGE) * min(1.0, max(0.0, share)), 1)

    out = -1 if row.mean < start else 1 if row.mean > end else 0
    return {"low": at(row.ci_low), "mean": at(row.mean), "high": at(row.ci_high), "out": out}
