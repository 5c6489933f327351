"""`suite list`: what there is; `suite data`: what a data set looks like on the clients."""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.terminal import Column, ColumnKind
from suite.cli.options import DataRoot, Json
from suite.console import emit, out, say, show_table
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.partition_statistics import Description


class Listing(StrEnum):
    """What can be listed."""

    algorithms = "algorithms"
    datasets = "datasets"
    models = "models"
    heterogeneity = "heterogeneity"
    samplers = "samplers"
    studies = "studies"
    papers = "papers"


def list_things(
    kind: Annotated[Listing, typer.Argument()],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Algorithms as the page docs/algorithms.md.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Algorithms, data sets, models, samplers, studies, papers there are.

    Each comes with what one gives it: ranges, defaults, sources.
    """
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
NAME_WIDTH, RANGES = 18, 33
"""Characters of columns that leave the summaries a quarter of a terminal of 80."""


def _algorithms(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Algorithms in three columns: their papers below their names."""
    rows = []
    for item in found:
        unranked = ", unranked" if item["reference"] and item["paper"] != "reference" else ""
        paper = fill(f"{item['paper']}{unranked}", NAME_WIDTH)
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


data = typer.Typer(
    no_args_is_help=True, help="Data sets: see how they are partitioned, and prepare them."
)


@data.command(
    epilog="Example: suite data describe digits 'dirichlet(0.3)' --clients 10 --html digits.html"
)
def describe(
    dataset: Annotated[str, typer.Argument(help="As in `suite list datasets`.")],
    heterogeneity: Annotated[str, typer.Argument(help="As in `suite list heterogeneity`.")] = "iid",
    clients: Annotated[
        int | None, typer.Option(help="Default: 20, or as many as the data have.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Partition seed.")] = 0,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the clients x labels heat map.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write the heat map as a picture.")] = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Partition a data set to clients as a run would, and show what each holds."""
    from reports.page.drawing import SIGN
    from suite import partition_statistics as statistics
    from suite.yaml_files import refuse_foreign

    refuse_foreign(filter(None, (html, png)), SIGN)
    found = statistics.describe(dataset, heterogeneity, clients, seed, data_root)
    for path, draw in ((html, _html), (png, _png)):
        if path is not None:
            _write(path, draw, found)
    if as_json:
        emit(found.document())
        return
    columns = [
        Column("per client", ColumnKind.WORDS),
        *map(Column, ("min", "median", "mean", "max")),
    ]
    rows = [
        [NAMES[name], *(f"{value:.4g}" for value in summary.values())]
        for name, summary in found.summaries.items()
    ]
    show_table(columns, rows, title=found.title)
    facts = [f"{key} {value}" for key, value in _facts(found).items()]
    out().print(", ".join(facts), highlight=False, soft_wrap=True)


@data.command(epilog="Example: suite data prepare mnist fashion_mnist --data-root ~/data")
def prepare(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATASET]...", help="Fetch these; none: check all, fetch nothing."),
    ] = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Download data sets and check their files. Without a name: show which data sets are here."""
    from suite import partition_statistics as statistics

    if wanted:
        statistics.fetch(wanted, data_root)
    found = statistics.check(wanted or statistics.known(), data_root)
    if as_json:
        emit(found)
        return
    columns = [
        Column("dataset", ColumnKind.NAME),
        Column("state", ColumnKind.WORDS),
        Column("what", ColumnKind.NAME),
    ]
    names = dict.fromkeys(item["dataset"] for item in found)
    rows = [[name, *_state([i for i in found if i["dataset"] == name])] for name in names]
    show_table(columns, rows)


NAMES = {
    "samples": "training samples",
    "labels": "labels held",
    "wasserstein": "Wasserstein distance to all",
}


def _state(files: list[dict[str, Any]]) -> tuple[str, str]:
    """One word on a data set's files, and the sentence behind it."""
    if files[0]["name"] is None:
        return "ready", "needs no files"
    wrong = [f for f in files if not f["sound"] and f["found"] is not None]
    if wrong:
        first = wrong[0]
        what = f"{first['path']}: expected {first['expected']}, found {first['found']}"
        return "wrong", what
    absent = [f for f in files if f["found"] is None]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        return "absent", f"{absent[0]['path']}{more}"
    return "ready", f"{len(files)} files, checked"


def _facts(found: "Description") -> dict[str, Any]:
    totals = {key: value for key, value in found.totals.items() if value or key in SPLITS}
    return {**totals, "partition seed": found.seed, "fingerprint": found.data.fingerprint}


SPLITS = ("train", "val", "test")


def _write(path: Path, draw: "Callable[[Description], bytes]", found: "Description") -> None:
    from suite.yaml_files import writing

    picture = draw(found)
    with writing(path):
        path.write_bytes(picture)
    say(f"wrote {path}")


def _png(found: "Description") -> bytes:
    from reports import partition

    return partition.png(partition.figure(found.counts, found.labels, found.title))


def _html(found: "Description") -> bytes:
    from reports import partition

    page = partition.html(
        partition.figure(found.counts, found.labels),
        found.title,
        _facts(found),
        {NAMES[name]: summary for name, summary in found.summaries.items()},
        {NAMES[name]: values for name, values in found.per_client.items()},
        found.counts,
        found.labels,
    )
    return page.encode()
