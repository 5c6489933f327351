"""One JSON document on standard output, everything for a person on standard error."""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from reports.table import Column

READING = "reading the records"
"""Printed by commands that read a store, since MLflow takes seconds to load."""
UNBOUNDED = 10_000
"""The width of lines that do not go to a terminal."""
_CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]
_TURNING = [0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
HARMLESS = {code: ascii(chr(code))[1:-1] for code in (*_CONTROLS, *_TURNING)}
"""Characters that move a terminal's cursor or reorder its text, spelled out: a file's name must not hide a message about
it.
"""
ESCAPED = {code: f"\\u{code:04x}" for code in HARMLESS}
"""The same as JSON spells it, whose strings keep them."""


class Lasting(io.FileIO):
    """A stream whose terminal may be closed while `nohup` keeps the command; later output is dropped."""

    def write(self, content: Any) -> int:
        """Write text while there is a terminal."""
        with suppress(OSError):
            return super().write(content)
        return memoryview(content).nbytes


def outlive_terminal() -> None:
    """Keep prints from failing when the terminal is gone or its encoding lacks a letter."""
    for name in ("stdout", "stderr"):
        if hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")
        if (at := getattr(sys, name)) is not None and at.isatty():
            lasting = io.BufferedWriter(Lasting(at.fileno(), "w", closefd=False))
            text = io.TextIOWrapper(lasting, at.encoding, at.errors, line_buffering=True)
            setattr(sys, name, text)


def write(text: str) -> None:
    """Print text of files and records on standard output as it is, except what moves a terminal's cursor."""
    sys.stdout.write(text.translate(HARMLESS))


def emit(document: Any) -> None:
    """Print one JSON document; numbers that JSON cannot hold become null."""
    from pydantic_core import to_json

    text = to_json(document, indent=2, inf_nan_mode="null").decode()
    sys.stdout.write(text.translate(ESCAPED) + "\n")


def say(text: str) -> None:
    """Print a message for the person on standard error."""
    print(text.translate(HARMLESS), file=sys.stderr, flush=True)


def out() -> "Console":
    """Return standard output, as wide as the terminal or COLUMNS; a file gets whole lines."""
    from rich.console import Console

    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console() if bounded else Console(width=UNBOUNDED)


def show_table(
    columns: "Sequence[Column]",
    rows: Sequence[Sequence[str]],
    essential: int | None = None,
    title: str | None = None,
) -> None:
    """Print a table as wide as the room, and name the columns left out. The first `essential` ones (default: all) stay
    while they fit with folded names.
    """
    from reports.terminal import fitted, left_out

    console, kept = out(), len(columns) if essential is None else essential
    shown, dropped = fitted(columns, rows, console.width, kept, title)
    console.print(shown, *left_out(dropped, "--json"), sep="\n")
