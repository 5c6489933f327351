"""`suite advise`: which method to use on somebody's data."""

import shlex
from typing import Annotated

import typer

from suite.cli.options import (
    RUNS,
    DataRoot,
    Json,
    MaxConcurrent,
    Storage,
    Tracking,
    Trust,
    finite,
    named,
)
from suite.console import emit, out, program, say

app = typer.Typer()


@app.command(epilog="Example: suite advise --dataset npz:my.npz --clients 50 --minutes 20")
def advise(
    dataset: Annotated[str, typer.Option(help="As in `suite list datasets`; npz:PATH is yours.")],
    heterogeneity: Annotated[
        str | None,
        typer.Option(
            callback=named,
            help="Default: natural where data say whose they are, else dirichlet(0.3); iid of a regression.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(callback=named, help="Default: the nearest tuned scenario's.")
    ] = None,
    clients: Annotated[
        int | None, typer.Option(min=1, help="Default: 20, or as many as the data have.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, callback=finite, help="How long it may take.")
    ] = 20.0,
    max_concurrent: MaxConcurrent = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Which method to use on your data: measures them, starts from the nearest tuned scenarios, races the best
    few methods within the time, and answers in a paragraph.
    """
    from suite.advice.advice import advise as race
    from suite.advice.race import Question
    from suite.execution.resources import Resources

    question = Question(dataset, heterogeneity, model, clients, minutes)
    resources = Resources(max_concurrent=max_concurrent)
    found = race(question, storage, data_root, tracking_uri, resources)
    if found is None:
        say("The race was ended before its work was done, so there is no advice.")
        raise typer.Exit(130)
    if as_json:
        emit(found.document())
        return
    to = out()
    to.print(found.text, highlight=False, markup=False)
    to.print(
        f"  {shlex.join([program(), *found.command[1:]])}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
