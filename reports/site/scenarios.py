"""The page of a scenario: its board with intervals, curves, audit, and where its numbers come from."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reports.leaderboard.budget import Budgets
from reports.leaderboard.leaderboard import Contest, Row
from reports.leaderboard.wording import legend, short, title_of, tuning_notes
from reports.page import line_charts
from reports.page.board_table import tables
from reports.page.data import PRINT, ReportData, SweepFacts
from reports.page.gallery import gallery, groups, scenario_text
from reports.page.headline import headline, setting
from reports.page.line_charts import Line
from reports.page.page import audit, chips, inlined, render
from reports.page.style import Chart, Look, Spec
from reports.site import commands
from reports.site.addresses import Addresses
from reports.site.data import SiteData
from trials.scoring.metrics import direction, sign

POINTS = 16
"""Budgets that a curve is drawn at, evenly on a log scale."""
CHARTS = {
    "rounds": "Test score against rounds",
    "bytes": "Test score against bytes",
    "expected": "Expected test score against the tuning budget",
    "fronts": "Score against cost",
}


def pages(data: SiteData, to: Addresses, look: Look) -> dict[str, str]:
    """The pages of all scenarios, by their addresses."""
    found = groups(data.report.board)
    return {to.scenario(group): _page(data, to, look, group) for group in found}


def _page(data: SiteData, to: Addresses, look: Look, group: Contest) -> str:
    report = of_scenario(data.report, group)
    board, rows = report.board, list(report.board.rows)
    lead, known = headline(board)
    own = {row.algorithm: look[row.algorithm] for row in rows}
    drawn = gallery(report, look)
    drawn["expected"] = [_expected(of, own, rows[0].metric) for of in board.budgets]
    (table,) = tables(report, look)
    for line in table["rows"]:
        line |= _linked(data, to, line["row"])
    return render(
        "site_scenario.html",
        root="../",
        title=scenario_text(group),
        scenario=scenario_text(group),
        lead=lead,
        known=known,
        setting=setting(report.sweeps),
        table=table,
        legend=legend(board),
        said=tuning_notes(board, rows),
        notes=board.notes,
        chips=chips(own),
        charts=inlined(
            [
                replace(chart, title=title, spec=_packed(chart.spec))
                for key, title in CHARTS.items()
                for chart in drawn[key]
            ]
        ),
        audit=audit(board),
        sweeps=[
            {
                "name": s.name,
                "study": s.study,
                "facts": _facts(s, group),
                "href": to.study(s.name),
                "again": commands.search(to, s.name),
            }
            for s in report.sweeps
        ],
    )


def of_scenario(report: ReportData, group: Contest) -> ReportData:
    """What a report says of one scenario."""
    board = report.board
    rows = tuple(row for row in board.rows if row.group == group)
    names = {row.sweep for row in rows}
    mine = replace(
        board,
        rows=rows,
        overall={},
        notes=tuple(note for note in board.notes if note.startswith(f"{group.scenario}:")),
        pareto=tuple(f for f in board.pareto if f.scenario == group.scenario and f.sweep in names),
        budgets=tuple(
            f for f in board.budgets if f.scenario == group.scenario and f.sweep in names
        ),
        searched={name: way for name, way in board.searched.items() if name in names},
    )
    return ReportData(
        mine,
        curves=tuple(curve for curve in report.curves if curve.group == group),
        sweeps=tuple(sweep for sweep in report.sweeps if sweep.name in names),
    )


def _facts(sweep: SweepFacts, group: Contest) -> Mapping[str, str]:
    """The facts of a sweep, of the scenarios' fingerprints this scenario's alone."""
    own = f"{group.scenario.dataset} · {group.scenario.heterogeneity}"
    return {
        key: value
        for key, value in sweep.facts.items()
        if not key.startswith(PRINT) or key == f"{PRINT}{own}"
    }


def _packed(spec: Spec) -> Spec:
    """A chart of lines with its points as rows of numbers by algorithm, which `page.js` unpacks, and with the
    colours in its first layer alone, whose scale the others share.
    """
    points = spec["datasets"]["points"]
    if not points or not points[0].keys() >= {"said", "trial", "low", "high"}:
        return spec
    lines: dict[str, list[list[float]]] = {}
    for point in points:
        row = [point[key] for key in ("x", "y", "low", "high")]
        row = row if point["low"] < point["high"] else row[:2]
        lines.setdefault(point["algorithm"], []).append([_short(value) for value in row])
    first, *others = spec["layer"]
    bare = [
        {**layer, "encoding": {**layer["encoding"], "color": {"field": "algorithm"}}}
        if layer["encoding"]["color"]["field"] == "algorithm"
        else layer
        for layer in others
    ]
    datasets = {**spec["datasets"], "points": lines}
    return {**spec, "datasets": datasets, "layer": [first, *bare]}


def _short(value: float) -> float:
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short


def _expected(found: Budgets, look: Look, metric: str) -> Chart:
    """What n trials are expected to choose, with bands over tunings."""
    drawn = []
    for name, values in found.expected.items():
        length = len(values)
        at = sorted({round(length ** (i / (POINTS - 1))) for i in range(POINTS)})
        mean, low, high = (
            [values[n - 1] if (end := of[n - 1]) is None else end for n in at]
            for of in (values, found.low[name], found.high[name])
        )
        drawn.append(Line(name, at, mean, low, high))
    spans = line_charts.spans(drawn, sign(direction(metric)))
    spec = line_charts.lines(drawn, look, ("search trials", title_of(metric)), spans)
    alt = f"{found.scenario}: expected {title_of(metric)} of what so many search trials choose"
    return Chart(f"expected-{found.sweep}", str(found.scenario), alt, spec)


def _linked(data: SiteData, to: Addresses, row: Row) -> dict[str, Any]:
    """The links of a row: its method, the file of its configuration, the command that repeats it."""
    path = to.specs.get((row.sweep, row.entry_id))
    return {
        "link": f"../{to.method(row.algorithm)}",
        "about": f"All of {short(row.algorithm)}",
        "fragment": to.fragment(row.algorithm),
        "spec": f"../{path}" if path else "",
        "repeat": commands.repeat(data, to, row),
        "how": commands.how(row),
        "tuned": "",
    }
