"""The options that several commands have: each is written once, with one meaning."""

import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from suite.tracking import PAGES, VARIABLE
from suite.tracking import RUNS as RUNS
from trials.common.errors import UserError
from trials.common.files import look


def finite(value: float | None) -> float | None:
    """An option's number; raises `BadParameter` for one that nothing can be measured by."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"must be a finite number, not {value}")
    return value


def named(value: str | None) -> str | None:
    """An option's text; raises `BadParameter` where it is empty, as a script's variable may be that is not
    set.
    """
    if value is not None and not value.strip():
        raise typer.BadParameter("must not be empty")
    return value


def folder(path: Path) -> Path:
    """An option's folder, which may not be there yet; raises `BadParameter` where it cannot be."""
    try:
        path, there = look(path, "storage")
    except UserError as error:
        raise typer.BadParameter(str(error)) from None
    if there not in ("", "folder"):
        raise typer.BadParameter(f"{path} is a file, not a folder")
    return path


Assign = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting. May be repeated."),
]
Storage = Annotated[
    Path, typer.Option(callback=folder, help="Folder of all sweeps and of the MLflow store.")
]
Tracking = Annotated[
    str | None,
    typer.Option(
        envvar=VARIABLE, callback=named, help="MLflow tracking server, instead of the local store."
    ),
]
DataRoot = Annotated[
    str | None, typer.Option(callback=named, help="Folder of data sets (or SUITE_DATA).")
]
Server = Annotated[
    str | None,
    typer.Option(
        callback=named,
        help=f"Where MLflow's pages are, for links. Default: the tracking server, else {PAGES}.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Name = Annotated[str | None, typer.Option("--name", help="The sweep's name.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE", help="Only trials with this value (docs/table.md). May be repeated."
    ),
]
Only = Annotated[str | None, typer.Option(callback=named, help="Only configurations for this one.")]
"""A name by which tuned configurations are narrowed down."""
Text = Annotated[
    str | None, typer.Option(callback=named, help="A name of `suite list`. The default is above.")
]
Folder = Annotated[Path | None, typer.Option(help="Folder to write.")]
Alias = Annotated[
    list[str] | None,
    typer.Option(
        "--alias",
        metavar="DATASET=NAME",
        help="Another name for a data set, as in npz:my.npz=hospital. May be repeated.",
    ),
]


def aliases(given: list[str] | None) -> dict[str, str]:
    """The data sets' other names; raises `UserError` where one is empty or is given twice."""
    found: dict[str, str] = {}
    for text in given or []:
        dataset, equals, name = text.rpartition("=")
        if not (equals and dataset.strip() and name.strip()):
            raise UserError(
                f"--alias {text}: must be DATASET=NAME, as in --alias npz:my.npz=hospital"
            )
        if dataset in found or name in found.values():
            raise UserError(f"--alias {text}: {dataset} or {name} has an alias already")
        found[dataset] = name
    return found


PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
"""How text is printed that may be pasted: no line is cut, and nothing in it is markup."""


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


def settable(key: str) -> bool:
    """Whether a key is one that `--set` takes, of a study, its settings, an algorithm or a trial's resources."""
    from suite.execution.resources import Resources
    from suite.studies.study import Study
    from trials import algorithms
    from trials.settings import Settings

    hyperparameters = {name for of in algorithms.known().values() for name in of.ranges()}
    places = Resources.model_fields
    return key in {*Settings.model_fields, *Study.model_fields, *hyperparameters, *places}
