"""`suite list`: algorithms, data sets, models, heterogeneity levels, studies and papers."""

import sys
from enum import StrEnum
from textwrap import fill
from typing import Annotated, Any

import typer

from reports.terminal import Column, ColumnKind
from suite.cli.options import Json
from suite.console import emit, out, say, show_table
from trials.common.errors import UserError

app = typer.Typer()


class Listing(StrEnum):
    """What can be listed."""

    algorithms = "algorithms"
    datasets = "datasets"
    models = "models"
    heterogeneity = "heterogeneity"
    samplers = "samplers"
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
    """List algorithms, data sets, models, heterogeneity levels, samplers, studies or papers."""
    from suite.catalog import algorithms_page, broken, listing

    for fault in broken(kind.value):
        say(f"left out: {fault}")
    if markdown:
        if kind is not Listing.algorithms:
            raise UserError(f"--markdown is for algorithms, not for {kind.value}")
        sys.stdout.write(algorithms_page())
        return
    found = listing(kind.value)
    if as_json:
        emit(found)
        return
    rows = _algorithms(found) if kind is Listing.algorithms else found
    columns = [
        Column(head, ColumnKind.NAME if i == 0 else ColumnKind.WORDS)
        for i, head in enumerate(rows[0])
    ]
    lines = [[_cell(value) for value in item.values()] for item in rows]
    show_table(columns, lines)
    if kind is Listing.models:
        out().print(OWN_MODEL, highlight=False, markup=False)
    if kind is Listing.heterogeneity:
        from trials.heterogeneity import grammar

        out().print(f"A level is written {grammar()}", highlight=False, markup=False)


OWN_MODEL = (
    "What is not given has its default: mlp(32) is mlp(32,200). How a model of your own is added: "
    "docs/architecture.md, How to add something."
)
NAMES, RANGES = 18, 33
"""Characters of columns that leave the summaries a quarter of a terminal of 80."""


def _algorithms(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Algorithms in three columns: their papers below their names."""
    rows = []
    for item in found:
        unranked = ", unranked" if item["reference"] and item["paper"] != "reference" else ""
        paper = fill(f"{item['paper']}{unranked}", NAMES)
        ranges = _cell(item["hyperparameters"]).splitlines()
        rows.append(
            {
                "name": f"{item['name']}\n{paper}",
                "summary": item["summary"],
                "hyperparameters": "\n".join(
                    fill(line, RANGES, subsequent_indent="  ") for line in ranges
                ),
            }
        )
    return rows


def _cell(value: Any) -> str:
    from suite.catalog import hyperparameter

    if isinstance(value, dict):
        return "\n".join(hyperparameter(name, given) for name, given in value.items())
    if isinstance(value, bool):
        return "yes" if value else ""
    return ", ".join(value) if isinstance(value, list) else str(value)
