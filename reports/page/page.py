"""The report of a study: one self-contained HTML file, and its charts as files.

`ReportData` has all content, and `reports/templates/report.html` the layout.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, starmap
from operator import itemgetter
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reports.charts import charts, drawing
from reports.charts.drawing import FORMS, SIGN
from reports.charts.style import LEADERS, Chart, Look, slug, styles
from reports.leaderboard.board import ABOUT, MARK, Leaderboard, ReportData, Row
from reports.leaderboard.names import as_shown, without_paths
from reports.leaderboard.statistics import DIFFERS
from reports.table import Cell, Cells, Column, ColumnKind, Line, Table, table, visible
from reports.wording import tables as wording
from reports.wording import words
from trials.run.outcome import Status
from trials.scoring.metrics import direction

PICTURE = (
    "Pictures of intervals have the scale of the leaders; an arrow marks a row outside it. Shaded rows may be the best. "
    "Click a heading to sort, best first."
)
"""The explanation of what tables on pages have beyond those on terminals."""


def build(data: ReportData, forms: Iterable[str] = FORMS) -> tuple[str, dict[str, bytes]]:
    """Return the report as HTML, and its charts as files by name. `forms` are the file formats, such as svg."""
    data = as_shown(data, data.board)
    look = look_of(data)
    charts = gallery(data, look)
    figures = drawing.files(chain.from_iterable(charts.values()), forms)
    return _report(data, look, charts), figures


def leaderboard_page(board: Leaderboard) -> str:
    """Return the HTML page of a leaderboard alone, without charts and search trials."""
    data = ReportData(as_shown(board, board))
    return _report(data, look_of(data), {})


def _report(data: ReportData, look: Look, charts: "Gallery") -> str:
    board = data.board
    drawn = {key: drawing.inlined(charts.get(key, [])) for key in SECTIONS[1:]}
    lead, more = headline(board)
    failed: list[Cells] = []
    for failure in data.failures:
        end = Cell(failure.error or "the loss was not finite", look="code")
        run = Cell(failure.name, href=data.server + failure.page)
        failed.append([run, failure.kind, failure.status, end])
    return render(
        "report.html",
        title=f"{board.study} · leaderboard",
        board=board,
        lead=lead,
        more=more,
        setting=[*_setting(data).items()],
        tables=tables(data, look),
        notes=[*board.notes, *words.setting_notes(board.rows)],
        legend=page_legend(board),
        heads=[*words.HEADS.items()],
        mark=MARK,
        about=ABOUT,
        standings=wording.interim_tables(board),
        audit_title=words.AUDIT_TITLE,
        audit_about=words.AUDIT_ABOUT,
        mends=words.MENDS,
        audit=words.audit_table(board),
        findings=words.findings(board.rows),
        across=[*starmap(wording.across_table, wording.several(board).items())],
        overview=wording.overview(board),
        charts=drawn,
        chips=[(words.short(name), *style) for name, style in look.items()] if charts else [],
        failures=table(["run", "kind", "status", "end of the error"], failed),
        data=data,
        script=drawing.script() if charts else "",
    )


def page_legend(board: Leaderboard) -> str:
    """Return the text below the tables, which explains their rows and pictures."""
    return f"{words.legend(board)} {PICTURE}"


def _setting(data: ReportData) -> dict[str, str]:
    """Return the facts below a report's title: settings, joined by ` / ` where sweeps differ, and counts of trials and runs."""
    facts: dict[str, list[str]] = {}
    for sweep in data.sweeps:
        for key, value in sweep.setting.items():
            values = facts.setdefault(key, [])
            values += [] if value in values else [value]
    rows = data.board.rows
    counts = {
        "scenarios": len({row.group for row in rows}),
        "algorithms": len({row.algorithm for row in rows}),
        "search trials": sum(map(len, data.trials.values())),
        "final runs": sum(row.seeds for row in rows),
        "diverged finals": sum(row.failed_seeds for row in rows),
        "crashed": sum(failure.status == Status.FAILED for failure in data.failures),
    }
    texts = {key: " / ".join(values) for key, values in facts.items()}
    return texts | {name: str(count) for name, count in counts.items() if count}


# Headlines


def headline(board: Leaderboard) -> tuple[str, str]:
    """Return the headline of a leaderboard, and the text below it. The text also says how many scenarios are unfinished."""
    # References are not ranked, so no sentence about the best names one.
    ranked = tuple(row for row in board.rows if row.rank is not None)
    scenarios = [*wording.groups(replace(board, rows=ranked)).values()]
    if not board.rows:
        lead, more = "Nothing is ranked yet", "No scenario has all of its final runs."
    elif not scenarios:
        lead, more = "Nothing is ranked", "There are references only."
    elif len(scenarios) == 1:
        lead, more = _alone(scenarios[0])
    else:
        lead, more = _together(board, scenarios)
    if ongoing := len({standing.group for standing in board.interim}):
        unfinished = "1 scenario is" if ongoing == 1 else f"{ongoing} scenarios are"
        more += f" {unfinished} not over: {MARK}."
    return lead, more


