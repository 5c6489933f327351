"""`suite tuned`: list, show, recommend, export and import tuned configurations."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from suite.cli.options import RUNS, Json, Narrowing, Only, Storage, Tracking, Trust, narrowing
from suite.console import READING, emit, say
from trials.errors import UserError

app = typer.Typer(
    no_args_is_help=True, help="Tuned configurations: list, show, recommend, export, import."
)


NONE = (
    "no tuned configuration matches; `suite tuned list` has those there are, `suite sweep` and "
    "`suite tuned import board:second` more"
)


@app.command("list")
@narrowing
def tuned_list(
    only: Narrowing,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """List tuned configurations, best validation score first."""
    from reports.leaderboard.formats import WIDE
    from reports.leaderboard.wording import params_text, short
    from trials import datasets

    found = _tuned(storage, tracking_uri, *only)
    if as_json:
        emit([item.model_dump(mode="json") for item in found])
        return
    if not found:
        say(NONE)
        return
    out, shown = Console(), Table()
    wide = out.width >= WIDE
    place = ("dataset", "model", "heterogeneity") if wide else ("cell",)
    for column in ("algorithm", *place, "val", "test", "params", *["from"] * wide):
        shown.add_column(column, overflow="fold", no_wrap=column in ("val", "test"))
    for item in found:
        metric = datasets.parse(item.dataset).task.metric
        scores = [item.scores.get(f"{part}_{metric}") for part in ("val", "test")]
        shown.add_row(
            short(item.algorithm),
            *(item.place if wide else [str(item.place)]),
            *(f"{score:z.4f}" if isinstance(score, int | float) else "" for score in scores),
            params_text(item.params),
            *[str(item.provenance.get("sweep", "a file"))] * wide,
        )
    out.print(shown)


@app.command("show")
@narrowing
def tuned_show(
    only: Narrowing,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Print the matching configuration that validated best as YAML, ready to paste."""
    found = _tuned(storage, tracking_uri, *only)
    if not found:
        raise UserError(NONE)
    emit(found[0].model_dump(mode="json")) if as_json else sys.stdout.write(found[0].text())


@app.command("export")
@narrowing
def tuned_export(
    folder: Annotated[
        Path, typer.Argument(help="Where to write dataset/heterogeneity/model/algorithm.yaml.")
    ],
    only: Narrowing,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Write tuned configurations as files; of several for one entry, the one that validated best."""
    from suite.configurations.configuration import SIGN
    from suite.yaml_files import write_files

    found = _tuned(storage, tracking_uri, *only)
    if not found:
        raise UserError(NONE)
    files: dict[Path, bytes] = {}
    for item in found:
        files.setdefault(folder / item.path, item.text().encode())
    write_files(files, SIGN)
    emit([str(path) for path in files]) if as_json else Console().print(*files, sep="\n")


@app.command("import")
def tuned_import(
    source: Annotated[
        str,
        typer.Argument(
            help="A YAML file, a folder of them, a bundle of `suite publish`, or board:NAME: a shipped set, "
            "or a bundle in boards/ below the storage."
        ),
    ],
    storage: Storage = RUNS,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Check configurations and keep them beside the store, for `suite run --tuned`.

    One bad file and nothing is imported. Of several for one entry the one with the best validation
    score is kept.
    """
    from suite.boards.sources import located, tuned_of
    from suite.configurations.configuration import keep

    kept, passed_over = keep(tuned_of(located(source, storage)), storage / "imported")
    for reason in passed_over:
        say(reason)
    if as_json:
        emit([str(path) for path in kept])
    else:
        Console().print(f"imported {len(kept)} configurations into {storage}", highlight=False)


@app.command(
    "recommend",
    epilog="Example: suite tuned recommend --dataset mnist --heterogeneity 'dirichlet(0.3)'",
)
def tuned_recommend(
    dataset: Annotated[str, typer.Option(help="The data set to train on.")],
    heterogeneity: Annotated[str, typer.Option(help="Its heterogeneity level.")],
    algorithm: Only = None,
    model: Only = None,
    clients: Annotated[
        int | None, typer.Option(min=1, help="How many there will be; default: as it was tuned.")
    ] = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """The best known configuration for a cell, else that of the nearest cell, adapted to this one; how near,
    on what evidence, what was adapted.
    """
    say(READING)
    from suite.configurations.library import known
    from suite.configurations.recommend import recommend

    tuned = known(storage, tracking_uri)
    found = recommend(tuned, dataset, heterogeneity, algorithm, model, clients)
    if as_json:
        emit(found.document())
        return
    sys.stdout.write(found.adapted.configuration.text())
    for line in found.lines():
        say(line)


def _tuned(storage: Path, tracking_uri: str | None, *cell: str | None) -> list[Any]:
    say(READING)
    from suite.configurations.library import known, select_tuned

    return select_tuned(known(storage, tracking_uri), *cell)
