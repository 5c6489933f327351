"""`suite transfer`: tuned configurations on each other's scenarios."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from reports.terminal import Column, ColumnKind
from suite.cli.options import (
    RUNS,
    CpusPerTrial,
    DataRoot,
    GpusPerTrial,
    Json,
    MaxConcurrent,
    Narrowing,
    Storage,
    Tracking,
    Trust,
    narrowing,
)
from suite.console import READING, emit, out, say, show_table

if TYPE_CHECKING:
    from suite.configurations.transfer import Loss


app = typer.Typer()


@app.command(epilog="Example: suite transfer --algorithm fedprox --seeds 5")
@narrowing
def transfer(
    only: Narrowing,
    seeds: Annotated[
        int, typer.Option(min=1, help="Runs of each pair of scenarios, tuned on and used on.")
    ] = 3,
    cpus_per_trial: CpusPerTrial = 1.0,
    gpus_per_trial: GpusPerTrial = 0.0,
    max_concurrent: MaxConcurrent = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """What reusing a configuration tuned on another scenario costs, as a matrix for each algorithm.

    The same command continues an interrupted one; more --seeds extends it.
    """
    say(READING)
    from suite.configurations.library import known, select_tuned
    from suite.configurations.transfer import transfer as run
    from suite.execution.resources import Resources
    from suite.tracking.store import Store

    found = select_tuned(known(storage, tracking_uri), *only)
    resources = Resources(cpus_per_trial, gpus_per_trial, max_concurrent)
    result = run(found, seeds, Store(tracking_uri, storage), storage, data_root, resources)
    if result.interrupted:
        say("Interrupted; what is done is kept, and shown. The same command continues.")
    code = 130 if result.interrupted else int(result.failed > 0)
    if as_json:
        emit(result.document())
        raise typer.Exit(code)
    for name, members in groupby(result.entries, key=lambda e: (e.algorithm, e.metric)):
        entries = list(members)
        targets = list(dict.fromkeys(e.target for e in entries))
        scenarios = {(e.source, e.target): e for e in entries}
        rows = []
        for source in dict.fromkeys(e.source for e in entries):
            row = [scenarios.get((source, target)) for target in targets]
            rows.append([source, *("" if e is None else _shown(e) for e in row)])
        columns = [Column("tuned on \\ used on", ColumnKind.NAME), *map(Column, targets)]
        title = f"{name[0]}: {name[1]} lost against the scenario's own configuration"
        show_table(columns, rows, 1, title=title)
    out().print(
        f"Points of accuracy (or mean squared error), {seeds} seeds, ± half a 95 % Student-t "
        "interval of the paired difference. Negative: the other scenario's configuration is better.",
        highlight=False,
    )
    raise typer.Exit(code)


def _shown(entry: "Loss") -> str:
    if entry.source == entry.target:
        return "-"
    text = f"{entry.loss:+z.2f}"
    if entry.ci_low is not None and entry.ci_high is not None:
        text += f" ± {(entry.ci_high - entry.ci_low) / 2:.2f}"
    return text + (f" ({entry.diverged} diverged)" if entry.diverged else "")
