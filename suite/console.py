"""Printing: results and JSON documents to standard output, messages for a person to standard error."""

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
"""The message of commands that read a store, since MLflow takes seconds to load."""
UNBOUNDED = 10_000
"""The width of a line, in characters, where standard output is not a terminal."""
_CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]
_TURNING = [0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
HARMLESS = {code: ascii(chr(code))[1:-1] for code in (*_CONTROLS, *_TURNING)}
"""The escape of each character that moves a terminal's cursor or reorders its text. Without escapes, the name of a file
could hide a message about it.
"""
ESCAPED = {code: f"\\u{code:04x}" for code in HARMLESS}
"""The escapes of the same characters in JSON, which readers of the document turn back into the characters."""


class Lasting(io.FileIO):
    """An output stream to a terminal. Once the terminal is closed, as under `nohup`, output is dropped."""

    def write(self, content: Any) -> int:
        """Write the content, or drop it if the terminal is closed. Return the number of bytes."""
        with suppress(OSError):
            return super().write(content)
        return memoryview(content).nbytes


def outlive_terminal() -> None:
    """Prevent errors when the program prints to a closed terminal, or prints letters that the encoding of the output lacks."""
    for name in ("stdout", "stderr"):
        if hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")
        if (stream := getattr(sys, name)) is not None and stream.isatty():
            lasting = io.BufferedWriter(Lasting(stream.fileno(), "w", closefd=False))
            text = io.TextIOWrapper(lasting, stream.encoding, stream.errors, line_buffering=True)
            setattr(sys, name, text)


def write(text: str) -> None:
    """Print text to standard output. Escape characters that could move a terminal's cursor."""
    sys.stdout.write(text.translate(HARMLESS))


def emit(document: Any) -> None:
    """Print one JSON document to standard output, with null in place of NaN and infinity."""
    from pydantic_core import to_json

    text = to_json(document, indent=2, inf_nan_mode="null").decode()
    sys.stdout.write(text.translate(ESCAPED) + "\n")


def say(text: str) -> None:
    """Print a message to standard error, with control characters escaped."""
    print(text.translate(HARMLESS), file=sys.stderr, flush=True)


def out() -> "Console":
    """Return a rich console for standard output, as wide as the terminal or the variable COLUMNS. Without either, lines are not wrapped."""
    from rich.console import Console

    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console() if bounded else Console(width=UNBOUNDED)


def show_table(
    columns: "Sequence[Column]",
    rows: Sequence[Sequence[str]],
    essential: int | None = None,
    title: str | None = None,
) -> None:
    """Print a table that fits the terminal. If it is too wide, leave out its last columns, and list them below the table. To keep
    the first `essential` columns (default: all), long names are wrapped over several lines.
    """
    from reports.terminal import fitted, left_out

    console, kept = out(), len(columns) if essential is None else essential
    shown, dropped = fitted(columns, rows, console.width, kept, title)
    console.print(shown, *left_out(dropped, "--json"), sep="\n")
