"""Names as tables and pages show them: file names without folders, and a different name for each method."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from reports.table import visible

if TYPE_CHECKING:
    from reports.leaderboard.board import Leaderboard

T = TypeVar("T")
NAMED = {
    *("algorithm", "algorithms", "left_out_algorithms", "first", "second", "beaten_by"),
    *("dataset", "model", "families", "left_out_families"),
}
"""The fields of a leaderboard that hold names of methods, data sets and models."""


def classes_of_files(algorithms: Iterable[str]) -> dict[str, str]:
    """Return distinct names, by algorithm, for classes that have the same name in several files. `a/mine.py:Mine` becomes
    `a/mine.py:Mine (mine.py)`. A class in a second file `mine.py`, in another folder, gets `(mine.py, 2)`.
    """
    names = sorted(set(algorithms))
    classes = Counter(name.rpartition(":")[2] for name in names)
    files, shown = Counter[str](), {}
    for name in names:
        path, _, class_name = name.rpartition(":")
        if path and classes[class_name] > 1:
            file = path.rpartition("/")[2]
            files[file] += 1
            count = f", {files[file]}" if files[file] > 1 else ""
            shown[name] = f"{name} ({file}{count})"
    return shown


def without_folders(names: Iterable[str]) -> dict[str, str]:
    """Return names without their folders, such as `npz:my.npz` for `npz:/home/me/my.npz`. Omit names that would become equal."""
    short = {name: re.sub(r"[^:(]*/(?=[^/])", "", name) for name in set(names) if ":" in name}
    count = Counter(short.values())
    return {name: text for name, text in short.items() if text != name and count[text] == 1}


def as_shown(value: T, board: "Leaderboard") -> T:
    """Return `value` with each name of a method, data set or model replaced by a short one, distinct within `board`."""
    algorithms, others = set[str](), set[str]()
    rows: list[Any] = [*board.rows, *board.interim]
    for row in rows:
        algorithms.add(row.algorithm)
        others |= {row.dataset, row.model}
    names = without_folders(others)
    apart = classes_of_files(algorithms)
    for name in algorithms:
        names[name] = apart.get(name, name).rpartition(":")[2]
    return renamed(value, {name: visible(text) for name, text in names.items()})


def renamed(value: T, names: Mapping[str, str], named: bool = True) -> T:
    """Rename methods, data sets and models in nested data by the mapping `names`. If `value` is a plain string, rename it only if `named`."""
    new: Any = value
    if isinstance(value, str):
        new = names.get(value, value) if named else value
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = zip(value._fields, value, strict=True)
        new = type(value)(*(renamed(part, names, field in NAMED) for field, part in parts))
    elif isinstance(value, tuple):
        new = tuple(renamed(part, names, named) for part in value)
    elif isinstance(value, Mapping):
        # A mapping has the user's own names: a hyperparameter may have the same name as a data set.
        new = {key: renamed(part, names, named=False) for key, part in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for field in fields(value):
            part = getattr(value, field.name)
            changed[field.name] = renamed(part, names, field.name in NAMED)
        new = replace(value, **changed)
    return new


FOLDERS = re.compile(r"(?<![\w/.#])(?:~|/[\w.@+-]+)/(?:[\w.@+-]+/)*(?=[\w.@+-])")
"""Matches the folders of an absolute path in a text, but no part of a web address or of an MLflow page (`/#/...`)."""


def without_paths(value: T) -> T:
    """Return JSON data without the folders of absolute paths, which may be private."""
    new: Any = value
    if isinstance(value, str):
        new = FOLDERS.sub("", value)
    elif isinstance(value, Mapping):
        new = {without_paths(key): without_paths(part) for key, part in value.items()}
    elif isinstance(value, list | tuple):
        new = list(map(without_paths, value))
    return new
