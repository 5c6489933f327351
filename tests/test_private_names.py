"""Private names of other libraries stand in one file a library, `*_internals.py`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("suite", "trials", "reports", "search_spaces")
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_getframe"}
"""Of named tuples, of os and of sys: documented."""


def sources() -> list[str]:
    found = (path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    return sorted(str(p.relative_to(ROOT)) for p in found if not p.stem.endswith("_internals"))


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def names(tree: ast.Module) -> Iterator[str]:
    """Private names that a module takes from other libraries, or from objects that are not its own classes'."""
    nodes = list(ast.walk(tree))
    selves = [n for n in nodes if isinstance(n, ast.Attribute) and _is_self(n.value)]
    own = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own |= {n.attr for n in selves}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] not in PACKAGES:
            parts = [*(node.module or "").split("."), *(one.name for one in node.names)]
            yield from filter(private, parts)
        if isinstance(node, ast.Import):
            yield from filter(private, (part for one in node.names for part in one.name.split(".")))
        if isinstance(node, ast.Attribute) and not _is_self(node.value) and node.attr not in own:
            yield from filter(private, [node.attr])


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@pytest.mark.parametrize("path", sources())
def test_a_module_takes_no_private_name_of_others(path: str) -> None:
    assert not list(names(ast.parse((ROOT / path).read_text())))


def test_the_test_finds_one() -> None:
    found = names(
        ast.parse("from ray._raylet import Config\nstudy._storage\nself._own\nother._own")
    )
    assert list(found) == ["_raylet", "_storage"]
