"""What `suite reproduce --output` wrote, read back: as far as pages show it, it is checked here."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from suite.console import say
from suite.studies.validation import rule
from trials.common.errors import UserError
from trials.common.files import plain

COMMAND = "suite reproduce "
SHOWN = 200
"""So many characters of what is not as it should be are shown."""


class Measured(BaseModel):
    """What numbers and statements have alike."""

    metric: str
    measured: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: str
    reason: str


class Number(Measured):
    """A printed number beside the measured one."""

    method: str
    unit: str
    published: str
    reached_share: float | None
    seeds: int
    difference: float | None


class ClaimDocument(Measured):
    """A statement."""

    says: str


class RowDocument(BaseModel):
    """A row of a paper's table."""

    table: str
    row: str
    source: str
    about: str
    dataset: str | None
    model: str | None
    heterogeneity: str | None
    seeds: int
    note: str
    reduced: list[str] = []
    numbers: list[Number]
    claims: list[ClaimDocument]


class Document(BaseModel):
    """What was written of a table."""

    paper: str
    cites: str
    command: str
    protocol: str
    verdicts: dict[str, int]
    rules: list[str]
    made_with: list[dict[str, Any]]
    rows: list[RowDocument]


def documents(folder: Path) -> dict[str, dict[str, Any]]:
    """What `suite reproduce` wrote there, by file, whatever its name; what of it is damaged is said and passed
    over. Raises `UserError` where there is nothing.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        content = _content(path)
        if content is not None:
            found[path.name] = content
    if not found:
        raise UserError(f"{folder}: it has no documents of suite reproduce --output")
    return found


def _content(path: Path) -> dict[str, Any] | None:
    """A document; None for what is none, or is damaged."""
    try:
        content = json.loads(plain(path, "document").read_bytes())
    except (OSError, RecursionError, ValueError):
        return None
    if not isinstance(content, dict) or not str(content.get("command")).startswith(COMMAND):
        return None
    try:
        Document.model_validate(content)
    except ValidationError as error:
        say(f"{path}: {_first(error)}: it is skipped")
        return None
    return content


def _first(error: ValidationError) -> str:
    """The first fault that was found in a document: its key, its value, and the rule."""
    fault = error.errors(include_url=False)[0]
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "missing":
        return f"{key} is required"
    shown = repr(fault["input"])
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
    return f"{key} = {shown}: {rule(fault)}" if key else rule(fault)
