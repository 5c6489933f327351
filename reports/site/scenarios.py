"""The page of a scenario: its board with intervals, curves, audit, and where its numbers come from."""

from collections.abc import Mapping
from dataclasses import replace

from reports.charts import line_charts
from reports.charts.data import PRINT, ReportData, SweepFacts
from reports.charts.line_charts import Trace
from reports.charts.style import Chart, Look, slug
from reports.document import Block, Charts, CodeBlock, Facts, Heading, Page, Section, Text
from reports.leaderboard.board import Contest, Row
from reports.leaderboard.budget import Budgets
from reports.page.board_table import tables
from reports.page.gallery import gallery
from reports.page.headline import headline, setting
from reports.page.page import PICTURE, audit, chips, inlined, show
from reports.site import commands
from reports.site.addresses import FOOTER, Addresses
from reports.site.data import SiteData
from reports.table import Cell
from reports.wording.audits import TITLE
from reports.wording.tables import groups, scenario_text
from reports.wording.words import label, legend, mean_text, params_text, title_of
from trials.scoring.metrics import direction, sign

ABOUT = "A score leads to its configuration; open what was tuned for the command that repeats it."
CURVES = (
    "Means, with bands of 95 % intervals. The tuning budget: what so many search trials, drawn from those that there "
    "were, are expected to choose."
)
POINTS = 16
"""Budgets that a curve is drawn at, evenly on a log scale."""
CHARTS = {
    "rounds": "Test score against rounds",
    "bytes": "Test score against bytes",
    "expected": "Expected test score against the tuning budget",
}


def pages(data: SiteData, to: Addresses, look: Look) -> dict[str, str]:
    """The pages of all scenarios, by their addresses."""
    found = groups(data.report.board)
    return {to.scenario(group): show(_page(data, to, look, group)) for group in found}


def _page(data: SiteData, to: Addresses, look: Look, group: Contest) -> Page:
    report = of_scenario(data.report, group)
    board, rows = report.board, list(report.board.rows)
    lead, known = headline(board)
    own = {row.algorithm: look[row.algorithm] for row in rows}
    found = gallery(report, look)
    found["expected"] = [_expected(of, own, rows[0].metric) for of in board.budgets]
    charts = [replace(chart, title=title) for key, title in CHARTS.items() for chart in found[key]]
    (made,) = tables(report, look, lambda row: _links(data, to, row))
    blocks: list[Block] = [replace(made, title="", small="", said=made.said[1:])]
    blocks += [Text(note, "note") for note in board.notes]
    blocks.append(Text(f"{legend(board)} {PICTURE} {ABOUT}", "legend"))
    sections = [Section("board", "", blocks, "Board")]
    if charts:
        curves: list[Block] = [Text(CURVES, "legend"), Charts(inlined(charts))]
        sections.append(Section("charts", "Curves", curves, "Curves"))
    if audited := audit(board, mends=False):
        sections.append(Section("audit", TITLE, audited, "Audit"))
    sources: list[Block] = []
    for sweep in report.sweeps:
        sources += sweep_blocks(to, sweep, "../", _facts(sweep, group))
        sources.append(Text("The whole sweep again, searches and final runs:"))
        sources.append(CodeBlock(commands.search(to, sweep.name)))
    sections.append(Section("sources", "Sources", sources, "Sources"))
    return Page(
        title=scenario_text(group),
        heading=lead,
        sections=sections,
        eyebrow=scenario_text(group),
        lead=known,
        setting=[*setting(report.sweeps).items()],
        root="../",
        footer=FOOTER,
        chips=chips(own) if charts else [],
    )


def sweep_blocks(
    to: Addresses, sweep: SweepFacts, root: str, facts: Mapping[str, str]
) -> list[Block]:
    """A sweep that a page is made from; `root` leads to the site's first page."""
    file = to.study(sweep.name)
    study = ("study as it was run", Cell(file, href=root + file))
    return [Heading(sweep.name, f"study {sweep.study}"), Facts([*facts.items(), study])]


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
        drawn.append(Trace(name, at, mean, low, high))
    spans = line_charts.spans(drawn, sign(direction(metric)))
    spec = line_charts.lines(drawn, look, ("search trials", title_of(metric)), spans)
    alt = f"{found.scenario}: expected {title_of(metric)} of what so many search trials choose"
    return Chart(f"expected-{slug(found.sweep)}", str(found.scenario), alt, spec)


def _links(data: SiteData, to: Addresses, row: Row) -> dict[str, Cell]:
    """The links of a row: its method, the file of its configuration, the command that repeats it."""
    path = to.specs.get((row.sweep, row.entry_id))
    found = {"key": Cell(to.fragment(row.algorithm))}
    name = label(row)
    found["name"] = Cell(name, href=f"../{to.method(row.algorithm)}", about=f"All of {name}")
    if path:
        found["score"] = Cell(mean_text(row), href=f"../{path}", about="Its configuration")
    if again := commands.repeat(data, to, row):
        said = f"{commands.how(row)} One of them again:"
        found["tuned"] = Cell(params_text(row.params), said=said, code=again)
    return found
