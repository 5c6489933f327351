"""Folders that the suite writes whole, with a list of its files and their SHA-256."""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, TypeAdapter

from suite import json_files
from suite.sweeps.journal.paths import NAME_BYTES
from suite.yaml_files import writing
from trials.common.errors import UserError


class Hashed(BaseModel):
    """A file of a list, as far as it is read again."""

    sha256: str


class Files(BaseModel):
    """The files of a list."""

    files: dict[str, Hashed]


_LIST = TypeAdapter(Files)


def digest(content: bytes) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def listed(facts: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """The list of a folder's files, with facts about it, as JSON."""
    hashes = {path: {"sha256": digest(files[path]), "bytes": len(files[path])} for path in files}
    text = json.dumps({**facts, "files": hashes}, indent=1, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def write_listed(
    folder: Path, listing: str, facts: Mapping[str, Any], files: Mapping[str, bytes]
) -> None:
    """Write files below a folder, and their list. What an earlier list names and nobody changed makes way.

    Raises `UserError`, before anything is written, where a file is in the way that the suite did not
    write, or that was changed since, or a link leads elsewhere; and where one cannot be written.
    """
    with writing(folder):
        if folder.exists() and not folder.is_dir():
            raise UserError(f"cannot write {folder}: it is not a folder")
        before = _before(folder, listing)
        for path in files:
            if not _ours(_place(folder, path), before.get(path)):
                raise _theirs(folder / path)
        former = [_place(folder, path) for path in before.keys() - files.keys()]
        former = [place for place in former if _ours(place, before[_path(folder, place)])]
        _write(folder, {**files, listing: listed(facts, files)})
        for place in former:
            place.unlink(missing_ok=True)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files: all of them aside, and then each into its place."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=folder) as made:
        aside = {path: Path(made) / str(number) for number, path in enumerate(files)}
        for path, content in files.items():
            aside[path].write_bytes(content)
        for path in files:
            with writing(folder / path):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                aside[path].replace(folder / path)


def _before(folder: Path, listing: str) -> dict[str, str]:
    """The files that an earlier list names, with their hashes; raises `UserError` for one of others."""
    place = folder / listing
    if not os.path.lexists(place):
        return {}
    if not _plain(place):
        raise _theirs(place)
    try:
        found = json_files.read(place.read_bytes(), _LIST, str(place)).files
        return {_path(folder, _place(folder, path)): of.sha256 for path, of in found.items()}
    except UserError:
        raise _theirs(place) from None


def _place(folder: Path, path: str) -> Path:
    """Where a file lies. Raises `UserError` for a path that cannot be one inside the folder, or that a link on
    the way leads out of it.
    """
    parts = PurePosixPath(path).parts
    inside = parts and not path.startswith("/") and not {"..", "\0"} & {*parts, *path}
    if not inside or any(len(part.encode()) > NAME_BYTES for part in parts):
        raise UserError(f"{path[:NAME_BYTES]!r} is no path of a file in {folder}")
    for count in range(1, len(parts)):
        way = folder.joinpath(*parts[:count])
        if os.path.lexists(way) and (way.is_symlink() or not way.is_dir()):
            raise UserError(f"cannot write {folder / path}: {way} is not a folder")
    return folder / path


def _path(folder: Path, place: Path) -> str:
    return place.relative_to(folder).as_posix()


def _ours(place: Path, before: str | None) -> bool:
    """Whether a file may be written over: it is not there, is empty, or is as it was listed; no link is,
    which leads elsewhere.
    """
    if not os.path.lexists(place):
        return True
    return _plain(place) and (not (content := place.read_bytes()) or digest(content) == before)


def _plain(place: Path) -> bool:
    return stat.S_ISREG(place.lstat().st_mode)


def _theirs(place: Path) -> UserError:
    return UserError(
        f"{place} exists and was not written by suite, so it is kept: choose another place, or move it "
        "away"
    )
