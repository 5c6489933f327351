"""What the search hands out and takes back: a trial to run, and all it may know of how that ended."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from trials.metrics import COUNTED, TASKS
from trials.outcome import Kind, Outcome, Status

REPEATS = {Kind.CONFIRM: "c", Kind.FINAL: "f", Kind.PARETO: "p"}
"""Kinds of runs that repeat a search trial, and their letters in trial ids."""
_ID = re.compile(r"(?P<cell>.+)-(?P<letter>[scfp])(?P<index>\d{4,})(?:-(?P<number>\d+))?")


@dataclass(frozen=True)
class TrialId:
    """The name of a sweep's trial: `1f3a9c0d-s0004` is search trial 4 of a cell, `1f3a9c0d-f0004-1` its
    second final run.

    `index` is the search trial's, `number` counts the runs of a kind that repeat it.
    """

    cell: str
    kind: Kind
    index: int
    number: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an id; raises `ValueError` for what is none."""
        found = _ID.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not the id of a sweep's trial")
        letters = {"s": Kind.SEARCH, **{letter: kind for kind, letter in REPEATS.items()}}
        number = None if found["number"] is None else int(found["number"])
        return cls(found["cell"], letters[found["letter"]], int(found["index"]), number)

    def __str__(self) -> str:
        """As it is journaled and recorded."""
        letter = REPEATS.get(self.kind, "s")
        number = "" if self.number is None else f"-{self.number}"
        return f"{self.cell}-{letter}{self.index:04d}{number}"


@dataclass(frozen=True)
class Known:
    """A configuration that no sampler suggested; `source` says where a warm one is from."""

    origin: str
    params: dict[str, Any]
    source: str | None = None


@dataclass(frozen=True)
class Ask:
    """A trial to run; `index` counts the cell's trials of its kind.

    `source` is the search trial whose configuration it repeats, or where a warm one is from. A member
    of a population goes on from where the trial `parent` was at round `since`, and stops at round
    `until` (`suite.search.population`).
    """

    trial_id: str
    cell: str
    kind: Kind
    index: int
    origin: str
    params: dict[str, Any]
    seed: int
    partition_seed: int
    source: str | None = None
    parent: str | None = None
    since: int = 0
    until: int | None = None

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """From plain data, as `dataclasses.asdict` and JSON leave it."""
        return cls(**{**fields, "kind": Kind(fields["kind"])})

    @property
    def counted(self) -> bool:
        """Whether it is part of the search, and so of its budget."""
        return self.kind.counted

    def stands(self, status: Status) -> bool:
        """Whether a member of a population that ended so waits for the others, and is not over."""
        return self.until is not None and status in (Status.PAUSED, Status.DIVERGED)


@dataclass(frozen=True)
class End:
    """What the search may know of how a trial ended: validation scores and counters, no test metric.

    `value` is its last validation score (a mean of three evaluations), `intermediates` maps round to
    such scores where it reported, `curve` to the score of that evaluation alone; `spent` are its
    counters at round `at`, the last.
    """

    status: Status
    value: float | None
    intermediates: Mapping[int, float] = field(default_factory=dict)
    curve: Mapping[int, float] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    at: int = 0

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """All of an outcome that the search may know."""
        names = [f"val_{metric}" for metric in TASKS]
        curve = {int(e["round"]): e[name] for e in outcome.history for name in names if name in e}
        last = outcome.history[-1] if outcome.history else {}
        spent = {name: last[name] for name in COUNTED if name in last}
        return cls(
            outcome.status,
            outcome.value,
            outcome.intermediates,
            curve,
            spent,
            at=outcome.last_round,
        )
