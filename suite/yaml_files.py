"""YAML as people write it, read safely; and files that the suite writes, where it may."""

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from trials.common.errors import UserError
from trials.common.files import plain
from trials.common.names import number

BYTES = 2**20
"""The longest YAML that is read: PyYAML needs seconds for more."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which reads `1e-3` as text (YAML 1.1); here it is a number (YAML 1.2). It refuses a key
    given twice, of which the last would win without a word.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping, whose keys differ."""
        node = super().compose_mapping_node(anchor)
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) > len(set(keys)):
            twice = next(key for at, key in enumerate(keys) if key in keys[:at])
            raise yaml.YAMLError(f"the key {twice!r} is there twice{node.start_mark}")
        return node


class _Dumper(yaml.SafeDumper):
    """Its counterpart, which quotes text that the loader would take for a number."""


for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
        list("-+.0123456789"),
    )


def read_text(path: Path, kind: str) -> str:
    """A text file; raises `UserError` when it cannot be read."""
    try:
        return plain(path, kind).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {kind} {path}: {error}") from None


def parse_mapping(text: str, source: str) -> dict[str, Any]:
    """A YAML mapping; raises `UserError` for anything else."""
    if len(text) > BYTES:
        raise UserError(f"{source} is not YAML that can be read: it is longer than {BYTES:,} bytes")
    try:
        content = yaml.load(text, _Loader)
    except Exception as error:  # PyYAML's, and what its readers of dates and numbers run into
        raise UserError(f"{source} is not YAML that can be read: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{source} must be a mapping of keys to values")
    return content


def dump(content: dict[str, Any]) -> str:
    """YAML that `parse_mapping` reads back as it was, keys in their order."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """The values that `--set KEY=VALUE` gives, by key; raises `UserError` for a text that gives none."""
    found = {}
    for text in texts:
        key, equals, given = text.partition("=")
        if not equals:
            raise UserError(f"--set {text}: must be KEY=VALUE")
        try:
            found[key] = value(given)
        except UserError as error:
            raise UserError(f"--set {text}: {error}") from None
    return found


def value(text: str) -> Any:
    """A value of a command line: a number, null, true, false, a list or mapping in YAML's brackets, or text.

    Raises `UserError` for brackets that hold neither.
    """
    for convert in (int, float):
        with suppress(ValueError):
            return number(convert, text)
    if text[:1] in ("[", "{"):
        try:
            return parse_mapping(f"value: {text}", text)["value"]
        except UserError:
            raise UserError("must be a list [A, B], or a mapping {KEY: VALUE}") from None
    return {"null": None, "true": True, "false": False}.get(text, text)


def foreign(path: Path, sign: str) -> bool:
    """Whether a file is there that the suite did not write, by the words that are in all it writes of
    the kind. What is empty, or no file but a device, nobody loses.
    """
    content = path.read_bytes() if path.is_file() else b""
    return bool(content) and sign.encode() not in content


def refuse_foreign(paths: Iterable[Path], sign: str) -> None:
    """Raise `UserError` where a file is there that the suite did not write."""
    for path in paths:
        with writing(path):
            if foreign(path, sign):
                raise UserError(
                    f"{path} exists and was not written by suite, so it is kept: choose another "
                    "place, or move it away"
                )


def write_files(files: Mapping[Path, bytes], sign: str) -> None:
    """Write files that a person asked for, each with `sign` in it; over those that the suite wrote
    before, and over no other. Raises `UserError` before the first where one is foreign, and where one
    cannot be written.
    """
    refuse_foreign(files, sign)
    for path, content in files.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: where that is cut off, or the disk is full, what was there stays.

    Until it is whole it has a name of its own, since two processes may write one file at a time.
    """
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write a file into a message."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write into a message."""
    try:
        yield
    except OSError as error:
        raise UserError(f"storage {path} cannot be written: {error.strerror or error}") from None
