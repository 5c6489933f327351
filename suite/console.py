"""What all commands share: options, one JSON document on stdout, messages on stderr."""

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

Storage = Annotated[Path, typer.Option(help="Folder of the MLflow store and of all sweeps.")]
Tracking = Annotated[
    str | None, typer.Option(help="MLflow tracking server instead of the store's file.")
]
DataRoot = Annotated[str | None, typer.Option(help="Folder of data sets (or SUITE_DATA).")]
MemoryBudget = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        help="GB for the clients that are computed at once; default: 2, or half of a GPU's.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
RUNS = Path("runs")


def emit(document: Any) -> None:
    """Print one JSON document; numbers that JSON cannot hold become null."""
    sys.stdout.write(json.dumps(finite(document), indent=2, ensure_ascii=False) + "\n")


def finite(value: Any) -> Any:
    """The value with None for each number that JSON cannot hold."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str) -> None:
    """Print a message for the person on standard error."""
    print(text, file=sys.stderr, flush=True)
