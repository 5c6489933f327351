"""`suite leaderboard`, `report` and `export`: what came out of the recorded runs."""

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
"""The formats that also show scenarios with incomplete final runs."""
METRIC = (
    "score: mean of the last three evaluations. best: over rounds, selected on test data. worst_clients: of the "
    "worst 10 %. personal: each client's own model on its own data. Also client_spread, fine_tuned, unseen, loss, top5."
)


def leaderboard(
    sources: Sources = None,
    where: Where = None,
    metric: str = typer.Option("score", help=METRIC),
    target: float | None = typer.Option(None, help="Test score for rounds to target."),
    at: str = typer.Option("rounds", help="Compare at equal rounds, steps, bytes or seconds."),
    form: str = typer.Option("table", "--format", help=f"{', '.join(FORMATS)}."),
    columns: str | None = typer.Option(
        None, help="More columns by their heads, with commas; or all."
    ),
    audit: bool = typer.Option(False, "--audit", help="Show first how fair each search was."),
    explain: bool = typer.Option(False, "--explain", help="Say what columns mean, what differs."),
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Rank algorithms by their final runs, also while a sweep runs.

    A name that ends with .parquet is a sweep's table: a colleague's, say. --where takes the columns of
    docs/table.md, and each is an option, too: --dataset digits, --study quickstart (all its sweeps).
    """
    values = pairs(where)
    say(READING)
    from reports.wording.tables import audit_on_terminal, render, terminal

    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    how: dict[str, Any] = {"metric": metric, "at": at, "target": target, "where": values}
    board = api.leaderboard(*(sources or ()), storage=storage, tracking_uri=tracking_uri, **how)
    if not board.rows and form not in INTERIM and not as_json:
        from suite.results.leaderboards import NONE_YET

        raise UserError(f"{NONE_YET}, or see how it stands without --format {form}")
    heads = [*map(str.strip, columns.split(","))] if columns else []
    if as_json:
        emit(board.as_dict())
    elif form == "table":
        shown, again = out(), shlex.join(["suite", "leaderboard", *(sources or ())])
        if audit:
            shown.print(audit_on_terminal(board, shown.width), crop=False)
        shown.print(terminal(board, shown.width, heads, explain, again), crop=False)
    elif form == "html":
        from reports.page.page import leaderboard_page

        sys.stdout.write(leaderboard_page(board))
    else:
        write(render(board, form, heads))


def report(
    sources: Sources = None,
    where: Where = None,
    output: Path | None = typer.Option(None, help="Folder to write. Default: in the storage."),
    figures: str | None = typer.Option(None, help="svg, png, pdf with commas: charts as files."),
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page, and its figures as files."""
    values = pairs(where)
    forms = [text.strip() for text in (figures or "").split(",") if text.strip()]
    say(READING)
    how: dict[str, Any] = {"where": values, "output": output, "figures": forms}
    done = api.report(*(sources or ()), storage=storage, tracking_uri=tracking_uri, **how)
    if as_json:
        emit({"page": str(done.page), "figures": [*map(str, done.figures)]})
        return
    if done.figures:
        say(f"{len(done.figures)} figures in {done.figures[0].parent}")
    out().print(str(done.page), **PLAIN)


export = typer.Typer(no_args_is_help=True, help="Write results for other tools.")


@export.command("optuna", epilog="Example: suite export optuna quickstart searches.db")
def export_optuna(
    sweep: str = typer.Argument(help="The sweep's name."),
    file: Path = typer.Argument(help="The SQLite file to write."),
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
) -> None:
    """Write a sweep's searches for Optuna's tools: a study for each entry."""
    from suite.results.study import export as write_studies

    studies = write_studies(api.tables_at([sweep], storage, tracking_uri).tables[0], file)
    say(f"{len(studies)} studies in {file}. From Python:")
    say(f'  optuna.load_study(study_name="{studies[0]}", storage="sqlite:///{file}")')
    out().print(f"optuna-dashboard sqlite:///{file}", **PLAIN)
