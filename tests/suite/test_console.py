"""What text of others can do to a terminal: nothing."""

import io
import json
import os
import sys

import pytest
from rich.console import Console
from rich.table import Table

from reports.rich_internals import spell_out
from suite.console import HARMLESS, emit, outlive_terminal, say, write

HOSTILE = "a\x1b[2Jb\x9bc\rd\u202ee\tf\ng é"
SHOWN = "a\\x1b[2Jb\\x9bc\\rd\\u202ee\tf\ng é"


def test_control_characters_are_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    assert capsys.readouterr().err == f"{SHOWN}\n"


def test_a_terminal_that_is_closed_or_lacks_a_letter_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = io.BytesIO()
    master, terminal = os.openpty()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(page, "ascii"))
    monkeypatch.setattr(sys, "stderr", os.fdopen(terminal, "w"))
    outlive_terminal()
    print("±", flush=True)
    os.close(master)
    say("nobody reads")
    assert page.getvalue() == b"\\xb1\n"


def test_in_tables_too(capsys: pytest.CaptureFixture[str]) -> None:
    spell_out(HARMLESS)
    table = Table(HOSTILE.partition("\t")[0])
    table.add_row(HOSTILE.partition("\t")[0])
    Console(width=60).print(table, HOSTILE)
    shown = capsys.readouterr().out
    assert shown.count(SHOWN.partition("\t")[0]) == 3
    assert all(part.isprintable() for part in shown.split("\n"))


def test_in_files_that_are_printed_and_in_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON keeps the text itself."""
    write(HOSTILE)
    assert capsys.readouterr().out == SHOWN
    emit({HOSTILE: HOSTILE + chr(127)})
    shown = capsys.readouterr().out
    assert all(part.isprintable() for part in shown.split("\n"))
    assert json.loads(shown) == {HOSTILE: HOSTILE + chr(127)}