def _alone(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the headline of a leaderboard with one scenario, and the text below it. If several methods may be the best, the
    headline says how many. Otherwise it names the first method.
    """
    where, tie = wording.scenario_text(rows[0].group), "tied at " * rows[0].tied
    highest = f"{_names(rows)}: {tie}{_score(rows[0])} {words.title_of(rows[0].metric)}"
    maybe = sum(row.within_noise is True for row in rows)
    if maybe < 2:
        return f"{highest} on {where}", words.answer(rows)
    what = "methods" if words.methods(rows) else "configurations"
    lead = f"{maybe} of {len(rows)} {what} may be the best on {where}"
    return lead, f"Highest mean: {highest}. {words.answer(rows)}"


def _together(board: Leaderboard, scenarios: Sequence[Sequence[Row]]) -> tuple[str, str]:
    """Return the headline of a leaderboard with several scenarios, and a sentence with the highest mean in each of the first
    three. The headline names the methods shown to be the best in the most scenarios. It names no method if a comparison over
    families of data sets shows no difference between methods.
    """
    wins = Counter[str]()
    for rows in scenarios:
        if len(rows) > 1 and {row.within_noise for row in rows[1:]} == {False}:
            wins[rows[0].algorithm] += 1
    lead = f"No method is shown to be the best in any of {len(scenarios)} scenarios"
    if wins:
        most = max(wins.values())
        leaders = [words.short(name) for name, count in wins.items() if count == most]
        each = " each" if len(leaders) > 1 else ""
        shown = f"shown to be the best in {most} of {len(scenarios)} scenarios{each}"
        lead = f"{words.listed(leaders)}: {shown}"
    where, firsts = wording.told_apart([rows[0].group for rows in scenarios]), []
    for rows, place in zip(scenarios[:3], where, strict=False):
        firsts.append(f"{_names(rows)} {_score(rows[0])} on {place}")
    more = f"; and {len(scenarios) - 3} more" if len(scenarios) > 3 else ""
    highest = f"Highest mean by scenario: {'; '.join(firsts)}{more}."
    for across in wording.several(board).values():
        if DIFFERS not in {pair.verdict for pair in across.pairs}:
            n = len(across.families)
            lead = f"No method is shown to be ahead over {n} families of data sets"
    return lead, highest


def _score(row: Row) -> str:
    return words.mean_text(row) + " %" * words.percent(row.metric)


def _names(rows: Sequence[Row]) -> str:
    return " and ".join(words.label(row) for row in rows if row.rank == 1)


# Tables, with pictures of intervals, links, and what was tuned

STRIP, EDGE = 140, 6.0
"""The width of the picture of an interval, and of its margins."""
FIXED = 4
"""The number of columns that every page has: rank, name, score, and distance behind the best."""


def tables(data: ReportData, look: Look, linked: bool = True) -> list[Table]:
    """Return a table for each scenario's ranking, with pictures of intervals. If `linked`, rows link to MLflow's pages."""
    contents, rows = wording.board_tables(data.board, ["all"]), wording.groups(data.board).values()
    pairs = zip(contents, rows, strict=True)
    return [_table(data, content, group, look, linked) for content, group in pairs]


def _table(
    data: ReportData, content: Table, rows: Sequence[Row], look: Look, linked: bool
) -> Table:
    """Return a ranking's table as pages show it, with pictures of intervals. A click on a row's last cell shows the file of
    its tuned configuration. Columns with equal values in all rows become a note below the table.
    """
    heads, last = content.columns, len(content.columns) - 1
    texts = list(zip(*(line.texts for line in content.lines), strict=True))
    order, alike = [FIXED - 1], []
    for i in range(FIXED, last):
        if len(rows) > 1 and len(set(texts[i])) == 1:
            alike += [f"{heads[i].head} {texts[i][0]}"] if texts[i][0] else []
        elif any(texts[i]):
            order.append(i)
    kept = itemgetter(*order, last)
    scale = leading(rows)
    ends = f"{words.score_text(scale[0], rows[0])} to {words.score_text(scale[1], rows[0])}"
    columns = [*heads[:3], Column(ends, ColumnKind.WORDS, look="bar"), *kept(heads)]
    lines = []
    for row, line in zip(rows, content.lines, strict=True):
        cells = line.full
        if linked and row.page:
            cells[1] = replace(cells[1], href=data.server + row.page)
        file = data.tuned.get((row.sweep, row.entry_id), "")
        cells[last] = replace(cells[last], code=file, look="cut")
        picture = Cell("", drawing={**strip(row, scale), "hue": look[row.algorithm][0]})
        searched = " ".join([row.algorithm, row.paper, content.title, content.small])
        # The picture stands after rank, name and score, and before the distance to the best.
        lines.append(Line([*cells[:3], picture, *kept(cells)], line.best, searched))
    notes = [f"All rows: {', '.join(alike)}."] if alike else []
    return replace(content, columns=columns, lines=lines, notes=notes, look="board")


def leading(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the two ends of the scale on which pictures show intervals. The scale spans the intervals of the better half of
    the rows (at least three) and of all rows that may be the best.
    """
    ends: list[float] = []
    for row in (*rows[: max(3, round(LEADERS * len(rows)))], *filter(wording.leads, rows)):
        ends += [end for end in (row.mean, row.ci_low, row.ci_high) if end is not None]
    return min(ends), max(ends)


def strip(row: Row, scale: tuple[float, float]) -> dict[str, Any]:
    """Return a row's mean and interval as pixel positions in its picture. `out` is -1 if the mean is below `scale`, 1 if above."""
    start, end = scale

    def at(value: float | None) -> float:
        score = row.mean if value is None else value
        share = (score - start) / (end - start) if end > start else 0.5
        return round(EDGE + (STRIP - 2 * EDGE) * min(1.0, max(0.0, share)), 1)

    # A row far behind gets an arrow instead, so that the scale can be fitted to the leaders.
    out = -1 if row.mean < start else 1 if row.mean > end else 0
    return {"low": at(row.ci_low), "mean": at(row.mean), "high": at(row.ci_high), "out": out}


# Charts, by the section they stand in

Gallery = dict[str, list[Chart]]
"""The charts of a report by section."""
SECTIONS = ("dots", "rounds", "bytes", "ranks", "budget")
"""The sections of charts: intervals, scores against rounds and bytes, average ranks, and best score against trials."""


def look_of(data: ReportData) -> Look:
    """Return the colour and the dash pattern of each algorithm in a report. Algorithms without a rank are grey."""
    names = [row.algorithm for row in data.board.rows]
    ranked = {row.algorithm for row in data.board.rows if row.rank is not None}
    return styles(names, {*names} - ranked)


def gallery(data: ReportData, look: Look) -> Gallery:
    """Return all charts of a report, grouped by section."""
    sections: Gallery = defaultdict(list)
    for group, rows in wording.groups(data.board).items():
        where, metric = wording.scenario_text(group), rows[0].metric
        name, title = slug(f"{where} {group.sweeps}"), words.title_of(metric)
        factors = dict.fromkeys(words.plural(row.over) for row in rows)
        alt = f"{where}: {title}, mean and 95 % interval over {' or '.join(factors)}"
        sections["dots"].append(Chart(f"leaderboard-{name}", where, alt, charts.dots(rows, look)))
        curves = [curve for curve in data.curves if curve.group == group]
        for against in ("rounds", "bytes") if curves else ():
            alt = f"{where}: {title} against {against}, bands are intervals"
            spec = charts.curves(curves, look, metric, against)
            sections[against].append(Chart(f"{against}-{name}", where, alt, spec))
        best = {}
        for row in rows:
            trials = data.trials.get((row.sweep, row.entry_id))
            if trials is not None:
                up = direction(metric) == "maximize"
                best[row.algorithm] = charts.best_so_far(trials, up)
        if best:
            alt = f"{where}: best validation score so far against search trials"
            spec = charts.budget(best, look, metric)
            sections["budget"].append(Chart(f"budget-{name}", where, alt, spec))
    for metric, across in wording.several(data.board).items():
        ranks = zip(map(words.short, across.algorithms), across.ranks, strict=True)
        alt = "Average ranks: " + ", ".join(starmap("{} {:.2f}".format, ranks))
        spec, title = charts.ranks(across, look), words.overall_title(metric, across)
        sections["ranks"].append(Chart(f"ranks-{slug(metric)}", title, alt, spec))
    return sections


# Templates


def render(template: str, **content: Any) -> str:
    """Return a page made from a template in `reports/templates`. Absolute paths in its texts are cut to file names."""
    return _templates().get_template(template).render(sign=SIGN, **content)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        finalize=lambda value: _shown(value) if type(value) is str else value,
        undefined=StrictUndefined,  # a misspelled name is an error, not an empty text
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = _coded
    return environment


def _shown(text: str) -> str:
    return without_paths(visible(text))


def _coded(text: str) -> Markup:
    """Return the text as HTML. Text in backticks becomes code. Elsewhere exponents, as in x^2, become superscripts."""
    parts = re.split(r"`([^`]+)`", str(escape(_shown(text))))
    for i, part in enumerate(parts):
        # The parts with odd indices stood in backticks.
        code = f"<code>{part}</code>"
        parts[i] = code if i % 2 else re.sub(r"(?<=\w)\^(\d+)", r"<sup>\1</sup>", part)
    return Markup("".join(parts))
