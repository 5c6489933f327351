"""`suite leaderboard` and `suite report`: what came out of the recorded runs."""

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suite.cli.options import (
    PLAIN,
    RUNS,
    Alias,
    Folder,
    Json,
    Name,
    Server,
    Storage,
    Tracking,
    Where,
    aliases,
    finite,
)
from suite.console import READING, emit, out, program, say, write
from suite.tracking import pages_at
from trials.common.errors import UserError, unknown

if TYPE_CHECKING:
    from reports.leaderboard.board import Leaderboard
    from suite.results.tables import Tables


class Format(StrEnum):
    """How a leaderboard is shown."""

    table = "table"
    csv = "csv"
    md = "md"
    latex = "latex"
    html = "html"


def _format(text: str) -> Format:
    if text == "json":
        raise typer.BadParameter("'json' has an option of its own, as in every command: --json")
    if text not in Format.__members__:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, FORMATS))}")
    return Format(text)


INTERIM = (Format.table, Format.md, Format.html)
"""What also shows scenarios whose final runs are not all there."""
FORMATS = tuple(map(str, Format))
FORMAT = typer.Option(
    "--format", parser=_format, metavar=f"<{'|'.join(FORMATS)}>", help="How to show it."
)


class At(StrEnum):
    """What runs are compared at equal amounts of."""

    rounds = "rounds"
    steps = "steps"
    bytes = "bytes"
    seconds = "seconds"


class MetricOption(StrEnum):
    """What runs are compared by."""

    score = "score"
    best = "best"
    worst_clients = "worst_clients"
    client_spread = "client_spread"
    personal = "personal"
    fine_tuned = "fine_tuned"
    unseen = "unseen"
    loss = "loss"
    top5 = "top5"


Given = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SWEEP|FILE]...",
        help="Names of a sweep or of studies, or tables (.parquet). Default: all that there are.",
    ),
]
Studies = Annotated[
    list[str] | None,
    typer.Option(
        help="A study's name: all its sweeps. May be repeated; scenarios match by content."
    ),
]


