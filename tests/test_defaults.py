"""Where a default of a library decides a number or a door, it is one that we know."""

import inspect
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest

KNOWN = Path(__file__).parent / "support" / "defaults.txt"


def shown(value: Any) -> str:
    return getattr(value, "__qualname__", "") or repr(value)


def defaults(name: str) -> dict[str, str]:
    parameters = inspect.signature(locate(name)).parameters.values()
    return {p.name: shown(p.default) for p in parameters if p.default is not p.empty}


@pytest.mark.parametrize("line", KNOWN.read_text().splitlines())
def test_a_release_that_changes_a_default_is_looked_at(line: str) -> None:
    """Pass by name what a new parameter or default decides; then correct the line in `support/defaults.txt`."""
    name, *known = line.split(" | ")
    assert defaults(name) == dict(pair.split("=", 1) for pair in known)
