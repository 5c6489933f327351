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


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader; it reads `1e-3` as a number (YAML 1.2), and refuses a key given twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return a mapping whose keys differ: of two equal keys the last would silently win."""
        node, keys = super().compose_mapping_node(anchor), set[str]()
        for key, _ in node.value:
            if str(key.value) in keys:
                raise yaml.YAMLError(f"the key {str(key.value)!r} is there twice{node.start_mark}")
            keys.add(str(key.value))
        return node


class _Dumper(yaml.SafeDumper):
    """The loader's counterpart, which quotes text that the loader would take for a number."""


EXPONENT = re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$")
for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))


def read_text(path: Path, kind: str) -> str:
    """Return the text of a file. Raises `UserError` when it cannot be read."""
    try:
        return plain(path, kind).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {kind} {path}: {error}") from None


def parse_mapping(text: str, source: str) -> dict[str, Any]:
    """Return a YAML mapping. Raises `UserError` for anything else."""
    if len(text) > 2**20:  # PyYAML needs seconds for more
        raise UserError(f"{source} is longer than 1,048,576 bytes")
    try:
        content = yaml.load(text, _Loader)
    except Exception as error:  # PyYAML's, and what its readers of dates and numbers run into
        raise UserError(f"{source} is not YAML that can be read: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{source} must be a mapping of keys to values")
    return content


def dump(content: dict[str, Any]) -> str:
    """Return YAML that `parse_mapping` reads back as it was, keys in their order."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Return the values of `--set KEY=VALUE` by key: numbers, null, true, false, YAML in brackets, or text. Raises `UserError`
    for a text that gives none.
    """
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, written = text.partition("=")
        if not equals:
            raise UserError(f"--set {text}: must be KEY=VALUE")
        values[key] = {"null": None, "true": True, "false": False}.get(written, written)
        if written[:1] in ("[", "{"):
            source = f"--set {text}: must be a list [A, B], or a mapping {{KEY: VALUE}}; this"
            values[key] = parse_mapping(f"value: {written}", source)["value"]
        # Whole numbers last: 3 is read as 3.0 before.
        for convert in (float, int):
            with suppress(ValueError):
                values[key] = number(convert, written)
    return values


def refuse_foreign(paths: Iterable[Path], *signs: str) -> None:
    """Raise `UserError` where a file is there that the suite did not write: it has content without one of the words `signs`."""
    for path in paths:
        with writing(path):
            content = path.read_bytes() if path.is_file() else b""
        if content and not any(sign.encode() in content for sign in signs):
            why = "exists and was not written by suite, so it is kept"
            raise UserError(f"{path} {why}: choose another place, or move it away")


def write_files(files: Mapping[Path, bytes], *signs: str) -> None:
    """Write files that have one of `signs` in them, once none of them is foreign. Raises `UserError` where one is, or cannot be written."""
    refuse_foreign(files, *signs)
    for path, content in files.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to, then move that file into place in one step, so that the old one stays where writing is
    cut off. The path is new each time, since two processes may write one file.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield part
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
