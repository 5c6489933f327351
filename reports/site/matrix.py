"""The first page of a site: methods in rows, scenarios in columns, and what they are filtered by."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reports.charts.data import ReportData
from reports.charts.style import Look
from reports.document import Block, Cards, Facts, Heading, Page, Section, Text
from reports.leaderboard.board import Contest, Leaderboard, Row
from reports.page.gallery import gallery
from reports.page.headline import headline
from reports.page.page import across, show
from reports.site import commands
from reports.site.addresses import FOOTER, Addresses
from reports.site.data import Entry, SiteData
from reports.site.scenarios import sweep_blocks
from reports.table import Cell, Column, ColumnKind, Line, Table
from reports.wording.tables import groups, leads, scenario_text
from reports.wording.words import behind_text, legend, mean_text, short, title_of
from trials.scoring.metrics import direction, sign

SPAN = 0.9
"""The share of a scenario's methods, best first, over whose distances from the best the shades run."""
AT = {"rounds": "rounds", "steps": "client work", "bytes": "bytes sent"}
"""What leaderboards are compared at equal amounts of, in words."""
SCENARIOS = (
    Column("data set", ColumnKind.NAME),
    Column("level", ColumnKind.WORDS),
    Column("model", ColumnKind.WORDS),
    Column("first", ColumnKind.WORDS),
    Column("its score", ColumnKind.WORDS),
    Column("methods"),
    Column("tuning budget", ColumnKind.WORDS),
    Column("final runs"),
)
FILTERS = {"dataset": "Data set", "level": "Level", "model": "Model", "budget": "Budget"}


def page(data: SiteData, to: Addresses, look: Look) -> str:
    """The page."""
    board = data.report.board
    lead, known = headline(board)
    columns = [_column(group, rows, to) for group, rows in groups(board).items()]
    sections = [
        Section("scenarios", "Scenarios", [_scenarios(board, columns)], "Scenarios"),
        Section("methods", "Methods", [_cards(data, to)], "Methods"),
    ]
    if found := across(board, gallery(ReportData(board), look)["cd"]):
        sections.append(Section("across", "Across data sets", found, "Across data sets"))
    if papers := dict.fromkeys(document["paper"] for document in data.papers):
        said = "Its statements and numbers, run again: the verdicts."
        cards = Cards([Cell(name, href=to.paper(name), said=said) for name in papers])
        sections.append(Section("papers", "Papers", [cards], "Papers"))
    sections.append(Section("sources", "Sources", _sources(data, to), "Sources"))
    made = Page(
        title="Leaderboard",
        heading=lead,
        sections=sections,
        lead=known,
        setting=[(name, f"{count:,}") for name, count in _counts(data).items()],
        root="",
        footer=FOOTER,
    )
    return show(
        made,
        "site_index.html",
        filters=_filters(columns),
        at={key: AT[key] for key in data.at},
        columns=columns,
        lines=_lines(data, to, list(groups(board))),
        notes=board.notes,
    )


def _scenarios(board: Leaderboard, columns: Sequence[Mapping[str, Any]]) -> Table:
    """The scenarios with who is first in each; filtered as the matrix is."""
    lines = []
    for of in columns:
        first = Cell(of["dataset"], href=of["href"])
        texts = [of[key] for key in ("level", "model", "best", "score")]
        cells = [first, *texts, str(of["methods"]), of["budget"], str(of["seeds"])]
        lines.append(Line(cells, data={key: of[key] for key in FILTERS}))
    return Table(SCENARIOS, lines, notes=[legend(board, ())])


def _cards(data: SiteData, to: Addresses) -> Cards:
    """A card for each method."""
    return Cards(
        [
            Cell(short(name), href=to.method(name), about=about.paper, said=about.summary)
            for name in _methods(data.report.board)
            for about in [data.methods[name]]
        ]
    )


def _sources(data: SiteData, to: Addresses) -> list[Block]:
    """The sweeps and bundles that the numbers come from."""
    found: list[Block] = []
    for sweep in data.report.sweeps:
        found += sweep_blocks(to, sweep, "", sweep.setting)
    for source in data.sources:
        found += [Heading(source.name), Facts([*source.facts.items()])]
    return [*found, Text("The rows as a table: board.csv", href="board.csv")]


def budget_text(rows: Sequence[Row]) -> str:
    """The tuning budget of a scenario's methods: the most trials of a search, and how many searches."""
    trials, tunings = max(row.trials for row in rows), max(row.tunings for row in rows)
    searches = f"{tunings} x {trials}" if tunings > 1 else f"{trials}"
    return f"{searches} trial{'s' * (trials * tunings != 1)}"


