"""A play or a dialogue of one's own as text: the next character, by speaking role."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from trials.datasets.base import Array, Dataset
from trials.datasets.own import Own
from trials.datasets.text import CHARACTERS, character_ids
from trials.errors import UserError

LENGTH = 80
STRIDE = 40
"""Characters between two samples. At 1, as in LEAF, the samples are 80 times the text."""


@dataclass(frozen=True)
class Speeches(Own):
    """`speeches:PATH`, a text file in which each speech begins with a line `NAME:` and ends before the
    next one: the next character after 80, of LEAF's 80 characters, by speaking role (`natural`).

    A role's speeches are joined in order; a sample begins at every 40th character, others than LEAF's
    80 are left out, and the last fifth of each role's samples is test, less those that overlap
    with training ones. Roles with fewer than 10 samples are left out.
    """

    summary: ClassVar[str] = "your own play with `NAME:` lines: next character, by speaking role"
    scheme: ClassVar[str] = "speeches"

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """See the class. Raises `UserError` when the file has no speeches."""
        try:
            text = Path(self.path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read data set {self.name}: {error}") from None
        roles: dict[str, str] = {}
        parts = re.split(r"(?m)^([A-Za-z][^:\n]{0,40}):[ \t]*$", text)
        for role, speech in zip(parts[1::2], parts[2::2], strict=True):
            kept = "".join(char for char in speech.strip() if char in CHARACTERS)
            roles[role] = roles.get(role, "") + kept + "\n"
        x: list[str] = []
        y: list[str] = []
        test: list[Array] = []
        client: list[Array] = []
        for spoken in roles.values():
            starts = np.arange(0, len(spoken) - LENGTH, STRIDE)
            if len(starts) < 10:
                continue
            first = starts[-(len(starts) // 5)]
            held_out = starts >= first
            used = held_out | (starts + LENGTH < first)
            x += [spoken[i : i + LENGTH] for i in starts[used]]
            y += [spoken[i + LENGTH] for i in starts[used]]
            test.append(held_out[used])
            client.append(np.full(int(used.sum()), len(client)))
        if not x:
            raise UserError(
                f"data set {self.name} has no role with {LENGTH + 10 * STRIDE} characters: a speech "
                "begins with a line that holds NAME: alone"
            )
        return Dataset(
            character_ids(x, LENGTH).astype(np.float32),
            character_ids(y, 1)[:, 0].astype(np.int64),
            np.concatenate(test),
            len(CHARACTERS),
            np.concatenate(client),
        )
