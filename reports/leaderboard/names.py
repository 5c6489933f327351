"""Names as people are shown them, when they are drawn: files without folders, methods told apart."""

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
"""The fields that hold names of methods, data sets and models."""


def classes_of_files(algorithms: Iterable[str]) -> dict[str, str]:
    """Return what classes of one name from several files are called: `a/mine.py:Mine` is `a/mine.py:Mine (mine.py)`.
    Files of one name in several folders are numbered.
    """
    names = sorted(set(algorithms))
    classes = Counter(name.rpartition(":")[2] for name in names)
    files, shown = Counter[str](), {}
    for name in names:
        path, _, own = name.rpartition(":")
        if path and classes[own] > 1:
            file = path.rpartition("/")[2]
            files[file] += 1
            count = f", {files[file]}" if files[file] > 1 else ""
            shown[name] = f"{name} ({file}{count})"
    return shown


def without_folders(names: Iterable[str]) -> dict[str, str]:
    """Return what names with a path in them are shown as, `npz:/home/me/my.npz` as `npz:my.npz`, but for files of one name
    in several folders.
    """
    bare = {name: re.sub(r"[^:(]*/(?=[^/])", "", name) for name in set(names) if ":" in name}
    alike = Counter(bare.values())
    return {name: short for name, short in bare.items() if short != name and alike[short] == 1}


def as_shown(value: T, board: "Leaderboard") -> T:
    """Return plain data about a board: names without folders and signs that nobody sees, and methods told apart."""
    rows: list[Any] = [*board.rows, *board.interim]
    algorithms = {row.algorithm for row in rows}
    names = without_folders(name for row in rows for name in (row.dataset, row.model))
    names |= {name: name.rpartition(":")[2] for name in algorithms}
    names |= {name: text.rpartition(":")[2] for name, text in classes_of_files(algorithms).items()}
    return renamed(value, {name: visible(text) for name, text in names.items()})


def renamed(value: T, names: Mapping[str, str], named: bool = True) -> T:
    """Return plain data with these names replaced in the fields that are `NAMED`."""
    new: Any = value
    if isinstance(value, str):
        new = names.get(value, value) if named else value
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        named_parts = zip(value._fields, value, strict=True)
        new = type(value)(*(renamed(part, names, field in NAMED) for field, part in named_parts))
    elif isinstance(value, tuple):
        new = tuple(renamed(part, names, named) for part in value)
    elif isinstance(value, Mapping):
        new = {key: renamed(part, names, named=False) for key, part in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        kept = {f.name: getattr(value, f.name) for f in fields(value)}
        parts = {name: renamed(part, names, name in NAMED) for name, part in kept.items()}
        new = replace(value, **parts)
    return new


FOLDERS = re.compile(r"(?<![\w/.#])(?:~|/[\w.@+-]+)/(?:[\w.@+-]+/)*(?=[\w.@+-])")
"""The folders of an absolute path in a text; not those of an address, nor of a page of MLflow's (`/#/...`)."""


def without_paths(value: T) -> T:
    """Return JSON data without the folders of absolute paths in its texts, which name somebody's disk."""
    new: Any = value
    if isinstance(value, str):
        new = FOLDERS.sub("", value)
    elif isinstance(value, Mapping):
        new = {without_paths(key): without_paths(part) for key, part in value.items()}
    elif isinstance(value, list | tuple):
        new = [without_paths(part) for part in value]
    return new
