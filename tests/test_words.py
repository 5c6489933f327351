"""One word per thing, the field's (docs/architecture.md): the words of before 0.2.0 do not come back, and a
class name has one meaning.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("suite", "trials", "reports", "search_spaces")
BEFORE = {
    "cell": "scenario (data set, model, level), or entry",
    "anchor": "default configuration",
    "deal": "partition",
    "dealt": "partitioned",
    "ledger": "recording",
    "harvest": "finish",
    "glance": "row title",
    "course": "curve, or local training",
    "opening": "initial design",
    "blind": "random start-up",
    "refuses": "unsupported",
    "assumes": "requires",
    "tame": "sanitise",
    "joint": "gone in 0.2.0",
    "pbt": "gone in 0.2.0",
}
"""What a thing was called, and what it is called now."""
CLASSES = {"Ask", "End", "Told", "Known", "Place", "Room"}
OTHERS = {
    "suite/cli/reproduce.py": {"cell"},
    "suite/cli/listing.py": {"cell"},
    "reports/table.py": {"cell"},
    "reports/terminal.py": {"cell"},
    "reports/wording/tables.py": {"cell"},
    "reports/wording/formats.py": {"cell"},
    "reports/page/board_table.py": {"cell"},
    "reports/page/compare.py": {"cell"},
    "reports/page/page.py": {"cell"},
    "suite/yaml_files.py": {"anchor"},  # YAML's
    "reports/charts/style.py": {"anchor"},  # Vega's
}
"""Names of other libraries, and the cells of tables."""


def sources() -> list[str]:
    return sorted(
        str(path.relative_to(ROOT)) for name in PACKAGES for path in (ROOT / name).rglob("*.py")
    )


def names(tree: ast.AST) -> Iterator[str]:
    """Names that a module defines or gives: variables, functions, classes, arguments, attributes, modules."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def words(name: str) -> set[str]:
    """The words of a name, in the singular: `open_cells` and `OpenCell` have `cell`."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return {part.lower() for part in parts} | {part.lower().removesuffix("s") for part in parts}


@pytest.mark.parametrize("path", sources())
def test_names_are_today_s(path: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    given = {*names(tree), Path(path).stem}
    assert not given & CLASSES
    found = {word for name in given for word in words(name)}
    assert not {f"{w}: {BEFORE[w]}" for w in found & BEFORE.keys() - OTHERS.get(path, set())}


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_documents_use_today_s_words(path: Path) -> None:
    found = set(re.findall(r"[a-z]+", path.read_text().lower()))
    old = {"cell", "cells", "anchor", "anchors", "ledger", "deals", "dealt"}
    assert not found & old


def test_a_class_name_has_one_meaning() -> None:
    where = defaultdict(list)
    for path in sources():
        for node in ast.parse((ROOT / path).read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(path)
    assert not {name: paths for name, paths in where.items() if len(paths) > 1}


def test_nothing_is_said_for_certain():
    """What statistics show is shown, with an error rate (docs/statistics.md); nothing of it is certain."""
    files = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    said = re.compile(r"for certain|certainly|definitely|undoubtedly|order is settled")
    assert not [path for path in (*files, *pages) if said.search(path.read_text())]
