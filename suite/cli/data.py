"""`suite data`: what a data set looks like on the clients, and whether its files are there."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.terminal import Column, ColumnKind
from suite.cli.options import DataRoot, Json
from suite.console import emit, out, say, show_table

if TYPE_CHECKING:
    from suite.partition_statistics import Description

app = typer.Typer(
    no_args_is_help=True, help="Data sets: describe how they are partitioned, prepare them."
)


@app.command(
    epilog="Example: suite data describe digits 'dirichlet(0.3)' --clients 10 --html digits.html"
)
def describe(
    dataset: Annotated[str, typer.Argument(help="As in `suite list datasets`.")],
    heterogeneity: Annotated[str, typer.Argument(help="As in `suite list heterogeneity`.")] = "iid",
    clients: Annotated[
        int | None, typer.Option(help="Default: 20, or as many as the data set has.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Partition seed.")] = 0,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the clients x labels heat map.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write the heat map as a picture.")] = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Partition a data set to clients as a run would, and say who holds what."""
    from reports.page.drawing import SIGN
    from suite import partition_statistics as data
    from suite.yaml_files import refuse_foreign

    refuse_foreign(filter(None, (html, png)), SIGN)
    found = data.describe(dataset, heterogeneity, clients, seed, data_root)
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


@app.command(epilog="Example: suite data prepare mnist fashion_mnist --data-root ~/data")
def prepare(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATASET]...", help="Fetch these; none: check all, fetch nothing."),
    ] = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Fetch data sets where that can be done, and check their files; without a name, show which of
    all data sets are here.
    """
    from suite import partition_statistics as data

    if wanted:
        data.fetch(wanted, data_root)
    found = data.check(wanted or data.known(), data_root)
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
