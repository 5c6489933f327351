"""The options that several commands share."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from suite.api import folder_of
from suite.tracking import RUNS as RUNS
from suite.tracking import VARIABLE
from trials.common.errors import unknown

PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
"""Arguments of Rich's `print` for text to copy: lines are not wrapped, and nothing is read as markup."""


def not_empty(value: str | None) -> str | None:
    """Return an option's text. Raise `BadParameter` if the text is blank, for example from an unset variable in a script."""
    if value is not None and not value.strip():
        raise typer.BadParameter("must not be empty")
    return value


Assign = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting. May be repeated."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Keep only rows with this value. May be repeated."),
]
Storage = Annotated[
    Path,
    typer.Option(
        callback=lambda path: folder_of(path), help="Folder of all sweeps and of the MLflow store."
    ),
]
Tracking = Annotated[
    str | None,
    typer.Option(
        envvar=VARIABLE,
        callback=not_empty,
        help="MLflow tracking server to use instead of the local store.",
    ),
]
DataRoot = Annotated[
    str | None, typer.Option(callback=not_empty, help="Folder of data sets (or SUITE_DATA).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SWEEP|FILE]...",
        help="Names of sweeps or studies, or tables (.parquet). Default: all sweeps.",
    ),
]


SCENARIO = ("algorithm", "dataset", "model", "heterogeneity")


def pairs(texts: Iterable[str] | None, keys: Collection[str] = ()) -> dict[str, str]:
    """Return KEY=VALUE texts as a dict. Raise `UserError` for a key outside `keys`, unless `keys` is empty."""
    values = {}
    for text in texts or ():
        key, _, value = text.partition("=")
        if keys and key not in keys:
            raise unknown("key of --where", key, keys)
        values[key] = value
    return values


def keys_of(option: str) -> list[str]:
    """Return the keys that `--set` or `--where` takes. `--set` takes settings, hyperparameters, resources of trials and keys of a
    study; `--where` takes columns of the table of trials.
    """
    if option == "--where":
        return [*SCENARIO, "study", "sweep"]
    from suite.execution.resources import Resources
    from suite.studies.study import Study
    from trials import algorithms
    from trials.settings import Settings

    keys: set[str] = set()
    for cls in algorithms.known().values():
        keys.update(cls.ranges())
    return sorted(keys.union(Settings.model_fields, Study.model_fields, Resources.model_fields))
