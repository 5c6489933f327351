"""A play or a dialogue of one's own as text: the next character, by speaking role."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from trials.common.errors import UserError
from trials.common.files import plain
from trials.datasets.base import Dataset
from trials.datasets.own.files import Own
from trials.datasets.text import CHARACTERS, windows


@dataclass(frozen=True)
class Windows:
    """A sample is the `length` characters before the one to be told; one begins every `stride`."""

    length: int = 80
    stride: int = 40

    def __post_init__(self) -> None:
        if self.length < 1 or self.stride < 1:
            raise UserError(
                "speeches(length, stride): length >= 1 and stride >= 1 must hold, "
                f"got {self.length}, {self.stride}"
            )


@dataclass(frozen=True)
class Speeches(Own):
    """`speeches:PATH`, a text file in which each speech begins with a line `NAME:` and ends before the
    next one: the next character after 80, of LEAF's 80 characters, by speaking role (`natural`).
    `speeches(length,stride):PATH` has other windows than (80,40); LEAF's are (80,1), which makes the
    samples 80 times the text.

    A role's speeches are joined in order; characters other than LEAF's 80 are left out, and the last
    fifth of each role's samples is test, less those that overlap with training ones. Roles with
    fewer than 10 samples are left out.
    """

    summary: ClassVar[str] = "your own play with `NAME:` lines: next character, by speaking role"
    scheme: ClassVar[str] = "speeches"
    Options: ClassVar[type] = Windows
    options: Windows = Windows()

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """The play's windows of text, owned by its speakers. Raises `UserError` when the file has no speeches."""
        try:
            text = plain(Path(self.path), "data set").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read data set {self.name}: {error}") from None
        length, stride = self.options.length, self.options.stride
        roles: dict[str, str] = {}
        parts = re.split(r"(?m)^([A-Za-z][^:\n]{0,40}):[ \t]*$", text)
        for role, speech in zip(parts[1::2], parts[2::2], strict=True):
            kept = "".join(char for char in speech.strip() if char in CHARACTERS)
            roles[role] = roles.get(role, "") + kept + "\n"
        x, y, test, client = windows(roles.values(), length, stride)
        if not len(x):
            raise UserError(
                f"data set {self.name} has no role with {length + 10 * stride} characters: a speech "
                "begins with a line that holds NAME: alone"
            )
        return Dataset(x, y, test, len(CHARACTERS), client)
