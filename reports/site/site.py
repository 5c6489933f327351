"""A board's site: all of its files, which need nothing else and no server."""

from dataclasses import replace
from importlib.resources import files

from reports.charts import drawing
from reports.leaderboard.board import Leaderboard
from reports.page.gallery import look_of
from reports.site import matrix, methods, papers, scenarios
from reports.site.addresses import Addresses
from reports.site.data import SiteData
from reports.wording.formats import render as text_of

STYLES = ("page.css", "site.css")
SCRIPTS = ("page.js", "site.js")


def site(data: SiteData) -> dict[str, bytes]:
    """The files of a site by their paths below its folder."""
    to, look = Addresses(data), look_of(data.report)
    found = {"index.html": matrix.page(data, to, look)}
    found |= scenarios.pages(data, to, look) | methods.pages(data, to) | papers.pages(data, to)
    found |= papers.documents(data, to)
    found |= {path: data.specs[entry].text for entry, path in to.specs.items()}
    found |= {to.study(sweep): text for sweep, text in data.studies.items()}
    found["board.csv"] = text_of(_without_runs(data.report.board), "csv")
    found["assets/site.css"] = _joined(STYLES)
    found["assets/site.js"] = _joined(SCRIPTS)
    found["assets/vega.js"] = drawing.script()
    return {path: text.encode() for path, text in found.items()}


def _without_runs(board: Leaderboard) -> Leaderboard:
    """A board without what is of one store alone, or has a page: ids of runs, audits."""
    rows = (replace(row, runs=(), chosen=(), audit=None, page="") for row in board.rows)
    return replace(board, rows=tuple(rows))


def _joined(names: tuple[str, ...]) -> str:
    folder = files("reports").joinpath("templates")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
