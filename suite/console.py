"""One JSON document on standard output, everything for a person on standard error."""

import json
import math
import sys
from typing import Any, cast

READING = "reading the records"
"""Said by commands that read a store: MLflow takes seconds to come."""
_UNSEEN = [*range(9), *range(11, 32), *range(127, 160)]
_TURNING = [0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
HARMLESS = {code: ascii(chr(code))[1:-1] for code in (*_UNSEEN, *_TURNING)}
"""What text of others may hold that moves a terminal's cursor, or the order of what it shows, spelled
out: a file's name must not hide what is said of the file.
"""


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
    print(text.translate(HARMLESS), file=sys.stderr, flush=True)


def tame() -> None:
    """Have Rich spell out the same in whatever it prints from now on."""
    from rich import control

    control._CONTROL_STRIP_TRANSLATE.update(cast("dict[int, None]", HARMLESS))
