"""`suite tuned`: list, show, compare, recommend, export and import tuned configurations."""

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.table import Column, ColumnKind
from suite.cli.options import RUNS, DataRoot, Json, Only, Storage, Tracking, named
from suite.configurations.exports.forms import Form
from suite.console import READING, emit, out, say, show_table, write
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.configurations.library import TunedList
    from suite.configurations.portfolio import Portfolio

app = typer.Typer(
    no_args_is_help=True, help="Tuned configurations: list, show, recommend, export, import."
)


NONE = (
    "no tuned configuration matches; `suite tuned list` shows all, `suite sweep` and "
    "`suite tuned import board:methods` more"
)


@app.command("list", epilog="Example: suite tuned list --dataset digits")
def tuned_list(
    algorithm: Only = None,
    dataset: Only = None,
    model: Only = None,
    heterogeneity: Only = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """List tuned configurations, of each data set and level the best first."""
    found = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    if as_json:
        emit([item.model_dump(mode="json") for item in found])
        return
    if not found:
        say(NONE)
        return
    made = found.table
    ends = [
        i for i, (one, after) in enumerate(pairwise(found)) if one.data_level != after.data_level
    ]
    show_table(made.columns, [line.texts for line in made.lines], made.essential, ends=ends)


@app.command("show", epilog="Example: suite tuned show --algorithm fedprox --heterogeneity iid")
def tuned_show(
    algorithm: Only = None,
    dataset: Only = None,
    model: Only = None,
    heterogeneity: Only = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Print the best matching configuration as YAML.

    The best has the best validation score. The options must select one data set and level.
    """
    from suite.configurations.library import best_of

    found = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    if not found:
        raise UserError(NONE)
    best = best_of(found)
    emit(best.model_dump(mode="json")) if as_json else write(best.text())


@app.command(
    "export", epilog="Example: suite tuned export programs --as python --algorithm fedprox"
)
def tuned_export(
    folder: Annotated[
        Path, typer.Argument(help="Where to write dataset/heterogeneity/model/algorithm.yaml.")
    ],
    form: Annotated[
        Form,
        typer.Option(
            "--as",
            help="yaml: for the suite; python: a program that needs only PyTorch; flower: its run config.",
        ),
    ] = Form.YAML,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="With --as python: also write the run of this seed, for the program to repeat.",
        ),
    ] = None,
    algorithm: Only = None,
    dataset: Only = None,
    model: Only = None,
    heterogeneity: Only = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Write tuned configurations as files, for the suite or for other programs.

    Of several for an entry, the one with the best validation score is written. What has no such form is left out.
    """
    from suite.yaml_files import write_files

    if seed is not None and form is not Form.PYTHON:
        raise UserError(f"--seed {seed}: goes with --as python, whose program repeats a run")
    found = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    if not found:
        raise UserError(NONE)
    best = {item.path: item for item in reversed(found)}
    files: dict[Path, bytes] = {}
    faults: list[UserError] = []
    for item in reversed(best.values()):
        try:
            files |= form.files(item, folder, seed, data_root)
        except UserError as fault:
            faults.append(fault)
    if not files:
        raise faults[0]
    write_files(files, form.sign)
    for left_out in faults:
        say(f"left out: {left_out}")
    if as_json:
        emit([str(path) for path in files])
    else:
        write("".join(f"{path}\n" for path in files))


@app.command("diff", epilog="Example: suite tuned diff mine.yaml theirs.yaml")
def tuned_diff(
    first: Annotated[Path, typer.Argument(help="A tuned file.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    as_json: Json = False,
) -> None:
    """Show in what two tuned files differ.

    Hyperparameters, settings, scenario, scores and budget are compared; where the files are from is not.
    """
    from suite.configurations.configuration import differences, read

    found = differences(read(first), read(second))
    if as_json:
        emit({key: list(pair) for key, pair in found.items()})
    elif found:
        columns = [Column("key", ColumnKind.NAME), *map(Column, (str(first), str(second)))]
        show_table(columns, [[key, *map(_shown, pair)] for key, pair in found.items()])
    else:
        out().print("no difference")


def _shown(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


@app.command("portfolio", epilog="Example: suite tuned portfolio fedprox -k 4 --leave-out digits")
def tuned_portfolio(
    algorithm: Annotated[str, typer.Argument(help="As in `suite list algorithms`.")],
    size: Annotated[int, typer.Option("-k", min=1, max=100, help="So many configurations.")] = 4,
    leave_out: Annotated[
        str | None, typer.Option(callback=named, help="Make it without this family of data sets.")
    ] = None,
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Show the few configurations to try first on new data.

    They are the ones that together lose least on the trials of the bank. The loss of the first 1, 2, ... is that on data of other
    families than they were chosen on; docs/reproduce.md says how it is measured.
    """
    from dataclasses import asdict

    say(READING)
    from suite.bank import load
    from suite.configurations.portfolio import portfolio

    found = portfolio(algorithm, size, leave_out, load(storage=storage))
    if as_json:
        emit(asdict(found))
        return
    show_table(found.table.columns, [line.texts for line in found.table.lines])
    say(found.legend)


@app.command("import", epilog="Example: suite tuned import board:methods")
def tuned_import(
    source: Annotated[
        str,
        typer.Argument(
            help="A YAML file, a folder of them, a bundle of `suite publish`, or board:NAME."
        ),
    ],
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Import configurations for `suite run --tuned`.

    All files are checked first; if one is wrong, nothing is imported. Of several for an entry, the one with
    the best validation score is kept.
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
        int | None, typer.Option(min=1, help="Default: as many as it was tuned for.")
    ] = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Show the best known configuration for a scenario.

    If there is none, the configuration of the nearest scenario is adapted. The command shows the distance,
    the changes and the evidence.
    """
    from dataclasses import asdict

    say(READING)
    from suite.configurations.library import known
    from suite.configurations.recommend import recommend

    tuned = known(storage, tracking_uri)
    found = recommend(tuned, dataset, heterogeneity, algorithm, model, clients)
    few = _portfolio(found.best.algorithm, storage)
    if as_json:
        emit({**found.document(), "portfolio": None if few is None else asdict(few)})
        return
    write(found.adapted.configuration.text())
    for line in found.lines():
        say(line)
    if few is not None and not found.exact:
        say(
            f"To try besides: `suite tuned portfolio {few.algorithm} -k {len(few.members)}` has {len(few.members)} "
            f"configurations from the bank; the best of them is expected {few.members[-1].loss:.2g} {few.unit} "
            "behind the best known."
        )


def _portfolio(algorithm: str, storage: Path) -> "Portfolio | None":
    """An algorithm's portfolio; None where the bank has too few of its trials."""
    from suite.bank import load
    from suite.configurations.portfolio import portfolio

    with suppress(UserError):
        return portfolio(algorithm, trials=load(storage=storage))
    return None


def _tuned(storage: Path, tracking_uri: str | None, *scenario: str | None) -> "TunedList":
    say(READING)
    from suite.configurations.library import known, select_tuned

    return select_tuned(known(storage, tracking_uri), *scenario)
