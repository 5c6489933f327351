"""The commands `suite tuned`: list, show, export and import tuned configurations, and measure companions."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, SCENARIO, DataRoot, Json, Storage, Tracking, Where, pairs
from suite.console import READING, emit, out, say, show_table, write
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.configurations.configuration import Tuned
    from suite.configurations.library import TunedList

app = typer.Typer(no_args_is_help=True, help="Tuned configurations: list, show, export, import.")


@app.command("list", epilog="Example: suite tuned list --dataset digits")
def tuned_list(
    where: Where = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """List tuned configurations by data set and level, the best first.

    Select configurations by algorithm, dataset, model or heterogeneity: --dataset digits, or --where dataset=digits.
    """
    tuned = matching(pairs(where, SCENARIO), storage, tracking_uri)
    if as_json:
        emit([item.model_dump(mode="json") for item in tuned])
    else:
        table = tuned.table
        show_table(table.columns, [line.texts for line in table.lines], table.essential)


@app.command("show", epilog="Example: suite tuned show --algorithm fedprox --heterogeneity iid")
def tuned_show(
    where: Where = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Print the matching configuration with the best validation score as YAML.

    Use --algorithm, --dataset, --model and --heterogeneity, or --where KEY=VALUE. All matches must share one data set and
    level, since scores of different levels cannot be compared.
    """
    tuned = matching(pairs(where, SCENARIO), storage, tracking_uri)
    from suite.configurations.library import best_of

    best = best_of(tuned)
    emit(best.model_dump(mode="json")) if as_json else write(best.text())


@app.command("export", epilog="Example: suite tuned export programs --algorithm fedprox")
def tuned_export(
    folder: Path = typer.Argument(help="Folder for dataset/heterogeneity/model/algorithm.py."),
    seed: int | None = typer.Option(
        None, min=0, help="Also write the inputs of the run with this seed (.pt), to repeat it."
    ),
    where: Where = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    data_root: DataRoot = None,
) -> None:
    """Write tuned configurations as programs that need only PyTorch.

    For each algorithm in a scenario, the configuration with the best validation score is written. Configurations that such
    programs cannot express are left out. Select with --algorithm, --dataset, --model and --heterogeneity, or --where KEY=VALUE.
    """
    tuned = matching(pairs(where, SCENARIO), storage, tracking_uri)
    from suite.configurations.program import SIGN, exported
    from suite.yaml_files import write_files

    best: dict[Path, Tuned] = {}  # the list is sorted: the first one is the best
    for item in tuned:
        best.setdefault(item.path, item)
    files: dict[Path, bytes] = {}
    for item in best.values():
        try:
            files |= exported(item, folder, seed, data_root)
        except UserError as fault:
            say(f"left out: {fault}")
    if not files:
        raise UserError("none of them can be written as a program")
    write_files(files, SIGN)
    write("".join(map("{}\n".format, files)))


@app.command("import", epilog="Example: suite tuned import theirs")
def tuned_import(
    source: Path = typer.Argument(help="A YAML file, or a folder of them."),
    storage: Storage = RUNS,
) -> None:
    """Import tuned configurations for `suite run --tuned`.

    All files are checked first, and nothing is imported if any file has a fault. For each algorithm in a scenario, only the
    configuration with the best validation score is kept.
    """
    from suite.configurations.configuration import keep, tuned_files

    kept = keep(tuned_files(source), storage / "imported")
    out().print(f"imported {len(kept)} configurations into {storage}", **PLAIN)


@app.command("companions", epilog="Example: suite tuned companions runs/*/trials.parquet")
def tuned_companions(
    tables: list[Path] = typer.Argument(help="Tables of sweeps (trials.parquet)."),
    leave_out: str | None = typer.Option(None, help="Leave out the family of this data set."),
) -> None:
    """Print good values of hyperparameters, except learning rates, as YAML.

    An algorithm gets one or two such settings (companions), which together promise the best accuracy on the tables' data sets.
    A study with `warm_start: companions:FILE` starts from such a file.
    """
    from suite.configurations.companions import FAMILIES, LEAST, Companions, measure, recorded
    from suite.yaml_files import dump
    from trials import datasets

    family = leave_out and datasets.family(datasets.canonical(leave_out))
    say(READING)
    option = ["--leave-out", leave_out] if leave_out else []
    command = shlex.join(["suite", "tuned", "companions", *map(str, tables), *option])
    measured = measure(recorded(tables), family)
    if not measured:
        need = f"{LEAST} search trials in a scenario, in each of {FAMILIES} families of data sets"
        raise UserError(f"companions need {need}: no algorithm in these tables has them")
    write(dump(Companions(command=command, algorithms=measured).model_dump()))


def matching(names: dict[str, str], storage: Path, tracking_uri: str | None) -> "TunedList":
    """Return the tuned configurations that match `names`, such as {"dataset": "digits"}. Raise `UserError` if none does."""
    say(READING)
    if tuned := api.tuned(**names, storage=storage, tracking_uri=tracking_uri):
        return tuned
    wanted = " ".join(names.values()) or "anything"
    ways = "`suite tuned list` shows all, `suite sweep` makes more"
    raise UserError(f"no tuned configuration matches {wanted}: {ways}")
