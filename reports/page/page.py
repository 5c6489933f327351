"""The report of a study: one HTML file that needs nothing else, and its charts as files.

What is shown comes from `ReportData` alone. `show` makes the HTML of any page.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reports.charts import drawing
from reports.charts.data import ReportData
from reports.charts.drawing import FORMS, SIGN
from reports.charts.line_charts import packed
from reports.charts.style import Chart, Look, slug
from reports.document import Block, Charts, CodeBlock, Facts, Fold, Heading, Page, Section, Text
from reports.leaderboard import interim
from reports.leaderboard.board import Leaderboard
from reports.leaderboard.names import as_shown, without_paths
from reports.page.board_table import tables
from reports.page.gallery import Gallery, gallery, look_of
from reports.page.headline import headline, setting
from reports.table import Cell, Cells, table, visible
from reports.wording import audits
from reports.wording.tables import (
    across_table,
    audit_table,
    interim_tables,
    pairs_table,
    several,
)
from reports.wording.words import HEADS, how, setting_notes, short, signs
from trials.run.outcome import Status

PICTURE = (
    "Spread: standard deviation over clients. The picture of an interval spans the leaders; an arrow: the row "
    "lies outside. Shaded: what may be the best. Click a heading to sort, best first."
)
"""What a table on a page has beyond the terminal's."""
FOOTER = "Everything on this page is read from recorded runs; nothing is typed in. `suite report` makes it anew."
ACROSS = (
    "One row a data set: its scenarios and their seeds are averaged first. Rank 1 is best; ties share ranks. In the "
    "diagram, bars join methods that Nemenyi's test cannot tell apart."
)
CURVES = "Lines: means. Bands: 95 % intervals at each evaluation, over the same repeats as in the tables."
BUDGET = (
    "Best validation score among the first 1, 2, … search trials at full rounds, in the order they were asked; of an "
    "entry that was searched several times the mean. Where lines cross late, more trials may change the ranking."
)
HEAT = "Number: mean over final seeds. Colour: the deeper, the nearer to the best of its column."


def build(data: ReportData, forms: Iterable[str] = FORMS) -> tuple[str, dict[str, bytes]]:
    """Return the page, and its figures as files of these forms by name."""
    data = without_paths(as_shown(data, data.board))
    look = look_of(data)
    found = gallery(data, look)
    kept = [chart for charts in found.values() for chart in charts]
    return show(_page(data, look, found)), drawing.files(kept, forms)


def leaderboard_page(board: Leaderboard) -> str:
    """A leaderboard alone as a page: no charts, no search."""
    data = ReportData(without_paths(as_shown(board, board)))
    return show(_page(data, look_of(data), {}))


def show(page: Page, template: str = "page.html", **more: Any) -> str:
    """The HTML of a page."""
    script = drawing.script() if page.has_charts else ""
    return render(template, page=page, title=page.title, script=script, **more)


def _page(data: ReportData, look: Look, found: Gallery) -> Page:
    """The page of a report."""
    board = data.board
    lead, known = headline(board)
    facts = [*setting(data.sweeps).items(), *((k, str(n)) for k, n in _counts(data).items())]
    sections = [_leaderboard(data, look), *_standing(board)]
    if blocks := audit(board):
        sections.append(Section("audit", audits.TITLE, blocks, "Audit"))
    sections += _drawn(board, found)
    if data.trials or data.failures:
        sections.append(Section("failures", "Failures", [_failures(data)], "Failures"))
    if data.sweeps:
        sections.append(Section("provenance", "Provenance", _provenance(data), "Provenance"))
    return Page(
        title=f"{board.study} · leaderboard",
        heading=lead,
        sections=sections,
        eyebrow=board.study,
        lead=known,
        setting=facts,
        footer=FOOTER,
        chips=chips(look) if any(found.values()) else [],
        filtered=True,
    )


def _leaderboard(data: ReportData, look: Look) -> Section:
    """The tables come first: notes and the legend are for who wants to know more."""
    board = data.board
    blocks: list[Block] = [*tables(data, look)]
    blocks += [Text(note, "note") for note in (*board.notes, *setting_notes(board.rows))]
    blocks += (
        legend_blocks(board)
        if board.rows
        else [Text("No final runs yet: there is nothing to rank.")]
    )
    return Section("leaderboard", "Leaderboard", blocks, "Leaderboard")


def legend_blocks(board: Leaderboard) -> list[Block]:
    """How rows were made, and what each sign and column means."""
    return [
        Text(f"{how(board)} {PICTURE}", "legend"),
        Facts([*signs(board), *HEADS.items()], "signs"),
    ]


