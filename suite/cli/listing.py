"""`suite list`: algorithms, data sets, models, heterogeneity levels, studies and papers."""

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from suite.cli.options import Json
from suite.console import emit
from trials.errors import UserError

app = typer.Typer()


class Listing(StrEnum):
    """What can be listed."""

    algorithms = "algorithms"
    datasets = "datasets"
    models = "models"
    heterogeneity = "heterogeneity"
    studies = "studies"
    papers = "papers"


@app.command("list", epilog="Example: suite list algorithms --json")
def list_things(
    kind: Annotated[Listing, typer.Argument()],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Algorithms as the page docs/algorithms.md.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List algorithms, data sets, models, heterogeneity levels, studies or papers."""
    from suite.catalog import algorithms_page, listing

    if markdown:
        if kind is not Listing.algorithms:
            raise UserError(f"--markdown is for algorithms, not for {kind.value}")
        sys.stdout.write(algorithms_page())
        return
    found = listing(kind.value)
    if as_json:
        emit(found)
        return
    shown = Table()
    columns = [key for key in found[0] if key not in ("published", "assumes")]
    for column in columns:
        shown.add_column(column)
    for item in found:
        shown.add_row(*(escape(_cell(item[column])) for column in columns))
    Console().print(shown)


def _cell(value: Any) -> str:
    from suite.catalog import hyperparameter

    if isinstance(value, dict):
        return "\n".join(hyperparameter(name, given) for name, given in value.items())
    if isinstance(value, bool):
        return "yes" if value else ""
    return ", ".join(value) if isinstance(value, list) else str(value)
