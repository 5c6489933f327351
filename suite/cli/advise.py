"""`suite advise`: which method to use on somebody's data."""

import shlex
import time
from typing import Annotated

import typer

from suite.cli.options import (
    PLAIN,
    RUNS,
    Assign,
    Clients,
    DataRoot,
    Json,
    Storage,
    Text,
    Tracking,
    finite,
    resources,
)
from suite.console import emit, out, program, say
from trials.common.machine import process_age


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
