"""What `suite reproduce --output` wrote, read back."""

import json
from pathlib import Path
from typing import Any

from trials.errors import UserError
from trials.files import plain


def documents(folder: Path) -> dict[str, dict[str, Any]]:
    """What `suite reproduce` wrote there, by file, whatever its name; raises `UserError` where there is
    nothing.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(plain(path, "document").read_bytes())
        except (OSError, RecursionError, ValueError):
            continue
        if isinstance(content, dict) and str(content.get("command")).startswith("suite reproduce "):
            found[path.name] = content
    if not found:
        raise nothing(folder)
    return found


def nothing(folder: Path) -> UserError:
    """The error for a folder without such documents."""
    return UserError(f"{folder}: no documents of suite reproduce --output lie there")
