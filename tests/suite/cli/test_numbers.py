"""Numbers of every option of every command: only digits that programs write."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from suite.cli.app import app
from suite.cli.options import _numeric
from tests.support.commands import fault, suite_here


def commands(of: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that call it."""
    if hasattr(of, "commands"):
        for name, inner in of.commands.items():
            yield from commands(inner, (*words, name))
    else:
        yield words, of


def numbers() -> Iterator[tuple[str, ...]]:
    """Every command with each of its options whose default is a number, or that shows one in its help."""
    for words, command in commands(get_command(app)):
        for option in {opt for each in command.params for opt in each.opts} & _numeric(app):
            yield (*words, option)


CASES = sorted(numbers())


def test_the_options_that_take_numbers_are_found():
    found = {case[-1] for case in CASES}
    assert {"--seed", "--rounds", "--port", "--minutes", "--target", "--clients"} < found
    assert not found & {"--name", "--storage", "--json", "--set"}


@pytest.mark.parametrize("case", CASES, ids=" ".join)
@pytest.mark.parametrize("value", ["1_0", "１０", "٣"])
def test_digits_that_only_python_takes_are_refused(
    tmp_path: Path, case: tuple[str, ...], value: str
):
    says = f"{case[-1]} {value}: must be a number in the digits 0 to 9 alone"
    assert fault(suite_here(*case, value, cwd=tmp_path, code=2)) == says
    joined = suite_here(*case[:-1], f"{case[-1]}={value}", cwd=tmp_path, code=2)
    assert fault(joined) == says
    assert not list(tmp_path.iterdir())


def test_names_may_hold_what_numbers_may_not(tmp_path: Path):
    done = suite_here("sweep", "smoke", "--dry-run", "--name", "2026_11", cwd=tmp_path)
    assert "Nothing was started" in done.stdout
