"""`suite board`: what a site shows, read from stores and bundles, and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from reports.charts.data import ReportData
from reports.leaderboard.board import Leaderboard
from reports.leaderboard.names import aliased, renamed, shown_names, without_paths
from reports.site.data import MethodFacts, SiteData, Source, Spec, Winner
from suite.boards.bundle import Bundle
from suite.boards.folders import write_listed
from suite.boards.several import Several
from suite.boards.sources import is_bundle
from suite.catalog import facts, formulas, hyperparameter, listing, published
from suite.configurations import configuration
from suite.console import say
from suite.results.leaderboards import read_leaderboard
from suite.results.query import EVERYTHING, NONE_YET, Query
from suite.results.report import read
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.schema.tags import RunKind
from trials import algorithms
from trials.algorithm import Range
from trials.common.errors import UserError

T = TypeVar("T")
LISTING = "site.json"
BYTES = 5_000_000
"""What a site should weigh at most; a larger one is written, and it is said."""


@dataclass(frozen=True)
class WrittenSite:
    """A site that was written: its first page, how many pages and bytes it has."""

    page: Path
    pages: int
    bytes: int


def write(
    readers: Sequence[tuple[str, Reader]],
    papers: Sequence[Mapping[str, Any]],
    folder: Path,
    aliases: Mapping[str, str],
) -> WrittenSite:
    """Write the site of these records, and of documents of `suite reproduce`, below a folder; data sets have
    `aliases`. Raises `UserError` where there is nothing to rank, or a file is in the way.
    """
    from reports.site.site import site

    if is_bundle(folder):
        raise UserError(f"{folder} is a bundle, and may hold listed files only")
    sources = [_source(name, one) for name, one in readers if isinstance(one, Bundle)]
    files = site(read_site(Several(readers), papers, sources, aliases))
    write_listed(folder, LISTING, {"made_by": "suite board"}, files)
    pages = sum(path.endswith(".html") for path in files)
    return WrittenSite(folder / "index.html", pages, sum(map(len, files.values())))


def _source(name: str, bundle: Bundle) -> Source:
    """What is said of a bundle that results came from."""
    listing = bundle.listing
    facts = {"published": listing.date, **listing.machine, **listing.versions}
    facts |= {f"SHA-256 of {code}": text for code, text in listing.code.items()}
    return Source(f"Bundle {name}", {key.replace("_", " "): text for key, text in facts.items()})


def read_site(
    reader: Reader,
    papers: Sequence[Mapping[str, Any]],
    sources: Sequence[Source],
    aliases: Mapping[str, str],
) -> SiteData:
    """Everything that a site shows."""
    report = read(reader, EVERYTHING, "")
    board = report.board
    if not board.rows:
        raise UserError(NONE_YET)
    finals = {run.run_id: run for run in EVERYTHING.finals(reader)}
    data = SiteData(
        report=report,
        at={
            "rounds": board,
            **{at: read_leaderboard(reader, Query(at=at)) for at in ("steps", "bytes")},
        },
        specs=_specs(report),
        studies={sweep.name: sweep.study_yaml for sweep in report.sweeps},
        methods=_methods(reader, board),
        winners=tuple(_winners(report, finals)),
        papers=papers,
        sources=sources,
    )
    return _as_published(data, aliases)


def _as_published(data: SiteData, aliases: Mapping[str, str]) -> SiteData:
    """The site without the publisher's folders, its data sets by their aliases. Files keep the names that commands
    need, so that a data file is found beside them; they are of sweeps that are named as everywhere.
    """
    board, names = data.report.board, shown_names(data.report.board)

    def shown(value: T) -> T:
        return renamed(aliased(value, board, aliases), names)

    parts = ("report", "at", "methods", "winners", "sources")
    made = replace(data, **{part: shown(getattr(data, part)) for part in parts})
    files = {
        part: {shown(key): renamed(of, names) for key, of in getattr(data, part).items()}
        for part in ("specs", "studies")
    }
    bare: dict[str, Any] = {"report": made.report, "at": made.at, "sources": made.sources, **files}
    return replace(made, **without_paths(bare))


def _specs(report: ReportData) -> dict[tuple[str, str], Spec]:
    """The rows' tuned files; without those that cannot be read, which are said."""
    found = {}
    for row in report.board.rows:
        entry = row.sweep, row.entry_id
        if entry in report.tuned:
            try:
                source = f"the tuned file of {row.algorithm} on {row.scenario} in sweep {row.sweep}"
                found[entry] = _spec(report.tuned[entry], source)
            except UserError as error:
                say(f"left out: {error}")
    return found


def _spec(text: str, source: str) -> Spec:
    """A row's tuned file, and how its first final run is repeated from it."""
    found = configuration.parse(text, source)
    seeds = sorted(map(int, found.scores.get("test_by_seed") or {1: 0.0}))
    return Spec(text, f"--seed {seeds[0]}")


def _winners(report: ReportData, finals: Mapping[str, Record]) -> list[Winner]:
    """What each search behind the rows chose."""
    found = {}
    for row in report.board.rows:
        for run_id in row.runs:
            tags = finals[run_id].tags
            params = finals[run_id].tags.params
            found[row.sweep, row.entry_id, tags.source] = Winner(row.group, row.algorithm, params)
    return list(found.values())


def _methods(reader: Reader, board: Leaderboard) -> dict[str, MethodFacts]:
    """What is known of each method: of those that are here by their docstrings; of others', whose code does
    not run for this, by what was recorded.
    """
    spaces: dict[str, dict[str, Range]] = {}
    for run in EVERYTHING.find(reader, RunKind.ENTRY):
        spaces.setdefault(run.tags.algorithm, {}).update(run.tags.space)
    known = {item["name"]: item for item in listing("algorithms")}
    return {
        row.algorithm: _method(row.algorithm, row.paper, known.get(row.algorithm), spaces)
        for row in board.rows
    }


def _method(
    name: str,
    paper: str,
    about: Mapping[str, Any] | None,
    spaces: Mapping[str, Mapping[str, Range]],
) -> MethodFacts:
    searched = spaces.get(name, {})
    if about is None:
        return MethodFacts(name, paper, ranges=searched)
    cls = algorithms.resolve(name)
    return MethodFacts(
        name=name,
        paper=about["paper"],
        summary=about["summary"],
        formulas=formulas(cls),
        facts=facts(cls),
        requires=[
            *(f"{key} = {of['value']}: {of['reason']}" for key, of in about["requires"].items()),
            *about["home"].values(),
        ],
        published=[published(one) for one in about["published"]],
        ranges={**cls.ranges(), **searched},
        words={key: hyperparameter(key, of) for key, of in about["hyperparameters"].items()},
    )
