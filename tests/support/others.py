"""Whether a version of another library has the names of it that are used here and that it does not promise."""

import importlib
from typing import Any


def has(name: str) -> bool:
    """Whether a dotted name is there: of a module, or of what is in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
