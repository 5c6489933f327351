"""The report of a study: one HTML file that needs nothing else, and its charts as files.

What is shown comes from `ReportData` alone. The templates are those of the live page, too.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reports.leaderboard import audit_wording, interim, interim_wording
from reports.leaderboard.leaderboard import Leaderboard
from reports.leaderboard.names import told_apart
from reports.leaderboard.wording import legend, overall, overall_title, short, standings
from reports.page import drawing
from reports.page.board_table import tables
from reports.page.data import ReportData
from reports.page.drawing import FORMS, SIGN
from reports.page.gallery import Gallery, front_groups, gallery, look_of
from reports.page.headline import headline, setting
from reports.page.style import Chart, Look, slug
from trials.common.visible import visible
from trials.run.outcome import Status

PICTURE = (
    "Spread: standard deviation over clients. The picture of an interval spans the leaders; an arrow: the row "
    "lies outside. Shaded: the best and what ties with it. Click a heading to sort, best first."
)
"""What a table on a page has beyond the terminal's."""


def build(data: ReportData, forms: Iterable[str] = FORMS) -> tuple[str, dict[str, bytes]]:
    """The page, and its figures as files of these forms by name. The chart of each entry's search is on
    the page only.
    """
    data = told_apart(data, (row.algorithm for row in data.board.rows))
    look = look_of(data)
    found = gallery(data, look)
    kept = [chart for section, charts in found.items() if section != "search" for chart in charts]
    return page(data, look, found), drawing.files(kept, forms)


def leaderboard_page(board: Leaderboard) -> str:
    """A leaderboard alone as a page: no charts, no search."""
    data = ReportData(told_apart(board, (row.algorithm for row in board.rows)))
    return page(data, look_of(data), {})


def page(data: ReportData, look: Look, charts: Gallery) -> str:
    """The page of a report."""
    board = data.board
    shown = {key: inlined(found) for key, found in charts.items() if key != "dots"}
    lead, known = headline(board)
    return render(
        "report.html",
        title=f"{board.study} · leaderboard",
        data=data,
        board=board,
        lead=lead,
        known=known,
        setting=setting(data.sweeps),
        legend=f"{legend(board)} {PICTURE}",
        tables=tables(data, look),
        interim=standing(board),
        audit=audit(board),
        overall=across(board),
        fronts=front_groups(board),
        chips=chips(look) if shown else [],
        counts=_counts(data),
        charts={key: shown.get(key, []) for key in SECTIONS},
        script=drawing.script() if shown else "",
    )


def standing(board: Leaderboard) -> dict[str, Any] | None:
    """How the scenarios stand that are not over, a table each; None where all are."""
    if not board.interim:
        return None
    tables = interim_wording.tables(board.interim)
    about = {"mark": interim.MARK, "about": interim.ABOUT}
    return {"head": [column.head for column in interim_wording.COLUMNS], "tables": tables, **about}


def across(board: Leaderboard) -> list[dict[str, Any]]:
    """The comparisons of algorithms over several data sets."""
    return [
        {
            "title": overall_title(metric, found),
            "standings": standings(found),
            "said": overall(found),
            "pairs": found.pairs,
        }
        for metric, found in board.overall.items()
        if len(found.datasets) > 1
    ]


def audit(board: Leaderboard) -> dict[str, Any] | None:
    """How fair the searches were: a table, and what mends what was found; None where none is known."""
    if not any(row.audit for row in board.rows):
        return None
    columns, lines = audit_wording.facts(board.rows)
    head = [column.head for column in columns]
    found = audit_wording.found(board.rows)
    return {"head": head, "lines": lines, "found": found, "about": audit_wording.ABOUT}


SECTIONS = ("rounds", "bytes", "cd", "heat", "fronts", "budget", "search")
"""The sections that have charts."""


def render(template: str, **content: Any) -> str:
    """A page from a template of the project's."""
    return _templates().get_template(template).render(sign=SIGN, **content)


def inlined(found: Sequence[Chart]) -> list[dict[str, str]]:
    """Charts as a page holds them."""
    return [
        {"name": c.name, "title": c.title, "alt": c.alt, "spec": drawing.inline(c.spec)}
        for c in found
    ]


def chips(look: Look) -> list[dict[str, str]]:
    """The switches of the algorithms, each with its line."""
    return [
        {"name": short(name), "slug": slug(name), "hue": hue, "dash": " ".join(map(str, dash))}
        for name, (hue, dash) in look.items()
    ]


def _counts(data: ReportData) -> Mapping[str, int]:
    """How many there are of what, for the head of the page; crashes also where there are none."""
    rows = data.board.rows
    counts = {
        "scenarios": len({row.group for row in rows}),
        "algorithms": len({row.algorithm for row in rows}),
        "search trials": len(data.trials),
        "final runs": sum(row.seeds for row in rows),
        "diverged finals": sum(row.failed_seeds for row in rows),
        "crashed": sum(failure.status == Status.FAILED for failure in data.failures),
    }
    return {name: count for name, count in counts.items() if count or name == "crashed"}


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
    parts[::2] = [re.sub(r"(?<=\w)\^(\d+)", r"<sup>\1</sup>", part) for part in parts[::2]]
    parts[1::2] = [f"<code>{part}</code>" for part in parts[1::2]]
    return Markup("".join(parts))
