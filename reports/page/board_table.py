"""A group of a leaderboard as the table of a page: which columns, what they say, how they sort."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reports.leaderboard.leaderboard import Row
from reports.leaderboard.wording import (
    behind_text,
    label,
    mean_text,
    number,
    params_text,
    rank_text,
    title_of,
    to_target_text,
    total_bytes,
    verdict,
)
from reports.page.data import ReportData, leads
from reports.page.gallery import groups, scenario_text
from reports.page.style import LEADERS, Look
from trials.scoring.metrics import direction, sign

STRIP = 140
"""Width of the picture of an interval."""


@dataclass(frozen=True)
class BoardColumn:
    """A column beyond those that every table has. `better` is 1 where more is better, -1 where less."""

    head: str
    text: Callable[[Row], str]
    value: Callable[[Row], float | None]
    better: int


def tables(data: ReportData, look: Look) -> list[dict[str, Any]]:
    """The tables of a board, one a group of rows that are ranked together."""
    return [
        _table(data, look, scenario_text(group), group.sweeps, rows)
        for group, rows in groups(data.board).items()
    ]


def _table(
    data: ReportData, look: Look, where: str, sweeps: str, rows: Sequence[Row]
) -> dict[str, Any]:
    wanted = [c for c in _columns(rows, data.board.target) if any(c.text(row) for row in rows)]
    same = [c for c in wanted if len(rows) > 1 and len({c.text(row) for row in rows}) == 1]
    shown = [column for column in wanted if column not in same]
    scale = leading(rows)
    better = sign(direction(rows[0].metric))
    return {
        "scenario": where,
        "sweeps": sweeps,
        "metric": title_of(rows[0].metric),
        "better": better,
        "verdict": verdict(list(rows)),
        "columns": shown,
        "same": ", ".join(f"{column.head} {column.text(rows[0])}" for column in same),
        "scale": tuple(map(number, scale)),
        "rows": [_row(data, row, scale, look[row.algorithm][0], shown) for row in rows],
    }


def _columns(rows: Sequence[Row], target: float | None) -> list[BoardColumn]:
    better = sign(direction(rows[0].metric))
    found = [
        BoardColumn(
            "worst 10 %", lambda r: number(r.worst_clients), lambda r: r.worst_clients, better
        ),
        BoardColumn("spread", lambda r: number(r.client_spread), lambda r: r.client_spread, -1),
        BoardColumn(
            "k samples",
            lambda r: f"{r.sample_gradients / 1e3:,.0f}",
            lambda r: r.sample_gradients,
            -1,
        ),
        BoardColumn("MB", lambda r: f"{total_bytes(r) / 1e6:,.2f}", total_bytes, -1),
        BoardColumn("seeds", _seeds, lambda r: r.seeds - r.failed_seeds, 1),
        BoardColumn("trials", lambda r: str(r.trials), lambda r: r.trials, 1),
    ]
    if target is not None:
        head = f"rounds to {target:g}"
        found.insert(0, BoardColumn(head, to_target_text, lambda r: r.rounds_to_target, -1))
    return found


def _seeds(row: Row) -> str:
    return f"{row.seeds}" + (f" ({row.failed_seeds} diverged)" if row.failed_seeds else "")


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


def _row(
    data: ReportData, row: Row, scale: tuple[float, float], hue: str, shown: Sequence[BoardColumn]
) -> dict[str, Any]:
    return {
        "row": row,
        "hue": hue,
        "strip": strip(row, scale),
        "name": label(row),
        "rank": rank_text(row),
        "link": data.server + row.page if row.page else "",
        "about": "The run in MLflow",
        **dict.fromkeys(("fragment", "spec", "repeat"), ""),  # of sites
        "score": mean_text(row),
        "behind": behind_text(row),
        "cells": [(column.text(row), column.value(row)) for column in shown],
        "params": params_text(row.params),
        "tuned": data.tuned.get((row.sweep, row.entry_id), ""),
        "best": leads(row),
    }