def _methods(board: Leaderboard) -> list[str]:
    return list(dict.fromkeys(row.algorithm for row in board.rows))


def _column(group: Contest, rows: Sequence[Row], to: Addresses) -> dict[str, Any]:
    dataset, model, level = group.scenario
    best = next((row for row in rows if row.rank == 1), rows[0])
    return {
        "dataset": dataset,
        "model": model,
        "level": level + (", warm-started" if group.warm else ""),
        "budget": budget_text(rows),
        "metric": title_of(rows[0].metric),
        "href": to.scenario(group),
        "scenario": scenario_text(group),
        "sweeps": group.sweeps,
        "best": short(best.algorithm),
        "score": mean_text(best),
        "methods": len(rows),
        "seeds": max(row.seeds for row in rows),
    }


def _filters(columns: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The choices of each filter; of those that leave no choice none."""
    found = []
    for key, label in FILTERS.items():
        values = list(dict.fromkeys(column[key] for column in columns))
        found.append({"key": key, "label": label, "values": values})
    return found


def _lines(data: SiteData, to: Addresses, found: Sequence[Contest]) -> list[dict[str, Any]]:
    """A line of the matrix for each method, by its mean rank; entries in the order of the columns."""
    held = {
        at: {(row.algorithm, _key(row.group)): row for row in board.rows}
        for at, board in data.at.items()
    }
    shades = {at: _shades(board) for at, board in data.at.items()}
    shared = {at: _shared(board) for at, board in data.at.items()}
    rows = {(row.algorithm, _key(row.group)): row for row in data.report.board.rows}
    lines = []
    for name in _methods(data.report.board):
        cells: list[dict[str, Any] | None] = []
        for group in found:
            key = name, _key(group)
            row = rows.get(key)
            if row is None:
                cells.append(None)
                continue
            now = {
                at: _number(held[at][key], shades[at], shared[at])
                for at in data.at
                if key in held[at]
            }
            packed = {at: list(number.values()) for at, number in now.items()}
            cells.append({**_told(data, to, row), "at": packed, **now["rounds"]})
        lines.append({"name": short(name), "href": to.method(name), "cells": cells})
    return lines


def _key(group: Contest) -> tuple[object, ...]:
    return (group.scenario, group.warm, group.sweeps)


def _number(
    row: Row, shades: Mapping[Entry, float], shared: Mapping[Entry, float | None]
) -> dict[str, Any]:
    """What the matrix shows of a row at one cost, in the order in which `site.js` takes it."""
    return {
        "text": f"{row.mean:.3f}" if abs(row.mean) < 10 else f"{row.mean:.3g}",
        "rank": row.rank,
        "best": leads(row),
        "near": shades[row.sweep, row.entry_id],
        "score": mean_text(row),
        "behind": behind_text(row).strip(),
        "shared": shared[row.sweep, row.entry_id],
    }


def _shared(board: Leaderboard) -> dict[Entry, float | None]:
    """The rank of each row, of those that tie the mean of the ranks that they take."""
    found: dict[Entry, float | None] = {}
    for rows in groups(board).values():
        ranks = [row.rank for row in rows]
        for row in rows:
            ties = ranks.count(row.rank)
            found[row.sweep, row.entry_id] = None if row.rank is None else row.rank + (ties - 1) / 2
    return found


def _shades(board: Leaderboard) -> dict[Entry, float]:
    """How near each row is to the best that is ranked in its scenario: 1 is the best, 0 far behind."""
    found = {}
    for rows in groups(board).values():
        better = sign(direction(rows[0].metric))
        ranked = [better * row.mean for row in rows if row.rank is not None]
        best = max(ranked, default=better * rows[0].mean)
        span = float(np.quantile([best - mean for mean in ranked or [best]], SPAN)) or 1.0
        for row in rows:
            gap = best - better * row.mean
            found[row.sweep, row.entry_id] = round(1 - min(1.0, max(0.0, gap / span)), 2)
    return found


def _told(data: SiteData, to: Addresses, row: Row) -> dict[str, Any]:
    """What is said of a number when it is asked for: how it came about, its file, and how it is repeated."""
    entry = row.sweep, row.entry_id
    return {
        "href": to.row(row),
        "spec": to.specs.get(entry, ""),
        "options": data.specs[entry].options if entry in data.specs else "",
        "how": commands.how(row),
    }


def _counts(data: SiteData) -> dict[str, int]:
    rows = data.report.board.rows
    return {
        "scenarios": len({row.group for row in rows}),
        "methods": len({row.algorithm for row in rows}),
        "data sets": len({row.dataset for row in rows}),
        "search trials": len(data.report.trials),
        "final runs": sum(row.seeds for row in rows),
    }
