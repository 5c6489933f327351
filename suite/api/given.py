"""What is given to the functions of the Python interface: names, paths and objects, and nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.sweeps.result import Result
from suite.tracking import usual
from trials.common.errors import UserError
from trials.common.files import look
from trials.models.own import located
from trials.settings import Settings

if TYPE_CHECKING:
    from suite.tracking.store import Store

NAMED = {
    "study": "a shipped study's name, a path to a YAML file, or its content as a mapping",
    "name": "a name",
    "sweep": "the name of a sweep or a study, or what `suite.sweep` returned",
    "path": "a path",
    "where": "a mapping of tags, as in {'dataset': 'digits'}",
    "storage": "a path",
    "output": "a path",
    "run_id": "the id of a run in MLflow",
    "algorithm": "a name that `suite list algorithms` shows, FILE.py:Class or, to run, a tuned configuration",
    "dataset": "a name that `suite list datasets` shows, such as npz:PATH, csv:PATH or module:function",
    "model": "a name that `suite list models` shows, FILE.py:function, or a function that makes a torch.nn.Module",
    "heterogeneity": "a level as `suite list heterogeneity` shows them",
}
"""What is given by name, and what that may be."""

LISTS = {
    "algorithms": "algorithm",
    "datasets": "dataset",
    "models": "model",
    "heterogeneity": "heterogeneity",
}
"""A study's lists of names, and what each name is of."""


def lists_by_name(given: Mapping[str, Any]) -> dict[str, Any]:
    """A study's keys, with the name of each function that makes a model; raises `UserError` for other objects."""
    found = dict(given)
    for key, kind in LISTS.items():
        if key not in given or isinstance(given[key], str):
            continue
        each = given[key] if isinstance(given[key], list | tuple) else [given[key]]
        found[key] = [located(of) if kind == "model" and callable(of) else of for of in each]
        for value in found[key]:
            by_name({kind: value})
    return found


def settings_of(given: Mapping[str, Any] | Settings | None) -> Mapping[str, Any] | Settings:
    """The settings that are given; raises `UserError` for what holds none."""
    if given is None:
        return {}
    if not isinstance(given, Mapping | Settings):
        raise UserError(f"settings: must be a mapping, as in {{'rounds': 20}}, not {said(given)}")
    return given


def one(key: str, one: Any, where: str, other: Any) -> Any:
    """Of a value that can be given in two places the one that is; raises `UserError` where they differ."""
    if one is not None and other is not None and one != other:
        raise UserError(f"{key} is {one!r} {where} and {other!r} beside it: give one of them")
    return other if one is None else one


def by_name(given: Mapping[str, Any]) -> None:
    """Raise `UserError` for what is no name where one is expected."""
    for key, value in given.items():
        if value is not None and not isinstance(value, str):
            raise no_name(key, value)


def no_name(key: str, value: Any) -> UserError:
    """What is wrong with an object where a name or a path is expected."""
    hint = ""
    if key == "algorithm" and isinstance(value, type):
        hint = f": put the class into a file and name it, as in mine.py:{value.__name__}"
    return UserError(f"{key}: must be {NAMED[key]}, not {said(value)}{hint}")


def said(value: Any) -> str:
    """What an object is, in words; what it holds may be long."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of the class {type(value).__name__}"


def store_of(storage: str | Path, tracking_uri: str | None) -> "Store":
    """The store at the place that is given."""
    from suite.tracking.store import open_existing

    return open_existing(usual(tracking_uri), place(storage))


def name_of(sweep: str | Result | None, key: str = "sweep") -> str | None:
    """The name of a sweep that is given by name, or as what `suite.sweep` returned."""
    if isinstance(sweep, Result):
        return sweep.summary.name
    by_name({key: sweep})
    return sweep


def place(storage: str | Path, key: str = "storage") -> Path:
    """A folder that is given; raises `UserError` for what is no path."""
    if not isinstance(storage, str | Path):
        raise no_name(key, storage)
    return look(storage, key)[0]
