"""The groups of a leaderboard as a page has them: with pictures of intervals, links, and what was tuned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reports.charts.data import ReportData
from reports.charts.style import LEADERS, Look
from reports.leaderboard.board import Row
from reports.table import Cell, Column, ColumnKind, Line, Table
from reports.wording.tables import board_tables, groups, leads
from reports.wording.words import label, number, params_text

STRIP = 140
"""Width of the picture of an interval."""
FIXED = 4
"""The rank, the name, the score and what it is behind are on every page."""
Links = Callable[[Row], Mapping[str, Cell]]
"""What a row's `name`, `score` and `tuned` cells are, and its fragment (`key`); one that is not given stays as it is."""


def tables(data: ReportData, look: Look, links: Links | None = None) -> list[Table]:
    """The tables of a board, one a group of rows that are ranked together."""
    linked = links or (lambda row: _linked(data, row))
    return [
        _table(found, rows, look, linked)
        for found, rows in zip(
            board_tables(data.board, wide=True), groups(data.board).values(), strict=True
        )
    ]


def _table(found: Table, rows: Sequence[Row], look: Look, linked: Links) -> Table:
    """The table without the columns in which all rows are alike, which are said below it."""
    scale = leading(rows)
    texts = [[line.texts[i] for line in found.lines] for i in range(len(found.columns))]
    last = len(found.columns) - 1
    wanted = [i for i in range(FIXED, last) if any(texts[i])]
    same = [i for i in wanted if len(rows) > 1 and len(set(texts[i])) == 1]
    kept = [i for i in wanted if i not in same]
    bar = Column(" to ".join(map(number, scale)), ColumnKind.MARKED, look="bar")
    lines = []
    for row, line in zip(rows, found.lines, strict=True):
        cells, links = line.full, linked(row)
        tuned = links.get("tuned") or Cell(cells[last].text, look="cut")
        picture = Cell("", drawing={**strip(row, scale), "hue": look[row.algorithm][0]})
        name, score = links.get("name") or cells[1], links.get("score") or cells[2]
        score = replace(score, value=row.mean)
        shown = [cells[0], name, score, picture, cells[3], *(cells[i] for i in kept), tuned]
        words = " ".join([row.algorithm, row.paper, found.title, found.small])
        lines.append(Line(shown, line.best, words, links["key"].text if "key" in links else ""))
    columns = found.columns
    heads = [*columns[:3], bar, columns[3], *(columns[i] for i in kept), columns[last]]
    alike = ", ".join(f"{columns[i].head} {texts[i][0]}" for i in same)
    notes = [f"All rows: {alike}."] if alike else []
    return replace(found, columns=heads, lines=lines, notes=notes, look="board")


def _linked(data: ReportData, row: Row) -> dict[str, Cell]:
    """A row of a report leads to its run in MLflow, and has its tuned file."""
    found: dict[str, Cell] = {}
    if row.page:
        found["name"] = Cell(label(row), href=data.server + row.page, about="The run in MLflow")
    if tuned := data.tuned.get((row.sweep, row.entry_id)):
        found["tuned"] = Cell(params_text(row.params), code=tuned)
    return found


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
