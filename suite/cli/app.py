"""The command line. Results go to standard output, everything else to standard error.

Exit codes: 0 done; 1 ran, but some trials crashed for good; 2 bad input, nothing was started;
3 halted by a fault such as a full disk; 130 interrupted or stopped. After 3 and 130 --resume continues.
"""

import gc
import importlib.metadata
import sys
from itertools import groupby
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from suite.cli import (
    authoring,
    control,
    listing,
    reproduce,
    results,
    run,
    sweep,
    tuned,
)
from suite.cli.options import refuse_odd_numbers, settable
from suite.console import sanitise, say
from suite.execution.stop_signal import HaltedError
from trials.common.errors import UserError
from trials.common.plugins import failure, one_command

GARBAGE = 50_000
"""New objects between two searches for garbage: Python's 700 make a search of each of many imports, and
MLflow's reading of a thousand runs as slow again.
"""

COMMANDS: dict[str, dict[str, tuple[Any, str]]] = {
    "Start": {
        "sweep": (
            sweep.sweep,
            "suite sweep quickstart --algorithms fedavg,folb --trials 8 --name small",
        ),
        "run": (
            run.run,
            "suite run --algorithm fedprox --set mu=0.1 --heterogeneity 'dirichlet(0.3)'",
        ),
        "list": (listing.list_things, "suite list algorithms --json"),
        "data": (listing.data, ""),
    },
    "Results": {
        "leaderboard": (
            results.leaderboard,
            "suite leaderboard --name quickstart --format latex > table.tex",
        ),
        "report": (
            results.report,
            "suite report quickstart --figures svg,pdf --output reports/quickstart",
        ),
        "ui": (control.ui, "suite ui quickstart --open"),
        "export": (results.export, ""),
    },
    "Reuse": {
        "tuned": (tuned.app, ""),
        "replay": (run.replay, "suite replay 0f3c12"),
        "score": (run.score, "suite score model/"),
    },
    "Papers": {
        "reproduce": (reproduce.reproduce, "suite reproduce folb/table1 --output results"),
    },
    "Extend": {
        "new": (authoring.new, ""),
        "check": (
            authoring.check,
            "suite check slowmo.py --reduces-to fedavg --set beta=0",
        ),
    },
    "Look after": {
        "status": (control.status, "suite status quickstart"),
        "stop": (control.stop, "suite stop quickstart --now"),
        "doctor": (authoring.doctor, "suite doctor"),
    },
}
"""Every command with an example, by what one wants to do."""


class Grouped(TyperGroup):
    """The whole command, whose help is one screen."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        named = dict(self.commands)  # typer has groups of commands last
        self.commands = {name: named[name] for group in COMMANDS.values() for name in group}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The commands by what one wants to do, a line each."""
        width = max(map(len, self.commands)) + 2
        lines = [f"Usage: {ctx.command_path} COMMAND [ARGS]...", "", self.help or ""]
        known: dict[str, Any] = dict(self.commands)
        for title, commands in groupby(known.items(), lambda item: item[1].rich_help_panel):
            lines += ["", typer.style(title, bold=True)]
            for name, command in commands:
                lines.append(f"  {name:{width}}{command.get_short_help_str(99)}")
        lines += ["suite COMMAND --help has its options and an example; suite --version."]
        lines += [f"Start here: {typer.style('suite sweep quickstart', bold=True)}"]
        formatter.write("\n".join(lines) + "\n")


class Command(TyperCommand):
    """A command that takes a setting as an option, too: `--rounds 5` is `--set rounds=5`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words that are left; raises `UserError` for a setting without a value."""
        try:
            return super().parse_args(ctx, list(args))
        except Exception as error:
            option = str(getattr(error, "option_name", ""))
            key = option.lstrip("-").replace("-", "_")
            takes_settings = any("--set" in param.opts for param in self.params)
            if not key or not takes_settings or not settable(key):
                raise
            at = next(i for i, word in enumerate(args) if word.partition("=")[0] == option)
            _, given, value = args[at].partition("=")
            rest = args[at + 1 :]
            if not given:
                if not rest or rest[0].startswith("--"):
                    raise UserError(f"{option} needs a value: {option} VALUE") from None
                value, *rest = rest
            return self.parse_args(ctx, [*args[:at], "--set", f"{key}={value}", *rest])


app = typer.Typer(
    cls=Grouped,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"suite {importlib.metadata.version('suite-fl')}")
        raise typer.Exit


@app.callback()
def _whole(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Federated-learning algorithms, tuned fairly, compared across papers, reused."""


for _group, _commands in COMMANDS.items():
    for _name, (_command, _example) in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_group)
        else:
            add = app.command(
                _name, cls=Command, epilog=f"Example: {_example}", rich_help_panel=_group
            )
            add(_command)


def main() -> None:
    """Entry point of the `suite` command."""
    gc.set_threshold(GARBAGE)
    sanitise()
    try:
        refuse_odd_numbers(app, sys.argv[1:])
        with one_command():
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
