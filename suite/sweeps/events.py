"""What a journal says, as types: the events of a sweep, and the state that they add up to.

A line of a journal is an event's name under `event` beside its fields. Lines written by earlier versions
lack fields that came later, and get their defaults.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from suite.search.trial import Ask, Known
from trials.errors import UserError
from trials.outcome import Outcome, Status

Line = Mapping[str, Any]
Warm = Mapping[str, list[Known]]
"""The configurations that entries start from, by entry."""


@dataclass(frozen=True)
class Begun:
    """A session of the sweep begins: its study (plain data), what its entries start from, how many of an
    entry's trials may be in flight, how many trials there will be in how many entries, what the entries are
    (by id: algorithm, data set, model, level, and the metric they are ranked by). `id` tells the sweep from
    others of its name.
    """

    name: ClassVar = "begin"
    study_name: str
    study: Mapping[str, Any]
    lag: int
    warm: Warm = field(default_factory=dict)
    cells: int | None = None
    planned: int | None = None
    id: str | None = None
    entries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled: versions are fields of their own."""
        own = {key: value for key, value in vars(self).items() if key != "versions"}
        warm = {entry: [asdict(known) for known in given] for entry, given in self.warm.items()}
        return {**own, "warm": warm, **self.versions}

    @classmethod
    def read(cls, line: Line) -> Self:
        """Read an event from a line's fields."""
        warm = {entry: [Known(**k) for k in given] for entry, given in line.get("warm", {}).items()}
        later = line.get("cells"), line.get("planned"), line.get("id"), line.get("entries", {})
        return cls(line["study_name"], line["study"], line["lag"], warm, *later)


@dataclass(frozen=True)
class Asked:
    """A trial was handed out for the first time."""

    name: ClassVar = "ask"
    ask: Ask

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled."""
        return asdict(self.ask)

    @classmethod
    def read(cls, line: Line) -> Self:
        """Read an event from a line's fields."""
        return cls(Ask.read(line))


@dataclass(frozen=True)
class WentOn:
    """Members of a population go on from a stop, each with the ask that says how."""

    name: ClassVar = "generation"
    asks: tuple[Ask, ...]

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled."""
        return {"asks": [asdict(ask) for ask in self.asks]}

    @classmethod
    def read(cls, line: Line) -> Self:
        """Read an event from a line's fields."""
        return cls(tuple(map(Ask.read, line["asks"])))


@dataclass(frozen=True)
class Stood:
    """A member of a population waits at a stop for the others."""

    name: ClassVar = "stand"
    trial_id: str
    outcome: Outcome
    at: float = field(default_factory=lambda: round(time.time(), 3))

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled: of the outcome those that are not empty."""
        told = {key: value for key, value in asdict(self.outcome).items() if value}
        return {"trial_id": self.trial_id, "at": self.at, **told}

    @classmethod
    def read(cls, line: Line) -> Self:
        """Read an event from a line's fields."""
        told = {key: value for key, value in line.items() if key not in ("trial_id", "at")}
        scores = {int(key): value for key, value in told.pop("intermediates", {}).items()}
        status = Status(told.pop("status", Status.FAILED))
        outcome = Outcome(status, intermediates=scores, **told)
        return cls(line["trial_id"], outcome, line.get("at", 0.0))


@dataclass(frozen=True)
class Ended(Stood):
    """A trial is over."""

    name: ClassVar = "end"


@dataclass(frozen=True)
class Died:
    """An attempt at a trial died at a round; it is started again."""

    name: ClassVar = "died"
    trial_id: str
    round: int
    error: str

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled."""
        return asdict(self)

    @classmethod
    def read(cls, line: Line) -> Self:
        """Read an event from a line's fields."""
        return cls(**line)


@dataclass(frozen=True)
class Recorded:
    """A trial that is over has its run in the tracking store."""

    name: ClassVar = "recorded"
    trial_id: str
    run_id: str

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled."""
        return asdict(self)

    @classmethod
    def read(cls, line: Line) -> Self:
        """Read an event from a line's fields."""
        return cls(**line)


Event = Begun | Asked | WentOn | Stood | Ended | Died | Recorded
EVENTS: dict[str, type[Event]] = {
    kind.name: kind for kind in (Begun, Asked, WentOn, Stood, Ended, Died, Recorded)
}


def read(line: Line) -> Event:
    """The event of a journal's line; raises `UserError` for one of a later version."""
    name, fields = line["event"], {key: value for key, value in line.items() if key != "event"}
    if name not in EVENTS:
        raise UserError(f"the journal has an event {name!r}: a later version of suite wrote it")
    return EVENTS[name].read(fields)


@dataclass
class SweepState:
    """All that is known of a sweep from its events: what was asked, in order; who waits, and who is
    over; the rounds at which attempts at trials died; the runs that trials are recorded in. Of the last
    session also when its trials ended, and how many ran when the first of them did (`full`).
    """

    begun: Begun | None = None
    sessions: int = 0
    asks: list[Ask] = field(default_factory=list)
    standing: dict[str, Outcome] = field(default_factory=dict)
    ended: dict[str, Outcome] = field(default_factory=dict)
    deaths: dict[str, list[int]] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)
    id: str | None = None
    ends: list[float] = field(default_factory=list)
    full: int = 0

    @property
    def running(self) -> int:
        """How many trials were handed out and have not ended, nor wait."""
        return len({ask.trial_id for ask in self.asks} - self.ended.keys() - self.standing.keys())

    def add(self, event: Event) -> None:
        """Take an event into account; each after all before it."""
        match event:
            case Begun():
                self.begun, self.sessions = event, self.sessions + 1
                self.ends, self.full = [], 0
                self.id = self.id or event.id
            case Asked(ask):
                self.asks.append(ask)
            case WentOn(asks):
                self.asks += asks
                for ask in asks:
                    del self.standing[ask.trial_id]
            case Ended(trial_id, outcome, at):
                self.full = self.full or self.running
                self.ends.append(at)
                self.standing.pop(trial_id, None)
                self.ended[trial_id] = outcome
            case Stood(trial_id, outcome):
                self.standing[trial_id] = outcome
            case Died(trial_id, at):
                self.deaths.setdefault(trial_id, []).append(at)
            case Recorded(trial_id, run_id):
                self.recorded[trial_id] = run_id


def replay(lines: Iterable[Line]) -> SweepState:
    """The state that a journal's lines add up to."""
    state = SweepState()
    for line in lines:
        state.add(read(line))
    return state
