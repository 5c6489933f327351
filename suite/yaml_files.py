"""Safe reading of YAML that people write, and writing of files that replaces none of a person's own."""

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
    """PyYAML's safe loader, which also reads `1e-3` as a number (YAML 1.2) and refuses a repeated key."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return the node of a mapping. Raise `YAMLError` for a repeated key, whose last value PyYAML would silently take."""
        node, keys = super().compose_mapping_node(anchor), set[str]()
        for key, _ in node.value:
            if str(key.value) in keys:
                raise yaml.YAMLError(f"the key {str(key.value)!r} appears twice{node.start_mark}")
            keys.add(str(key.value))
        return node


class _Dumper(yaml.SafeDumper):
    """The dumper for files that `_Loader` reads. It quotes texts such as "1e-3", which `_Loader` would read as numbers."""


EXPONENT = re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$")
for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))


def read_text(path: Path, kind: str) -> str:
    """Return the text of a UTF-8 file. Raise `UserError` if it cannot be read; `kind` describes the file in the message."""
    try:
        return plain(path, kind).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {kind} {path}: {error}") from None


def parse_mapping(text: str, source: str) -> dict[str, Any]:
    """Return the mapping in a YAML text. Raise `UserError`, whose message begins with `source`, for any other text."""
    if len(text) > 2**20:  # PyYAML would need seconds
        raise UserError(f"{source} is longer than 1,048,576 bytes")
    try:
        content = yaml.load(text, _Loader)
    except Exception as error:  # also those of PyYAML's date and number parsers
        raise UserError(f"{source} is not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{source} must be a mapping of keys to values")
    return content


def dump(content: dict[str, Any]) -> str:
    """Return a mapping as YAML text. `parse_mapping` turns this text back into an equal mapping with the same order of keys."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Return the keys and values of texts such as `lr=0.1`. A value becomes a number, None, True, False, a list or a mapping
    (YAML in brackets), or stays text. Raise `UserError` for a text without "=", or for brackets that are not YAML.
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
        # int last, since float reads 3 as 3.0.
        for convert in (float, int):
            with suppress(ValueError):
                values[key] = number(convert, written)
    return values


def refuse_foreign(paths: Iterable[Path], *signs: str) -> None:
    """Raise `UserError` if a file has content but none of the texts `signs`. Files that the suite wrote have such a text."""
    for path in paths:
        with writing(path):
            content = path.read_bytes() if path.is_file() else b""
        if content and not any(sign.encode() in content for sign in signs):
            why = "exists and was not written by suite, so it is kept"
            raise UserError(f"{path} {why}: choose another path, or move it away")


def write_files(files: Mapping[Path, bytes], *signs: str) -> None:
    """Write each file's content. Raise `UserError` if writing fails, or would replace a nonempty file that has none of the texts `signs`."""
    refuse_foreign(files, *signs)
    for path, content in files.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, then move that file to `path` in one step. An interrupted write thus leaves the
    old file. Each call yields a new name, since two processes may write the same file at once.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` in the `with` block into a `UserError` with the path and the reason."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
