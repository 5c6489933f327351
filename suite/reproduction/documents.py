"""What `suite reproduce --output` wrote, read back: as far as pages show it, it is checked here."""

import shlex
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, TypeAdapter, model_validator

from reports.claims.verdicts import printed
from suite import json_files
from suite.console import say
from trials.common.errors import UserError
from trials.common.files import plain

COMMAND = "suite reproduce "


def _command(text: str) -> str:
    """A command that does nothing but what it says first, since it is there to be run again."""
    if not text.isprintable() or "`" in text or shlex.join(shlex.split(text)) != text:
        raise ValueError("must be one command with each of its words quoted")
    return text


def _published(text: str) -> str:
    if text != "never":
        relation, _, number = text.rpartition(" ")
        printed(f"{relation or '~'} {number}")
    return text


class Measured(BaseModel):
    """What numbers and statements have alike; an interval has both ends."""

    metric: str
    measured: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: str
    reason: str

    @model_validator(mode="after")
    def _both_ends(self) -> Self:
        if (self.ci_low is None) != (self.ci_high is None):
            raise ValueError("an interval needs ci_low and ci_high")
        return self


class Number(Measured):
    """A printed number beside the measured one."""

    method: str
    unit: str
    published: Annotated[str, AfterValidator(_published)]
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
    command: Annotated[str, AfterValidator(_command)]
    protocol: str
    verdicts: dict[str, int]
    rules: list[str]
    made_with: list[dict[str, Any]]
    rows: list[RowDocument]


_DOCUMENT = TypeAdapter(Document)


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
        content = json_files.parse(plain(path, "document").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or not str(content.get("command")).startswith(COMMAND):
        return None
    try:
        json_files.check(content, _DOCUMENT, str(path))
    except UserError as error:
        say(f"{error}: it is skipped")
        return None
    return content
