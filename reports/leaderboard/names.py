"""Names as people are shown them: files without the folders that they lie in, aliases, methods told apart."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from trials.common.errors import unknown

if TYPE_CHECKING:
    from reports.leaderboard.board import Leaderboard
    from trials.run.spec import Scenario

T = TypeVar("T")


def told_apart(value: T, algorithms: Iterable[str]) -> T:
    """Plain data about these algorithms, where classes of one name from several files are named with their
    file: tables and charts show a class by its name alone.
    """
    return renamed(value, classes_of_files(algorithms))


def classes_of_files(algorithms: Iterable[str]) -> dict[str, str]:
    """What classes of one name from several files are called: `a/mine.py:Mine` is `a/mine.py:Mine (mine.py)`. Files
    of one name in several folders are numbered.
    """
    found: dict[str, list[str]] = {}
    for name in sorted(set(algorithms)):
        found.setdefault(name.rpartition(":")[2], []).append(name)
    several = [name for names in found.values() if len(names) > 1 for name in names if ":" in name]
    files: dict[str, int] = {}
    shown = {}
    for name in several:
        file = name.rpartition(":")[0].rpartition("/")[2]
        files[file] = files.get(file, 0) + 1
        shown[name] = f"{name} ({file})" if files[file] == 1 else f"{name} ({file}, {files[file]})"
    return shown


def without_folders(names: Iterable[str]) -> dict[str, str]:
    """What names with a path in them are shown as: `npz:/home/me/my.npz` as `npz:my.npz`. Files of one name in
    several folders are numbered.
    """
    found: dict[str, str] = {}
    for name in sorted(name for name in set(names) if ":" in name):
        short = bare = re.sub(r"[^:(]*/(?=[^/])", "", name)
        count = 1
        while short != name and short in found.values():
            count += 1
            short = f"{bare} ({count})"
        found[name] = short
    longest_first = sorted(found, key=len, reverse=True)
    return {name: found[name] for name in longest_first if found[name] != name}


def aliased(value: T, board: "Leaderboard", aliases: Mapping[str, str]) -> T:
    """Plain data about a board whose data sets have these aliases, by their names with or without folders. Raises
    `UserError` for a data set that the board does not have.
    """
    whole = {name: name for name in _datasets(board)}
    known = {shown: name for name, shown in without_folders(whole).items()} | whole
    for name in aliases:
        if name not in known:
            raise unknown("data set", name, known)
    return renamed(value, {known[name]: alias for name, alias in aliases.items()})


def as_shown(value: T, board: "Leaderboard") -> T:
    """Plain data about a board: names without folders, and methods told apart."""
    algorithms = [row.algorithm for row in board.rows] + [one.algorithm for one in board.interim]
    models = [scenario.model for scenario in _scenarios(board)]
    methods = classes_of_files(algorithms)
    bare = without_folders([*_datasets(board), *models, *algorithms])
    names = {name: renamed(shown, bare) for name, shown in methods.items()}
    names |= {name: shown for name, shown in bare.items() if name not in methods}
    return renamed(value, names)


def _datasets(board: "Leaderboard") -> list[str]:
    return [scenario.dataset for scenario in _scenarios(board)]


def _scenarios(board: "Leaderboard") -> list["Scenario"]:
    rows, standings = board.rows, board.interim
    return [row.scenario for row in rows] + [one.group.scenario for one in standings]


FOLDERS = re.compile(r"(?<![\w/.#])(?:~|/[\w.@+-]+)/(?:[\w.@+-]+/)*(?=[\w.@+-])")
"""The folders of an absolute path in a text; not those of an address, nor of a page of MLflow's (`/#/...`)."""


def without_paths(value: T) -> T:
    """Plain data without the folders of absolute paths in its texts, which name somebody's disk."""
    return _each_text(value, lambda text: FOLDERS.sub("", text))


def renamed(value: T, names: Mapping[str, str]) -> T:
    """Plain data with these names replaced wherever they stand in a text."""

    def change(text: str) -> str:
        for name, shown in names.items():
            text = text.replace(name, shown)
        return text

    return _each_text(value, change) if names else value


def _each_text(value: T, change: Callable[[str], str]) -> T:
    """Plain data with every text in it changed."""
    made: Any = value
    if isinstance(value, str):
        made = change(value)
    elif isinstance(value, tuple):
        parts = [_each_text(part, change) for part in value]
        made = type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    elif isinstance(value, list):
        made = [_each_text(part, change) for part in value]
    elif isinstance(value, Mapping):
        made = {_each_text(k, change): _each_text(part, change) for k, part in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        kept = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        made = replace(value, **{name: _each_text(part, change) for name, part in kept.items()})
    return made
