"""What `--help` shows, and docs/commands.md, which typer makes of the same."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.cli import app as typer_app
from typer.main import get_command
from typer.testing import CliRunner

from suite.cli.app import COMMANDS, app
from tests.support.commands import suite_here
from tests.support.simulations import ROOT


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by the words that call it."""
    root: Any = get_command(app)
    for name, outer in root.commands.items():
        for inner, command in getattr(outer, "commands", {"": outer}).items():
            yield f"suite {name} {inner}".strip(), command


def options(command: Any) -> list[Any]:
    return [param for param in command.params if param.name != "help"]


ALL = dict(commands())


def test_the_commands_are_one_screen_by_what_one_wants_to_do(tmp_path: Path) -> None:
    shown = suite_here("--help", cwd=tmp_path).stdout
    assert len(shown.splitlines()) <= 45
    for words in ("--install-completion", *(f" {name} " for _, name, _, _ in COMMANDS)):
        assert words in shown


@pytest.mark.parametrize("name", ALL)
def test_a_command_says_what_it_does_with_an_example(name: str) -> None:
    command = ALL[name]
    assert command.epilog.startswith(f"Example: {name}")
    assert len(command.get_short_help_str(200)) < 80
    assert [param.name for param in options(command) if not param.help] == []


def test_there_are_few_options() -> None:
    """`--set` and `--where` have the rest."""
    assert sum(len(options(command)) for command in ALL.values()) <= 120
    assert len(options(ALL["suite sweep"])) <= 14


def test_the_page_of_commands_is_what_typer_writes(tmp_path: Path) -> None:
    """`make docs` writes it anew."""
    words = ["suite.cli.app", "utils", "docs", "--name", "suite", "--title", "Commands"]
    done = CliRunner().invoke(typer_app, [*words, "--output", str(tmp_path / "page.md")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "commands.md").read_text()


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
