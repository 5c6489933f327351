"""`suite bank`: every recorded trial as one table; export, import, describe, fill and verify it."""

import random
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.table import Column, ColumnKind
from suite.cli.options import PLAIN, RUNS, DataRoot, Json, Name, Storage, Tracking, finite
from suite.console import READING, emit, out, say, show_table
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.bank.fill import Filling

app = typer.Typer(
    no_args_is_help=True, help="Every trial as one table: export, import, describe, fill, verify."
)
GROUP = ("study", "family", "dataset", "model")
"""By what the bank's trials are counted."""
SAVE_SECONDS = 60.0
"""How often a study that runs into the bank is written."""


@app.command("export", epilog="Example: suite bank export quickstart.parquet --name quickstart")
def bank_export(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="The parquet file to write.")],
    name: Name = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Write the trials of sweeps as a table.

    A row is a trial: what was run, on which federation, its curves and its costs.
    """
    say(READING)
    from suite.bank.export import exported
    from suite.bank.table import merged, table, write
    from suite.results.query import Query
    from suite.tracking.store import open_existing

    rows = exported(open_existing(tracking_uri, storage), Query(name), data_root)
    content = merged([table(rows)])
    write(output, content)
    _done(output, {"trials": len(content)}, as_json)


@app.command("import", epilog="Example: suite bank import theirs.parquet")
def bank_import(
    files: Annotated[list[Path], typer.Argument(help="Files of `suite bank export`.")],
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Add tables of others to the bank of this storage.

    A trial that is there is not added again.
    """
    from suite.bank.table import merged, read, write

    path = storage / "bank" / "imported.parquet"
    before = merged([read(path)] if path.exists() else [])
    content = merged([before, *map(read, files)])
    write(path, content)
    _done(path, {"added": len(content) - len(before), "trials": len(content)}, as_json)


@app.command("describe", epilog="Example: suite bank describe")
def bank_describe(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files or folders. Default: the shipped bank and that of --storage."),
    ] = None,
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Count the bank's trials by study and data set."""
    from suite.bank.table import load

    trials = load(*files or (), storage=storage)
    groups = trials.groupby(list(GROUP), sort=True)
    found = [
        {
            **dict(zip(GROUP, key, strict=True)),
            "levels": int(of["heterogeneity"].nunique()),
            "algorithms": int(of["algorithm"].nunique()),
            "trials": len(of),
            "diverged": int((of["status"] == "diverged").sum()),
            "seconds": round(float(of["seconds"].sum()), 1),
        }
        for key, of in groups
    ]
    total = {"trials": len(trials), "families": int(trials["family"].nunique()), "groups": found}
    if as_json:
        emit(total)
        return
    words = [Column(name, ColumnKind.NAME) for name in GROUP]
    numbers = [Column(name) for name in ("levels", "algorithms", "trials", "diverged", "seconds")]
    show_table((*words, *numbers), [[str(v) for v in group.values()] for group in found], 8)
    say(f"{total['trials']} trials of {total['families']} families of data sets")


@app.command(
    "fill", epilog="Example: suite bank fill search_spaces/studies/edition3/*.yaml --hours 2.5"
)
def bank_fill(
    studies: Annotated[
        list[str], typer.Argument(help="Shipped studies or YAML files, the most important first.")
    ],
    hours: Annotated[
        float, typer.Option(min=0, callback=finite, help="Start no trial after this time.")
    ] = 24.0,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Search trials of each entry. Default: the study's.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the tables. Default: bank/ in --storage.")
    ] = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Run studies into the bank, one after the other, until a given time.

    Trials run in this process, and MLflow records nothing. What the tables hold is not run again. Exit code 2 if
    a study could not be run.
    """
    from suite.bank.fill import Filling, fill
    from suite.bank.table import found, merged, read, shipped, table, write
    from suite.studies.study import read_study

    until, folder = time.monotonic() + 3600 * hours, output or storage / "bank"
    changes = {} if trials is None else {"trials": trials}
    read_studies = [read_study(study, changes) for study in studies]
    stages, faults = [], 0
    for name, study in read_studies:
        if time.monotonic() >= until:
            say(f"{name}: not begun, the time is over")
            continue
        own = folder / f"{name}.parquet"
        known = merged(read(p) for p in found([folder, shipped()]) if p.name == own.name)

        def save(filling: "Filling", own: Path = own) -> None:
            write(own, merged([table(filling.current())]))

        try:
            filling = Filling(name, study, known.to_pylist(), data_root)
        except UserError as error:
            say(f"{name}: {error}")
            faults += 1
            continue
        whole = fill(filling, until, save, SAVE_SECONDS)
        done = len(filling.search.requests)
        stages.append({"study": name, "trials": done, "planned": filling.search.planned})
        say(
            f"{name}: {done} of {filling.search.planned} trials{'' if whole else ', to be continued'}"
        )
    if as_json:
        emit(stages)
    raise typer.Exit(2 if faults else 0)


@app.command("verify", epilog="Example: suite bank verify mine.yaml --sample 20")
def bank_verify(
    studies: Annotated[list[str], typer.Argument(help="Studies that ran into the bank.")],
    sample: Annotated[int, typer.Option(min=1, help="Trials of each to run again.")] = 20,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the sample. Default: a new one each time.")
    ] = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Run a random sample of the bank's trials again.

    The shipped bank and that of --storage are read. Exit code 1 if a number differs; on another processor or
    with other libraries numbers may differ by rounding.
    """
    from suite.bank.fill import Filling
    from suite.bank.table import found, merged, read, shipped
    from suite.studies.study import read_study
    from suite.tracking.machine import machine
    from suite.tracking.schema.tags import versions

    drawn = secrets.randbelow(2**31) if seed is None else seed
    say(f"drawing with --seed {drawn}")
    stages, differing = [], 0
    for name, study in [read_study(text, {}) for text in studies]:
        tables = [read(p) for p in found([storage / "bank", shipped()]) if p.stem == name]
        filling = Filling(name, study, merged(tables).to_pylist(), data_root)
        if not filling.rows:
            raise UserError(
                f"the bank holds no trial of study {name}; `suite bank describe` lists its studies"
            )
        chosen = random.Random(drawn).sample(sorted(filling.rows), min(sample, len(filling.rows)))
        again = {trial: filling.repeated(trial) for trial in chosen}
        apart = {trial: columns for trial, columns in again.items() if columns}
        for trial, columns in apart.items():
            before, now = columns.get("test_score", (None, None))
            say(f"{name}: {trial} differs in {', '.join(columns)}; test score {before}, now {now}")
        differing += len(apart)
        counts = {"again": len(chosen), "identical": len(chosen) - len(apart)}
        stages.append({"study": name, "trials": len(filling.rows), **counts})
    if as_json:
        emit({"seed": drawn, "studies": stages, **machine(), **versions()})
    else:
        heads = [Column("study", ColumnKind.NAME), *map(Column, ("trials", "again", "identical"))]
        show_table(heads, [[str(value) for value in stage.values()] for stage in stages])
    raise typer.Exit(int(differing > 0))


def _done(path: Path, facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit({"file": str(path), **facts})
    else:
        say(", ".join(f"{count} {what}" for what, count in facts.items()))
        out().print(str(path), **PLAIN)
