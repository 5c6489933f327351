"""The name of a sweep's trial, made and read."""

import re
from dataclasses import dataclass
from typing import Self

from trials.run.outcome import TrialKind

REPEATS = {TrialKind.CONFIRM: "c", TrialKind.FINAL: "f"}
"""Kinds of runs that repeat a search trial, and their letters in trial ids."""
_ID = re.compile(
    r"(?P<entry_id>.+?)(?:-(?P<replicate>(?:[vdt]\d+)+))?"
    r"-(?P<letter>[scf])(?P<index>\d{4,})(?:-(?P<number>\d+))?"
)


@dataclass(frozen=True)
class TrialId:
    """The name of a sweep's trial: `1f3a9c0d-s0004` is search trial 4 of a scenario, `1f3a9c0d-f0004-1` its
    second final run, `1f3a9c0d-t2-s0004` search trial 4 of its third tuning.

    `index` is the search trial's, `number` counts the runs of a kind that repeat it.
    """

    entry_id: str
    kind: TrialKind
    index: int
    number: int | None = None
    replicate: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an id; raises `ValueError` for what is none."""
        found = _ID.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not the id of a sweep's trial")
        letters = {"s": TrialKind.SEARCH, **{letter: kind for kind, letter in REPEATS.items()}}
        number = None if found["number"] is None else int(found["number"])
        return cls(
            found["entry_id"],
            letters[found["letter"]],
            int(found["index"]),
            number,
            found["replicate"] or "",
        )

    def __str__(self) -> str:
        """As it is journaled and recorded."""
        letter = REPEATS.get(self.kind, "s")
        number = "" if self.number is None else f"-{self.number}"
        of = "-".join(filter(None, (self.entry_id, self.replicate)))
        return f"{of}-{letter}{self.index:04d}{number}"
