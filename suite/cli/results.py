"""The commands `suite leaderboard`, `report` and `export`, which show and export recorded runs."""

import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, Json, Sources, Storage, Tracking, Where, pairs
from suite.console import READING, emit, out, say, write
from trials.common.errors import UserError, unknown

FORMATS = ("table", "md", "html", "csv", "latex")
INTERIM = FORMATS[:3]
"""The formats that also show scenarios whose final runs have not all ended."""
METRIC = (
    "score: mean of the last three evaluations. best: score of the best round on test data. worst_clients: mean of the worst "
    "10 % of clients. personal: each client's own model on its own data. Also client_spread, fine_tuned, unseen, loss, top5."
)


def leaderboard(
    sources: Sources = None,
    where: Where = None,
    metric: str = typer.Option("score", help=METRIC),
    target: float | None = typer.Option(None, help="Test score: show the rounds to reach it."),
    at: str = typer.Option("rounds", help="Compare at equal rounds, steps, bytes or seconds."),
    form: str = typer.Option("table", "--format", help=f"{', '.join(FORMATS)}."),
    columns: str | None = typer.Option(
        None, help="Further columns by their headings, separated by commas, or all."
    ),
    audit: bool = typer.Option(False, "--audit", help="First show how fair each search was."),
    explain: bool = typer.Option(False, "--explain", help="Explain columns and settings."),
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Rank algorithms by their final runs, even while a sweep still runs.

    A name that ends with .parquet is a file with a sweep's table, for instance a colleague's. --where takes any column of
    docs/table.md. Six columns are also options: --algorithm, --dataset, --model, --heterogeneity, --sweep, --study.
    """
    values = pairs(where)
    say(READING)
    from reports.wording.tables import audit_on_terminal, render, terminal

    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    query: dict[str, Any] = {"metric": metric, "at": at, "target": target, "where": values}
    board = api.leaderboard(*(sources or ()), storage=storage, tracking_uri=tracking_uri, **query)
    if not board.rows and form not in INTERIM and not as_json:
        from suite.results.leaderboards import NONE_YET

        raise UserError(f"{NONE_YET}, or see the interim results without --format {form}")
    heads = [*map(str.strip, columns.split(","))] if columns else []
    if as_json:
        emit(board.as_dict())
    elif form == "table":
        console, command = out(), shlex.join(["suite", "leaderboard", *(sources or ())])
        if audit:
            console.print(audit_on_terminal(board, console.width), crop=False)
        console.print(terminal(board, console.width, heads, explain, command), crop=False)
    elif form == "html":
        from reports.page.page import leaderboard_page

        sys.stdout.write(leaderboard_page(board))
    else:
        write(render(board, form, heads))


def report(
    sources: Sources = None,
    where: Where = None,
    output: Path | None = typer.Option(None, help="Folder of the page. Default: in --storage."),
    figures: str | None = typer.Option(None, help="Also write the charts: svg,png,pdf."),
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page with leaderboard and charts."""
    values = pairs(where)
    forms = [text.strip() for text in (figures or "").split(",") if text.strip()]
    say(READING)
    options: dict[str, Any] = {"where": values, "output": output, "figures": forms}
    written = api.report(*(sources or ()), storage=storage, tracking_uri=tracking_uri, **options)
    if as_json:
        emit({"page": str(written.page), "figures": [*map(str, written.figures)]})
        return
    if written.figures:
        say(f"{len(written.figures)} figures in {written.figures[0].parent}")
    out().print(str(written.page), **PLAIN)


export = typer.Typer(no_args_is_help=True, help="Write results for other tools.")


@export.command("optuna", epilog="Example: suite export optuna quickstart searches.db")
def export_optuna(
    sweep: str = typer.Argument(help="The sweep's name."),
    file: Path = typer.Argument(help="The SQLite file to write."),
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
) -> None:
    """Write the searches of a sweep as Optuna studies, for Optuna's tools."""
    from suite.results.study import export as write_studies

    studies = write_studies(api.tables_at([sweep], storage, tracking_uri).tables[0], file)
    say(f"{len(studies)} studies in {file}. From Python:")
    say(f'  optuna.load_study(study_name="{studies[0]}", storage="sqlite:///{file}")')
    out().print(f"optuna-dashboard sqlite:///{file}", **PLAIN)
