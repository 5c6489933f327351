"""Shakespeare's plays by speaking role, of the text that LEAF reads."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.datasets.natural.published import Content, PublishedData, Tree
from trials.datasets.text import CHARACTERS, windows

LENGTH = 80
"""Characters of a sample."""


@dataclass(frozen=True)
class ShakespeareText(PublishedData):
    """The roles of 36 plays (McMahan et al. 2017, Caldas et al. 2018): the next character after 80, of LEAF's 80
    characters; a client is a role of a play. It reads Project Gutenberg's text, as LEAF's own program
    does: 1,130 roles with 4,226,206 samples at `stride` 1. LEAF's site says 1,129 and 4,226,158.

    `shakespeare_text(stride)` keeps each stride-th sample of a role. The last fifth of each role's samples is test, as
    LEAF's `--tf 0.8`; training samples that overlap with it are left out, and so are roles with fewer
    than 10 samples or none to train on: at stride 1 1,015 roles are left.
    `shakespeare` reads the files that LEAF's program writes.
    """

    kind: ClassVar[str] = "text"
    family: ClassVar[str] = "shakespeare"
    summary: ClassVar[str] = (
        "Shakespeare's plays as LEAF reads them: next of 80 characters, by role (natural)"
    )
    source: ClassVar[str] = (
        "www.gutenberg.org/files/100/old/1994-01-100.zip (Project Gutenberg's etext 100 of 1994: for personal "
        "use, not commercial)"
    )
    folder: ClassVar[str] = "leaf_shakespeare"
    published: ClassVar[tuple[Content | Tree, ...]] = (
        Content("leaf_shakespeare/t8.shakespeare.txt", "d2028225a89d8b0b3093dddb720da91f"),
    )
    stride: int = 1

    def __post_init__(self) -> None:
        if self.stride < 1:
            raise UserError(f"shakespeare_text(stride): stride >= 1 must hold, got {self.stride}")

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        (file,) = (one for one in self.published if isinstance(one, Content))
        lines = file.read(self.fetch(root)).decode("latin-1").splitlines()
        x, y, test, client = windows(roles(lines).values(), LENGTH, self.stride)
        return Dataset(x, y, test, len(CHARACTERS), client)


LAST_LINE = 124196
"""Where the plays end."""
AUTHOR = "by William Shakespeare"
"""Below the title of each work; the sonnets are the first one."""
SPEAKER = re.compile(r"([a-zA-Z][a-zA-Z ]*)\. (.*)")


def roles(lines: Sequence[str]) -> dict[str, str]:
    """What each role of each play says, by LEAF's rules: names without regard to case; a role has more than two
    lines; spaces and line ends in a row are one space.

    A speech begins with a line `  Name. Text`, and goes on with lines that are indented by four. In The Comedy of
    Errors nothing is indented: there all lines go on, until a stage direction (`<`) or an act.
    """
    works = [number for number, line in enumerate(lines) if AUTHOR in line][1:]
    said: dict[str, list[str]] = defaultdict(list)
    for start, end in zip(works, [*works[1:], LAST_LINE + 1], strict=True):
        title = next(filter(None, (lines[start - up].strip() for up in range(2, 8))))
        flat, name = title == "THE COMEDY OF ERRORS", ""
        play: dict[str, list[str]] = defaultdict(list)
        for line in lines[start + 1 : end]:
            begun = SPEAKER.match(line if flat else line[2:]) if flat or line[:2] == "  " else None
            if begun:
                name = "" if flat and begun[1].upper().startswith("ACT ") else begun[1].upper()
                if name:
                    play[name].append(begun[2])
            elif flat and line[:1] == "<":
                name = ""
            elif name and (flat or line[:4] == "    "):
                play[name].append(line if flat else line[4:])
        for name, speech in play.items():
            if len(speech) > 2:
                said[re.sub(r"\W+", "_", f"{title}_{name}")] += speech
    return {role: re.sub("  +", " ", " ".join([*speech, ""])) for role, speech in said.items()}
