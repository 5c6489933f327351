"""The options that several commands have: each is written once, with one meaning."""

import functools
import inspect
import math
import stat
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import typer

from suite.tracking import PAGES, VARIABLE
from suite.tracking import RUNS as RUNS
from suite.trust import grant
from trials.common.errors import UserError


def finite(value: float | None) -> float | None:
    """An option's number; raises `BadParameter` for one that nothing can be measured by."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"must be a finite number, not {value}")
    return value


def gigabytes(value: float | None) -> int | None:
    """An option's gigabytes in bytes; raises `BadParameter` as `finite` does."""
    finite(value)
    return None if value is None else round(value * 1e9)


def named(value: str | None) -> str | None:
    """An option's text; raises `BadParameter` where it is empty, which a variable of a script that is
    not set leaves, and which is no default.
    """
    if value is not None and not value.strip():
        raise typer.BadParameter("must not be empty")
    return value


def folder(path: Path) -> Path:
    """An option's folder, which may not be there yet; raises `BadParameter` where it cannot be."""
    try:
        there = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return path
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not there:
        raise typer.BadParameter(f"{path} is a file, not a folder")
    return path


Storage = Annotated[
    Path, typer.Option(callback=folder, help="Folder of the MLflow store and of all sweeps.")
]
Tracking = Annotated[
    str | None,
    typer.Option(
        envvar=VARIABLE,
        callback=named,
        help="MLflow tracking server instead of the store's file.",
    ),
]
DataRoot = Annotated[
    str | None, typer.Option(callback=named, help="Folder of data sets (or SUITE_DATA).")
]
Server = Annotated[
    str | None,
    typer.Option(
        callback=named,
        help=f"Where MLflow's pages are, for links; default: the tracking server, else {PAGES}.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Run seed.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def _trusted(value: bool) -> bool:
    if value:
        grant()
    return value


Trust = Annotated[
    bool,
    typer.Option(
        "--trust", callback=_trusted, help="Let code run that files name and that never ran here."
    ),
]
"""Of commands that run what a file or a store may name."""
SweepName = Annotated[str | None, typer.Option("--name", help="A sweep's name.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        help="TAG=VALUE: only such final runs (algorithm, dataset, paper, ...). May be repeated."
    ),
]


def elsewhere(value: str | None) -> str | None:
    """An option's place to log to; raises `UserError` where it is none, or cannot be used."""
    if value is not None:
        from suite.tracking.loggers import check

        check(value)
    return value


Log = Annotated[
    str | None,
    typer.Option("--log", callback=elsewhere, help="tensorboard or wandb: record there as well."),
]
Only = Annotated[str | None, typer.Option(callback=named, help="Only this one.")]
"""One of the names that narrow tuned configurations down."""

CpusPerTrial = Annotated[float, typer.Option(min=0.1, callback=finite)]
GpusPerTrial = Annotated[
    float, typer.Option(min=0.0, callback=finite, help="Fractions share one GPU.")
]
MaxConcurrent = Annotated[
    int | None, typer.Option(min=1, help="Trials at once; default: what fits.")
]
MemoryBudget = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        callback=gigabytes,
        help="GB for the clients that are computed at once; default: 2, or what its part of a GPU holds.",
    ),
]
"""In GB, which a command gets in bytes."""


class Narrowing(NamedTuple):
    """What tuned configurations are narrowed down to; None: to nothing."""

    algorithm: str | None = None
    dataset: str | None = None
    model: str | None = None
    heterogeneity: str | None = None


def narrowing(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of its argument `only: Narrowing`."""
    signature = inspect.signature(command)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Only)
        for name in Narrowing._fields
    ]
    others = [p for p in signature.parameters.values() if p.name != "only"]
    required = [p for p in others if p.default is p.empty]
    rest = [p.replace(kind=p.KEYWORD_ONLY) for p in others if p.default is not p.empty]

    @functools.wraps(command)
    def narrowed(*args: Any, **given: Any) -> None:
        names = {name: given.pop(name) for name in Narrowing._fields}
        command(*args, only=Narrowing(**names), **given)

    # What Typer reads of a command.
    found = signature.replace(parameters=[*required, *options, *rest])
    vars(narrowed)["__signature__"] = found
    narrowed.__annotations__ = {p.name: p.annotation for p in found.parameters.values()}
    return narrowed


def ask_where_bare(command: str, does: str) -> None:
    """Where a command was given nothing on a terminal, say what it does and ask; raises `Exit` when it is
    not to be done.
    """
    alone = sys.argv[1:] == [command] and sys.stdin.isatty() and sys.stderr.isatty()
    if alone and not typer.confirm(f"{does} Go on?", default=True, err=True):
        raise typer.Exit(130)


def refuse_odd_numbers(app: typer.Typer, words: list[str]) -> None:
    """Raise `UserError` for an option's number as only Python writes one, with underscores or digits of
    other scripts, which Typer takes.
    """
    for word, following in pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        value = value if equals else following
        odd = option.startswith("--") and ("_" in value or not value.isascii())
        if odd and option in _numeric(app):
            raise UserError(f"{option} {value}: must be a number in the digits 0 to 9 alone")


def _numeric(app: typer.Typer) -> set[str]:
    """The options of all commands whose value is a number."""
    groups = [group.typer_instance for group in app.registered_groups if group.typer_instance]
    commands = [command.callback for each in (app, *groups) for command in each.registered_commands]
    found: set[str] = set()
    for command in filter(None, commands):
        for name, hint in get_type_hints(command, include_extras=True).items():
            kind, *extras = get_args(hint) or (hint,)
            if {int, float} & {kind, *get_args(kind)}:
                declared = [
                    one for extra in extras for one in getattr(extra, "param_decls", None) or ()
                ]
                found.update(declared or [f"--{name.replace('_', '-')}"])
    return found