def _standing(board: Leaderboard) -> list[Section]:
    """How the scenarios stand that are not over."""
    found: list[Block] = [Text(interim.ABOUT, "legend"), *interim_tables(board)]
    mark = interim.MARK
    return [Section("interim", "Standings", found, "Interim", mark)] if board.interim else []


def audit(board: Leaderboard) -> list[Block]:
    """How fair the searches were: a table, what was found and the commands that mend it; nothing where none is
    known.
    """
    made = audit_table(board)
    if made is None:
        return []
    found: list[Block] = [Text(audits.ABOUT, "legend"), made]
    for command, texts in audits.found(board.rows):
        found += [Text("\n".join(texts), "verdict"), CodeBlock(command)]
    nothing = Text("Nothing was found that may have cost a method something.")
    return found if len(found) > 2 else [*found, nothing]


def across(board: Leaderboard, drawn: Sequence[Chart]) -> list[Block]:
    """The comparisons of algorithms over several data sets; nothing where there is one."""
    found: list[Block] = []
    for metric, compared in several(board).items():
        pairs = pairs_table(compared)
        fold = Fold(f"All {len(pairs.lines)} pairs", [pairs], "screen")
        found += [across_table(metric, compared), fold]
    charts = [Charts(inlined(drawn))] if drawn else []
    return [Text(ACROSS, "legend"), *charts, *found] if found else []


def _drawn(board: Leaderboard, found: Gallery) -> list[Section]:
    """The sections that have charts."""
    made = []

    def charts(key: str, look: str = "") -> Charts:
        return Charts(inlined(found[key]), look)

    if blocks := across(board, found.get("cd", ())):
        made.append(Section("across", "Across data sets", blocks, "Across data sets"))
    if found.get("rounds"):
        curves: list[Block] = [Text(CURVES, "legend"), charts("rounds")]
        curves += [Heading("Test score against bytes", level=2), charts("bytes")]
        made.append(Section("curves", "Test score against rounds", curves, "Curves"))
    if found.get("budget"):
        title = "Does the ranking depend on the tuning budget?"
        made.append(Section("budget", title, [Text(BUDGET, "legend"), charts("budget")], "Budget"))
    if found.get("heat"):
        heat: list[Block] = [Text(HEAT, "legend"), charts("heat", "natural")]
        title = "Algorithms and heterogeneity"
        made.append(Section("heterogeneity", title, heat, "Heterogeneity"))
    return made


def _failures(data: ReportData) -> Block:
    if not data.failures:
        return Text("None: no trial crashed and none diverged.")
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


def _provenance(data: ReportData) -> list[Block]:
    found: list[Block] = []
    for sweep in data.sweeps:
        found.append(Heading(sweep.name, f"study {sweep.study}", href=data.server + sweep.page))
        found.append(Facts([*sweep.facts.items()]))
        found.append(Fold("The study as it was run", [CodeBlock(sweep.study_yaml)], "screen"))
    return found


def render(template: str, **content: Any) -> str:
    """A page from a template of the project's."""
    return _templates().get_template(template).render(sign=SIGN, **content)


def inlined(found: Sequence[Chart]) -> list[dict[str, str]]:
    """Return charts as a page holds them: specifications, and beside each a still picture of it."""
    return [
        {
            "name": c.name,
            "title": c.title,
            "alt": c.alt,
            "spec": drawing.inline(packed(c.spec)),
            "still": drawing.still(c),
        }
        for c in found
    ]


def chips(look: Look) -> list[dict[str, str]]:
    """The switches of the algorithms, each with its line."""
    return [
        {"name": short(name), "slug": slug(name), "hue": hue, "dash": " ".join(map(str, dash))}
        for name, (hue, dash) in look.items()
    ]


def _counts(data: ReportData) -> Mapping[str, int]:
    """How many there are of what, for the head of the page; of a report crashes also where there are none."""
    rows = data.board.rows
    counts = {
        "scenarios": len({row.group for row in rows}),
        "algorithms": len({row.algorithm for row in rows}),
        "search trials": len(data.trials),
        "final runs": sum(row.seeds for row in rows),
        "diverged finals": sum(row.failed_seeds for row in rows),
        "crashed": sum(failure.status == Status.FAILED for failure in data.failures),
    }
    known = {"crashed"} if data.sweeps else set()
    return {name: count for name, count in counts.items() if count or name in known}


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["coded"] = _coded
    return made


def _coded(text: str) -> Markup:
    """Text with what stands in backticks as code, and powers raised elsewhere."""
    parts = re.split(r"`([^`]+)`", str(escape(visible(str(text)))))
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<=\w)\^(\d+)", r"<sup>\1</sup>", parts[i])
    parts[1::2] = [f"<code>{part}</code>" for part in parts[1::2]]
    return Markup("".join(parts))
