"""Imports run downward, in no circle: the contracts of pyproject.toml, and that they can be broken."""

import ast
from collections import defaultdict
from pathlib import Path

from click.testing import CliRunner
from importlinter.cli import lint_imports_command

from tests.support.simulations import ROOT


def linted(config: Path) -> tuple[int, str]:
    done = CliRunner().invoke(lint_imports_command, ["--config", str(config), "--no-cache"])
    return done.exit_code, done.output


def test_every_room_imports_downward_only():
    code, said = linted(ROOT / "pyproject.toml")
    assert code == 0, said
    assert "0 broken" in said


def test_a_class_name_has_one_meaning() -> None:
    where = defaultdict(list)
    for package in ("suite", "trials", "reports", "search_spaces"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    where[node.name].append(path)
    assert not {name: paths for name, paths in where.items() if len(paths) > 1}
