"""`suite tuned`: list, show, recommend, export and import tuned configurations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.terminal import Column, ColumnKind
from suite.cli.options import RUNS, Json, Narrowing, Only, Storage, Tracking, Trust, narrowing
from suite.console import READING, emit, out, say, show_table, write
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.configurations.library import TunedList

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
    """List tuned configurations: those of a data set and level together, best validation score first."""
    from reports.leaderboard.wording import number, params_text, short

    found = _tuned(storage, tracking_uri, *only)
    if as_json:
        emit([item.model_dump(mode="json") for item in found])
        return
    if not found:
        say(NONE)
        return
    columns = (
        Column("algorithm", ColumnKind.NAME),
        Column("scenario", ColumnKind.NAME),
        Column("val"),
        Column("test"),
        Column("params", ColumnKind.WORDS),
        Column("from", ColumnKind.NAME),
    )
    rows, ends = [], set()
    for i, item in enumerate(found):
        scores = [item.scores.get(f"{part}_{item.task.metric}") for part in ("val", "test")]
        known = (score if isinstance(score, int | float) else None for score in scores)
        source = str(item.provenance.get("sweep", "a file"))
        name, scenario = short(item.algorithm), str(item.scenario)
        rows.append([name, scenario, *map(number, known), params_text(item.params), source])
        if i + 1 < len(found) and found[i + 1].data_level != item.data_level:
            ends.add(i)
    show_table(columns, rows, 5, ends=ends)


@app.command("show")
@narrowing
def tuned_show(
    only: Narrowing,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Print the matching configuration that validated best as YAML, ready to paste. What matches must be of one
    data set and level.
    """
    from suite.configurations.library import best_of

    found = _tuned(storage, tracking_uri, *only)
    if not found:
        raise UserError(NONE)
    best = best_of(found)
    emit(best.model_dump(mode="json")) if as_json else write(best.text())


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
    if as_json:
        emit([str(path) for path in files])
    else:
        write("".join(f"{path}\n" for path in files))


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
        out().print(f"imported {len(kept)} configurations into {storage}", highlight=False)


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
    """The best known configuration for a scenario, else that of the nearest scenario, adapted to this one; how near,
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
    write(found.adapted.configuration.text())
    for line in found.lines():
        say(line)


def _tuned(storage: Path, tracking_uri: str | None, *scenario: str | None) -> "TunedList":
    say(READING)
    from suite.configurations.library import known, select_tuned

    return select_tuned(known(storage, tracking_uri), *scenario)
