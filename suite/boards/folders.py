"""Folders that the suite writes whole, with a list of its files and their SHA-256."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suite.yaml_files import writing
from trials.errors import UserError


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
    write, or that was changed since; and where one cannot be written.
    """
    before = _before(folder / listing)
    for path in files:
        with writing(folder / path):
            if not _ours(folder, path, before):
                raise UserError(
                    f"{folder / path} is there and the suite did not write it, so it stays: choose another "
                    "place, or move it away"
                )
    for path in before.keys() - files.keys():
        with writing(folder / path):
            if (folder / path).exists() and _ours(folder, path, before):
                (folder / path).unlink()
    for path, content in {**files, listing: listed(facts, files)}.items():
        with writing(folder / path):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)


def _before(listing: Path) -> dict[str, str]:
    """The files that an earlier list names, with their hashes; raises `UserError` for one of others."""
    if not listing.exists():
        return {}
    try:
        files = json.loads(listing.read_bytes())["files"]
        return {path: files[path]["sha256"] for path in files if ".." not in Path(path).parts}
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{listing} is there and the suite did not write it, so it stays: choose another place, or move "
            "it away"
        ) from None


def _ours(folder: Path, path: str, before: Mapping[str, str]) -> bool:
    """Whether a file may be written over: it is not there, is empty, or is as it was listed; no link is,
    which leads elsewhere.
    """
    there = folder / path
    if there.is_symlink():
        return False
    if not there.exists():
        return True
    content = there.read_bytes()
    return not content or digest(content) == before.get(path)
