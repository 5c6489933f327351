"""`suite tuned`: list, show, compare, recommend, export and import tuned configurations."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suite.cli.options import RUNS, DataRoot, Json, Only, Storage, Tracking
from suite.console import READING, emit, out, say, show_table, write
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.configurations.library import TunedList

app = typer.Typer(
    no_args_is_help=True, help="Tuned configurations: list, show, recommend, export, import."
)


NONE = "no tuned configuration matches; `suite tuned list` shows all, `suite sweep` makes more"


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
    tuned = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    if as_json:
        emit([item.model_dump(mode="json") for item in tuned])
    elif not tuned:
        say(NONE)
    else:
        table, levels = tuned.table, [item.data_level for item in tuned]
        ends = [i for i, (here, after) in enumerate(pairwise(levels)) if here != after]
        rows = [line.texts for line in table.lines]
        show_table(table.columns, rows, table.essential, ends=ends)


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

    tuned = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    if not tuned:
        raise UserError(NONE)
    best = best_of(tuned)
    emit(best.model_dump(mode="json")) if as_json else write(best.text())


@app.command("export", epilog="Example: suite tuned export programs --algorithm fedprox")
def tuned_export(
    folder: Annotated[
        Path, typer.Argument(help="Where to write dataset/heterogeneity/model/algorithm.py.")
    ],
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Also write the run of this seed, for the program to repeat."),
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
    """Write tuned configurations as programs that need only PyTorch.

    Of several for an entry, the one with the best validation score is written. What no program is written of is left out.
    """
    from suite.configurations.program import SIGN, exported
    from suite.yaml_files import write_files

    tuned = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    if not tuned:
        raise UserError(NONE)
    best = {item.path: item for item in reversed(tuned)}
    files: dict[Path, bytes] = {}
    faults: list[UserError] = []
    for item in reversed(best.values()):
        try:
            files |= exported(item, folder, seed, data_root)
        except UserError as fault:
            faults.append(fault)
    if not files:
        raise faults[0]
    write_files(files, SIGN)
    for left_out in faults:
        say(f"left out: {left_out}")
    if as_json:
        emit([str(path) for path in files])
    else:
        write("".join(f"{path}\n" for path in files))


@app.command("import", epilog="Example: suite tuned import theirs")
def tuned_import(
    source: Annotated[Path, typer.Argument(help="A YAML file, or a folder of them.")],
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Import configurations for `suite run --tuned`.

    All files are checked first; if one is wrong, nothing is imported. Of several for an entry, the one with
    the best validation score is kept.
    """
    from suite.configurations.configuration import keep, read_all

    kept, passed_over = keep(read_all(source), storage / "imported")
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
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Show the best known configuration for a scenario.

    If there is none, it is the configuration of the nearest scenario; the command says how far that is. `suite run FILE` with
    --dataset, --model or --heterogeneity runs it on another.
    """
    say(READING)
    from suite.configurations.library import known
    from suite.configurations.nearest import recommend

    tuned = known(storage, tracking_uri)
    away, best = recommend(tuned, dataset, heterogeneity, algorithm, model)
    if as_json:
        emit({"distance": away, "configuration": best.model_dump(mode="json")})
        return
    write(best.text())
    near = f"the nearest scenario, {away:.2f} away" if away else "this very scenario"
    say(f"{best.algorithm} validates best on {best.scenario}, {near}")


def _tuned(storage: Path, tracking_uri: str | None, *scenario: str | None) -> "TunedList":
    say(READING)
    from suite.configurations.library import known, select_tuned

    return select_tuned(known(storage, tracking_uri), *scenario)
