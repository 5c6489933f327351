"""The command line. Results go to standard output, and all other messages to standard error.

Exit codes: 0 done; 1 ran, but some trials failed in every retry; 2 bad input, nothing was started;
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
"""The number of new objects that triggers a garbage collection. With Python's default of 700, collections delay many
imports, and double the time in which MLflow reads a thousand runs.
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
"""Each command: its group in the help, its name, its function, and the arguments of its example."""


class Command(TyperCommand):
    """A command that also takes each key of --set or --where as an option: `--rounds 5` means `--set rounds=5`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's parameters. The help shows a flag without its type, which would look like a value to pass."""
        for param in (params := super().get_params(ctx)):
            param.metavar = "" if getattr(param, "is_flag", False) else param.metavar
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse command-line arguments, and accept each key of --set or --where as an option. For example, `--rounds 5` means
        `--set rounds=5`. Raise `UserError` for an unknown option, or for a key without a value.
        """
        try:
            return super().parse_args(ctx, list(args))
        except Exception as error:
            option = str(getattr(error, "option_name", ""))
            declared = set(chain.from_iterable(param.opts for param in self.params))
            # Typer explains what is wrong with the value of an option that it knows.
            if not option.startswith("--") or option in declared:
                raise
            keys: dict[str, str] = {}
            for general in declared & {"--set", "--where"}:
                keys |= dict.fromkeys(keys_of(general), general)
        key = option.lstrip("-").replace("-", "_")
        if key not in keys:
            options = [f"--{name.replace('_', '-')}" for name in keys]
            near = get_close_matches(option, [*declared, *options], 1, 0.7)
            hint = f"Did you mean {near[0]}?" if near else f"{ctx.command_path} --help lists them."
            raise UserError(f"unknown option {option}. {hint}")
        position = next(i for i, word in enumerate(args) if word.partition("=")[0] == option)
        _, equals, value = args[position].partition("=")
        rest = args[position + 1 :]
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise UserError(f"{option} needs a value: {option} VALUE")
            value, *rest = rest
        # Replaced one at a time: a later option may be such a key, too.
        return self.parse_args(ctx, [*args[:position], keys[key], f"{key}={value}", *rest])


app = typer.Typer(
    epilog="suite COMMAND --help has options and an example. Start here: suite sweep quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(requested: bool) -> None:
    if requested:
        libraries = ("torch", "ray", "optuna", "mlflow")
        versions = [f"{name} {importlib.metadata.version(name)}" for name in libraries]
        typer.echo(f"suite {importlib.metadata.version('suite-fl')}")
        typer.echo(f"Python {platform.python_version()}, {', '.join(versions)}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show versions and exit."
    ),
) -> None:
    """Tune and compare federated-learning algorithms fairly, and reuse the results."""


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
    # Names from files may hold control characters, and Typer and Rich print them, too.
    spell_out(HARMLESS)
    outlive_terminal()
    try:  # PyTorch needs the folder and MLflow the home, and both would end with a traceback
        os.getcwd()
        Path.home()
    except (FileNotFoundError, RuntimeError) as error:
        deleted = "the current folder was deleted: cd to one that exists"
        say(f"error: {deleted if isinstance(error, OSError) else 'no home folder: set HOME'}")
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
        # An error, or a call of exit, in a person's own code ends the command like bad input.
        message = failure(error)
        if message is None:
            raise
        say(f"error: {message}")
        sys.exit(2)
    finally:
        gc.freeze()  # else the interpreter looks for garbage in all imported modules before it ends
