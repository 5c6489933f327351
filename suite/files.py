"""YAML as people write it, read safely."""

import re
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
