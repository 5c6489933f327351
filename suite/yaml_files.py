"""YAML as people write it, read safely; and files that the suite writes, where it may."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from trials.errors import UserError


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which reads `1e-3` as text (YAML 1.1); here it is a number (YAML 1.2)."""


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
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"cannot read {kind} {path}: it does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {kind} {path}: {error}") from None


def parse_mapping(text: str, source: str) -> dict[str, Any]:
    """A YAML mapping; raises `UserError` for anything else."""
    try:
        content = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise UserError(f"{source} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{source} must be a mapping of keys to values")
    return content


def dump(content: dict[str, Any]) -> str:
    """YAML that `parse_mapping` reads back as it was, keys in their order."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def assigned(text: str) -> tuple[str, Any]:
    """`KEY=VALUE` of a command line; a value is a number, null, or text. Raises `UserError` without =."""
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError("must be KEY=VALUE")
    for convert in (int, float):
        try:
            return key, convert(value)
        except ValueError:
            continue
    return key, None if value == "null" else value


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
                    f"{path} is there and the suite did not write it, so it stays: choose another "
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
