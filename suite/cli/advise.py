"""`suite advise` and `suite transfer`: which method to use on somebody's data, and what reuse costs."""

import shlex
import time
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from reports.table import Column, ColumnKind
from suite.cli.options import (
    PLAIN,
    RUNS,
    Assign,
    Clients,
    DataRoot,
    Json,
    Only,
    Storage,
    Text,
    Tracking,
    Trust,
    finite,
    resources,
)
from suite.console import READING, emit, out, program, say, show_table
from trials.common.machine import process_age

if TYPE_CHECKING:
    from suite.configurations.transfer import Loss


def advise(
    dataset: Annotated[
        str, typer.Option(help="A name of `suite list datasets`, or your own: npz:PATH.")
    ],
    heterogeneity: Text = None,
    model: Text = None,
    clients: Clients = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, callback=finite, help="How long it may take.")
    ] = 20.0,
    assign: Assign = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Find the method to use on your data, within some minutes.

    It measures the data, screens two or three models and six methods, compares the best few of them, and answers in a
    paragraph. The default heterogeneity is natural if samples have owners, iid for a regression,
    else dirichlet(0.3). The default models are that of the nearest tuned scenario, and usual ones that fit the data.
    --set takes the resources of trials: cpus_per_trial, gpus_per_trial, max_concurrent, ...
    """
    started = time.monotonic() - process_age()
    from suite.advice.advice import advise as race
    from suite.advice.race import Question

    question = Question(dataset, heterogeneity, model, clients, minutes)
    found = race(question, storage, data_root, tracking_uri, resources(assign), started)
    if found is None:
        say("Interrupted before the comparison was done, so there is no advice.")
        raise typer.Exit(130)
    if as_json:
        emit(found.document())
        return
    out().print(found.text, highlight=False, markup=False)
    for words in (found.command, found.longer):
        out().print(f"  {shlex.join([program(), *words[1:]])}", **PLAIN)


def transfer(
    algorithm: Only = None,
    dataset: Only = None,
    model: Only = None,
    heterogeneity: Only = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each pair of scenarios.")] = 3,
    assign: Assign = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Measure what tuned configurations lose on other scenarios.

    It shows a matrix for each algorithm. The same command continues an interrupted one; more --seeds
    extends it. --set takes the resources of trials: cpus_per_trial, gpus_per_trial, max_concurrent, ...
    """
    given = resources(assign)
    say(READING)
    from suite.configurations.library import known, select_tuned
    from suite.configurations.transfer import transfer as run
    from suite.tracking.store import Store

    found = select_tuned(known(storage, tracking_uri), algorithm, dataset, model, heterogeneity)
    result = run(found, seeds, Store(tracking_uri, storage), storage, data_root, given)
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