def leaderboard(
    given: Given = None,
    name: Name = None,
    study: Studies = None,
    where: Where = None,
    metric: Annotated[
        MetricOption,
        typer.Option(
            help="score: mean of the last three evaluations. best: over rounds, selected on test "
            "data. worst_clients: of the worst 10 %. personal: each client's own model on its own data."
        ),
    ] = MetricOption.score,
    target: Annotated[
        float | None, typer.Option(callback=finite, help="Test score for rounds to target.")
    ] = None,
    at: Annotated[
        At, typer.Option(help="Compare at equal rounds, client work, bytes or simulated seconds.")
    ] = At.rounds,
    sort: Annotated[
        str | None,
        typer.Option(help="Sort rows by a field of --json; --sort=-FIELD: descending."),
    ] = None,
    form: Annotated[Format, FORMAT] = Format.table,
    alias: Alias = None,
    columns: Annotated[
        str | None, typer.Option(help="Further columns by their heads, with commas; or all.")
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Show first how fair each row's search was.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what columns mean, and how settings differ.")
    ] = False,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Rank algorithms by their final runs, also while a sweep runs.

    A name that ends with .parquet is a sweep's table: a colleague's, say.
    """
    values, named = _where(where), aliases(alias)
    say(READING)
    from reports.leaderboard.names import aliased
    from reports.wording.formats import audit_table, render, table
    from suite.results.leaderboards import read_leaderboard
    from suite.results.query import NONE_YET, Query

    tables, name, studies = _asked(given or [], name, study, storage, tracking_uri)
    query = Query(name, studies, values, metric.value, target, at.value)
    board = read_leaderboard(tables, query)
    board = aliased(board, board, named)
    if not board.rows and form not in INTERIM and not as_json:
        raise UserError(f"{NONE_YET}, or see how it stands without --format {form}")
    if sort:
        board = _sorted(board, sort)
    heads = [head.strip() for head in columns.split(",")] if columns else []
    if as_json:
        emit(board.as_dict())
    elif form is Format.table:
        shown = out()
        if audit:
            shown.print(audit_table(board, shown.width, program()), crop=False)
        shown.print(table(board, shown.width, program(), heads, explain), crop=False)
    elif form is Format.html:
        from reports.page.page import leaderboard_page

        sys.stdout.write(leaderboard_page(board))
    else:
        write(render(board, form.value, heads))


def report(
    given: Given = None,
    name: Name = None,
    where: Where = None,
    output: Folder = None,
    figures: Annotated[
        str | None, typer.Option(help="svg, png or pdf, with commas: each chart as a file.")
    ] = None,
    alias: Alias = None,
    server: Server = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """One self-contained HTML page, and its figures as files."""
    values, forms, named = _where(where), _forms(figures), aliases(alias)
    say(READING)
    from suite.results.query import Query
    from suite.results.report import write
    from suite.sweeps.journal.paths import check_name

    stems = [Path(text).stem if text.endswith(TABLE) else text for text in given or ["all"]]
    own = name if name is not None else "-".join(stems)
    if output is None:
        check_name(own, "report of")
    tables, name, studies = _asked(given or [], name, None, storage, tracking_uri)
    query = Query(name, studies, values)
    folder = output or storage / "report" / own
    done = write(tables, query, folder, pages_at(server, tracking_uri), forms, named)
    if as_json:
        emit({"page": str(done.page), "figures": [str(path) for path in done.figures]})
    else:
        if done.figures:
            say(f"{len(done.figures)} figures in {folder / 'figures'}")
        out().print(str(done.page), **PLAIN)


export = typer.Typer(no_args_is_help=True, help="Write results for other tools.")


@export.command("optuna", epilog="Example: suite export optuna quickstart searches.db")
def export_optuna(
    sweep: Annotated[str, typer.Argument(help="The sweep's name.")],
    file: Annotated[Path, typer.Argument(help="The SQLite file to write.")],
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Write a sweep's searches for Optuna's tools: a study for each entry."""
    from suite.results.study import export as write_studies

    tables, name, _ = _asked([], sweep, None, storage, tracking_uri)
    names = write_studies(tables.of(name).tables[0], file)
    if as_json:
        emit({"file": str(file), "studies": names})
        return
    say(f"{len(names)} studies in {file}. From Python:")
    say(f'  optuna.load_study(study_name="{names[0]}", storage="sqlite:///{file}")')
    out().print(f"optuna-dashboard sqlite:///{file}", **PLAIN)


def _asked(
    given: list[str],
    name: str | None,
    studies: list[str] | None,
    storage: Path,
    tracking_uri: str | None,
) -> tuple["Tables", str | None, tuple[str, ...]]:
    """Return the tables, the sweep and the studies that are asked for: one word without an option is a sweep's name, else a
    study's, and it is said which; several are studies'.
    """
    from suite.sweeps.tables import open_tables

    files = [Path(text) for text in given if text.endswith(TABLE)]
    names = [text for text in given if not text.endswith(TABLE)]
    tables = open_tables(storage, tracking_uri, files)
    if len(names) == 1 and name is None and not studies:
        return tables, names[0], ()
    return tables, name, (*names, *(studies or ()))


def _forms(given: str | None) -> list[str]:
    """The forms in which figures are wanted."""
    from reports.charts.drawing import FORMS

    forms = [text.strip() for text in (given or "").split(",") if text.strip()]
    for form in forms:
        if form not in FORMS:
            raise unknown("form of figures", form, FORMS)
    return forms


TABLE = ".parquet"
"""How the name of a table ends."""
RESERVED = {
    "kind": "only final runs are compared",
    "sweep": "a sweep is named by --name",
    "study": "a study is named before the options, or by --study",
}
"""Columns that `--where` cannot ask for, and why."""


def _where(where: list[str] | None) -> dict[str, str]:
    found = {}
    for given in where or []:
        tag, equals, value = given.partition("=")
        if not equals:
            raise UserError(f"--where {given}: must be COLUMN=VALUE, as in --where dataset=digits")
        if not re.fullmatch(r"[a-z0-9_]+", tag):
            raise UserError(
                f"--where {given}: a column's name has small letters, digits and _ only"
            )
        if tag in RESERVED:
            raise UserError(f"--where {given}: {RESERVED[tag]}")
        found[tag] = value
    return found


def _sorted(board: "Leaderboard", by: str) -> "Leaderboard":
    from reports.wording.tables import SORTABLE, ordered

    field, down = by.removeprefix("-"), by.startswith("-")
    if field not in SORTABLE:
        raise unknown("field to sort by", field, SORTABLE)
    return ordered(board, field, down)
