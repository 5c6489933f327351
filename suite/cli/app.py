"""The command line. Results go to standard output, everything else to standard error.

Exit codes: 0 done; 1 ran, but some trials crashed for good; 2 bad input, nothing was started;
3 halted by a fault such as a full disk; 130 interrupted or stopped. After 3 and 130 --resume continues.
"""

import gc
import importlib.metadata
import os
import platform
import sys
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from reports.rich_internals import spell_out
from suite.cli import listing, reproduce, results, run, sweep, tuned
from suite.cli.options import keys_of
from suite.console import HARMLESS, outlive_terminal, say
from suite.execution.stop_signal import HaltedError
from trials.common.errors import UserError
from trials.common.plugins import failure, one_command

GARBAGE = 50_000
"""New objects between two garbage collections. Python's default of 700 collects during many imports, and doubles the time
in which MLflow reads a thousand runs.
"""

COMMANDS: list[tuple[str, str, Any, str]] = [
    ("Start", "sweep", sweep.sweep, "quickstart --algorithms fedavg,folb --trials 8 --name small"),
    ("Start", "run", run.run, "--algorithm fedprox --mu 0.1 --heterogeneity 'dirichlet(0.3)'"),
    ("Start", "list", listing.list_things, "algorithms --json"),
    ("Start", "data", listing.data, ""),
    ("Results", "leaderboard", results.leaderboard, "quickstart --format latex > table.tex"),
    ("Results", "report", results.report, "quickstart --figures svg,pdf --output quickstart"),
    ("Results", "ui", sweep.ui, "quickstart"),
    ("Results", "export", results.export, ""),
    ("Reuse", "tuned", tuned.app, ""),
    ("Reuse", "replay", run.replay, "0f3c12"),
    ("Reuse", "reproduce", reproduce.reproduce, "folb/table1 --output results"),
    ("Extend", "new", listing.new, ""),
    ("Extend", "check", listing.check, "slowmo.py --reduces-to fedavg --set beta=0"),
    ("Look after", "status", sweep.status, "quickstart"),
    ("Look after", "stop", sweep.stop, "quickstart --now"),
]
"""Every command by what one wants to do, with an example of its use."""


class Command(TyperCommand):
    """A command that takes each key of --set or --where as an option, too: `--rounds 5` is `--set rounds=5`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters. Flags show no type, as if they took a value."""
        for param in (params := super().get_params(ctx)):
            param.metavar = "" if getattr(param, "is_flag", False) else param.metavar
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command's words, with each key of --set or --where as an option, too. Raise `UserError` for an
        unknown option, or one that lacks its value.
        """
        try:
            return super().parse_args(ctx, list(args))
        except Exception as error:
            option = str(getattr(error, "option_name", ""))
            declared = set(chain.from_iterable(param.opts for param in self.params))
            # The command has this option: what is wrong is its value.
            if not option.startswith("--") or option in declared:
                raise
            keys: dict[str, str] = {}
            for taker in declared & {"--set", "--where"}:
                keys |= dict.fromkeys(keys_of(taker), taker)
        key = option.lstrip("-").replace("-", "_")
        if key not in keys:
            options = [f"--{name.replace('_', '-')}" for name in keys]
            near = get_close_matches(option, [*declared, *options], 1, 0.7)
            hint = f"Did you mean {near[0]}?" if near else f"{ctx.command_path} --help lists them."
            raise UserError(f"unknown option {option}. {hint}")
        at = next(i for i, word in enumerate(args) if word.partition("=")[0] == option)
        _, equals, value = args[at].partition("=")
        rest = args[at + 1 :]
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise UserError(f"{option} needs a value: {option} VALUE")
            value, *rest = rest
        # One option is spelled out at a time; the next may be another such key.
        return self.parse_args(ctx, [*args[:at], keys[key], f"{key}={value}", *rest])


app = typer.Typer(
    epilog="suite COMMAND --help has options and an example. Start here: suite sweep quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _say_version(asked: bool) -> None:
    if asked:
        libraries = ("torch", "ray", "optuna", "mlflow")
        versions = [f"{name} {importlib.metadata.version(name)}" for name in libraries]
        typer.echo(f"suite {importlib.metadata.version('suite-fl')}")
        typer.echo(f"Python {platform.python_version()}, {', '.join(versions)}")
        raise typer.Exit


@app.callback()
def _whole(
    version: bool = typer.Option(
        False, "--version", callback=_say_version, is_eager=True, help="Show versions and exit."
    ),
) -> None:
    """Federated-learning algorithms, tuned fairly, compared across papers, reused."""


for _group, _name, _command, _example in COMMANDS:
    if isinstance(_command, typer.Typer):
        for _inner in _command.registered_commands:
            _inner.cls = Command
        app.add_typer(_command, name=_name, rich_help_panel=_group)
    else:
        _epilog = f"Example: suite {_name} {_example}"
        app.command(_name, cls=Command, epilog=_epilog, rich_help_panel=_group)(_command)


def main() -> None:
    """Run the `suite` command, and exit with its code."""
    gc.set_threshold(GARBAGE)
    # A name from a file may hold control characters, whoever prints it.
    spell_out(HARMLESS)
    outlive_terminal()
    try:  # PyTorch needs the one and MLflow the other, and both end in words of their own
        os.getcwd()
        Path.home()
    except (FileNotFoundError, RuntimeError) as error:
        deleted = "the current folder was deleted: cd to one that exists"
        say(f"error: {deleted if isinstance(error, OSError) else 'there is no home: set HOME'}")
        sys.exit(2)
    try:
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
        message = failure(error)
        if message is None:
            raise
        say(f"error: {message}")
        sys.exit(2)
