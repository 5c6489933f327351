"""Names as people are shown them: files without the folders that they lie in, methods told apart."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

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
    for name in sorted(set(names)):
        short = bare = re.sub(r"[^:(]*/(?=[^/])", "", name)
        count = 1
        while short != name and short in found.values():
            count += 1
            short = f"{bare} ({count})"
        found[name] = short
    longest_first = sorted(found, key=len, reverse=True)
    return {name: found[name] for name in longest_first if found[name] != name}


def renamed(value: T, names: Mapping[str, str]) -> T:
    """Plain data with these names replaced wherever they stand in a text."""
    made: Any = value
    if isinstance(value, str):
        for name, shown in names.items():
            made = made.replace(name, shown)
    elif isinstance(value, tuple):
        parts = [renamed(part, names) for part in value]
        made = type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    elif isinstance(value, list):
        made = [renamed(part, names) for part in value]
    elif isinstance(value, Mapping):
        made = {renamed(key, names): renamed(part, names) for key, part in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        parts_of = {f.name: renamed(getattr(value, f.name), names) for f in fields(value) if f.init}
        made = replace(value, **parts_of)
    return made
