"""The command line. Results go to standard output, everything else to standard error.

Exit codes: 0 done; 1 ran, but some trials crashed for good; 2 bad input, nothing was started;
3 halted by a fault around it (a full disk, say), state kept; 130 interrupted or stopped, state kept.
"""

import gc
import importlib.metadata
import sys
from typing import Annotated

import typer

from suite.cli import (
    advise,
    authoring,
    board,
    configurations,
    control,
    data,
    doctor,
    listing,
    reproduce,
    results,
    run,
    sweep,
    transfer,
    watch,
)
from suite.cli.options import refuse_odd_numbers
from suite.console import sanitise, say
from suite.execution.stop_signal import HaltedError
from suite.trust import Trust
from trials.common.errors import UserError
from trials.common.plugins import failure, guarded

GARBAGE = 50_000
"""New objects between two searches for garbage: Python's 700 make a search of each of many imports, and
MLflow's reading of a thousand runs as slow again.
"""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Start here: [bold]suite sweep quickstart[/bold]",
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"suite {importlib.metadata.version('suite-fl')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_say_version, is_eager=True, help="Say which version this is."
    ),
]


@app.callback()
def _whole(version: Version = False) -> None:
    """Federated-learning algorithms, tuned fairly, compared across papers, reused."""


for group in (
    sweep,
    run,
    results,
    reproduce,
    transfer,
    advise,
    listing,
    authoring,
    control,
    watch,
    doctor,
):
    app.add_typer(group.app)
app.add_typer(board.alone)
app.add_typer(board.app, name="board")
app.add_typer(configurations.app, name="tuned")
app.add_typer(data.app, name="data")


def main() -> None:
    """Entry point of the `suite` command."""
    gc.set_threshold(GARBAGE)
    sanitise()
    try:
        refuse_odd_numbers(app, sys.argv[1:])
        with guarded(Trust(sys.argv[1:])):
            app()
    except UserError as error:
        say(f"error: {error}")
        sys.exit(2)
    except HaltedError as error:
        say(f"halted: {error}. {error.remedy}")
        sys.exit(3)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
    except (Exception, SystemExit) as error:
        # Of a file that a person named; what it exits with is no end of the command.
        told = failure(error)
        if told is None:
            raise
        say(f"error: {told}")
        sys.exit(2)
