"""One JSON document on standard output, everything for a person on standard error."""

import json
import math
import sys
from typing import Any

READING = "reading the records"
"""Said by commands that read a store: MLflow takes seconds to come."""


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
