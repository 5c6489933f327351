"""What `--help` shows, and docs/commands.md, which is made of the same."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from suite.cli.app import COMMANDS, app
from suite.cli.listing import commands, commands_page
from tests.support.commands import document, suite_here
from tests.support.simulations import ROOT

ALL = commands(get_command(app))


def test_the_commands_are_one_screen_by_what_one_wants_to_do(tmp_path: Path) -> None:
    lines = suite_here("--help", cwd=tmp_path).stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    at = [lines.index(title) for title in COMMANDS]
    assert at == sorted(at)
    said = [line.split()[0] for line in lines[at[0] :] if line.startswith("  ")]
    assert said == [name for group in COMMANDS.values() for name in group]


@pytest.mark.parametrize("command", ALL, ids=lambda command: command["command"])
def test_a_command_says_what_it_does_with_an_example(command: dict[str, Any]) -> None:
    words = command["command"].split()
    assert command["example"].split()[: len(words)] == words
    assert len(command["what"]) < 80
    assert [o["name"] for o in command["options"] if not o["what"] and o["name"] != "KIND"] == []


def test_the_page_of_commands_is_what_the_command_prints(tmp_path: Path) -> None:
    """`make docs` writes it anew."""
    page = (ROOT / "docs" / "commands.md").read_text()
    assert page == commands_page(get_command(app))
    assert suite_here("list", "commands", "--markdown", cwd=tmp_path).stdout == page
    assert document(suite_here("list", "commands", "--json", cwd=tmp_path)) == ALL


def test_help_loads_nothing_that_takes_long(tmp_path: Path) -> None:
    """Not even NumPy; Typer itself loads pydantic."""
    heavy = ("numpy", "pandas", "torch", "ray", "mlflow", "optuna")
    script = (
        "import sys; from suite.cli.app import main; sys.argv = ['suite', 'sweep', '--help']\n"
        f"try: main()\nexcept SystemExit: print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.endswith("[]\n"), done.stderr
