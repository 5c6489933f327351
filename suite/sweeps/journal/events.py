"""What a journal says, as types: the events of a sweep, one a line, and the state that they add up to."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from suite.formats import FORMAT, check_format
from suite.search.trial import InitialConfiguration, TrialRequest
from suite.sweeps.journal.file import START, first_line
from trials.common.errors import UserError
from trials.run.outcome import REPEATS, Status, TrialId, TrialKind, TrialResult
from trials.scoring.metrics import TASKS

Warm = Mapping[str, list[InitialConfiguration]]
"""The configurations that entries start from, by entry."""
CURVE, END = b'{"event":"curve",', b'{"event":"end",'
"""The first bytes of a line with a trial's curve, and of the one that follows it."""
FEW = 8
"""For so many trials at most a journal is searched by their names before its lines are parsed."""


def _now() -> float:
    return round(time.time(), 3)


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Begun(_Event):
    """A session of the sweep begins: its study (plain data), what its entries start from, how many of an
    entry's trials may be in flight, how many trials each entry will have, what the entries are
    (by id: algorithm, data set, model, level, and the metric they are ranked by). `id` tells the sweep from
    others of its name.
    """

    event: Literal["begin"] = "begin"
    format: int = Field(FORMAT, ge=FORMAT, le=FORMAT)
    study_name: str
    study: dict[str, Any]
    lag: int
    warm: Warm = {}
    planned: Mapping[str, int]
    id: str
    entries: Mapping[str, Mapping[str, str]]
    versions: Mapping[str, str] = {}
    at: float = Field(default_factory=_now)


class Requested(_Event):
    """A trial was handed out for the first time."""

    event: Literal["request"] = "request"
    request: TrialRequest


class Evaluated(_Event):
    """All evaluations of a trial, whose end is the next line. Most readers skip it."""

    event: Literal["curve"] = "curve"
    trial_id: str
    history: list[dict[str, int | float]]


class Ended(_Event):
    """A trial is over; of its history the outcome has the last evaluation."""

    event: Literal["end"] = "end"
    trial_id: str
    outcome: TrialResult
    at: float = Field(default_factory=_now)


class Died(_Event):
    """An attempt at a trial died at a round; it is started again. `killed`: its code raised nothing."""

    event: Literal["died"] = "died"
    trial_id: str
    round: int
    error: str
    killed: bool = False


class Recorded(_Event):
    """A trial that is over has its run in the tracking store."""

    event: Literal["recorded"] = "recorded"
    trial_id: str
    run_id: str


class Cut(_Event):
    """The search ends early, for a deadline: how many trials each entry will have instead."""

    event: Literal["cut"] = "cut"
    planned: Mapping[str, int]


Event = Begun | Requested | Evaluated | Ended | Died | Recorded | Cut
_EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def ended(trial_id: str, outcome: TrialResult, **more: Any) -> list[Event]:
    """Return the events by which a trial ends: its curve, where it has one, and its end."""
    last = replace(outcome, history=outcome.history[-1:])
    end = Ended(trial_id=trial_id, outcome=last, **more)
    if not outcome.history:
        return [end]
    return [Evaluated(trial_id=trial_id, history=outcome.history), end]


def check_first(path: Path) -> dict[str, Any]:
    """Return the first line of a journal as plain data, {} where that is none of a sweep's. Raises `FormatError` where
    another version of the suite wrote it.
    """
    raw = first_line(path)
    try:
        line = from_json(raw) if raw.startswith(START) else {}
    except ValueError:  # which is said by who reads all of it
        return {}
    if line:
        check_format(f"sweep {path.parent.name}", line.get("format"), "choose another --name")
    return dict(line)


def read(path: Path, number: int, raw: bytes) -> Event:
    """Return the event of a line. Raises `UserError` where it is none."""
    try:
        return _EVENTS.validate_json(raw)
    except ValidationError as error:
        first = error.errors()[0]
        fault = f"its fields are not those of the event {first['loc'][0]!r}" if first["loc"] else ""
        if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
            fault = f"{first['input'].get('event')!r} is no event of this version of suite"
        raise broken(path, number, fault or "it is no JSON object") from None


def broken(path: Path, number: int, fault: str) -> UserError:
    """Return the error for a line that a sweep did not write there."""
    return UserError(
        f"journal {path}, line {number}: {fault}. It is damaged, or a later version of suite wrote it"
    )


@dataclass
class EntryTally:
    """What the search of an entry came to: how many of its trials ended, by kind and status, confirming ones
    among them; how many ran to their end at full rounds, and the best validation score of those.
    """

    ended: Counter[tuple[TrialKind, Status]] = field(default_factory=Counter)
    scored: int = 0
    best: float | None = None


@dataclass
class SweepState:
    """A sweep as far as its journal was read: what it is resumed from, and what its terminal, `suite status` and
    pages are drawn from.

    Of each trial's history it has the last evaluation alone; `outcomes` reads the rest. `requests` are in order;
    `requested` has each trial's last one, `finals` the runs that repeat the best configuration, by search. By entry, `planned` is how many trials it will have.
    `began` is when the first session did, `seconds` the time of all trials.
    """

    id: str | None = None
    begun: Begun | None = None
    began: float = 0.0
    sessions: int = 0
    planned: Mapping[str, int] = field(default_factory=dict)
    requests: list[TrialRequest] = field(default_factory=list)
    requested: dict[str, TrialRequest] = field(default_factory=dict)
    ended: dict[str, TrialResult] = field(default_factory=dict)
    deaths: dict[str, list[int]] = field(default_factory=dict)
    kills: int = 0
    recorded: dict[str, str] = field(default_factory=dict)

    finals: dict[str, list[TrialRequest]] = field(default_factory=dict)
    tallies: dict[str, EntryTally] = field(default_factory=lambda: defaultdict(EntryTally))
    seconds: float = 0.0

    lines: int = 0
    offset: int = 0
    _after_curve: bool = False

    def read(self, path: Path) -> Self:
        """Take in what a journal has beyond the `lines` that were read, but for a last one that is not whole.

        Raises `UserError` for the first line that cannot be where it is, and again when it is read again.
        """
        with path.open("rb") as file:
            file.seek(self.offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                self._take(path, raw)
                self.lines, self.offset = self.lines + 1, self.offset + len(raw)
        return self

    def _take(self, path: Path, raw: bytes) -> None:
        if raw.startswith(CURVE):
            # Parsing the curves would take most of the time, and nothing here is made of them.
            self._after_curve = True
            return
        event = read(path, self.lines + 1, raw)
        try:
            self.add(event)
        except ValueError as error:
            raise broken(path, self.lines + 1, str(error)) from None

    def add(self, event: Event) -> None:
        """Take an event into account; each after all before it. Raises `ValueError` for one that cannot
        come next, and then nothing has changed.
        """
        if self.begun is None and not isinstance(event, Begun):
            raise ValueError("the sweep has not begun")
        match event:
            case Begun():
                if self.id not in (None, event.id):
                    raise ValueError("it is of another sweep")
                self.begun, self.sessions = event, self.sessions + 1
                self.planned, self.id = event.planned, event.id
                self.began = self.began or event.at
            case Requested():
                self._request(event.request)
            case Evaluated():
                self._must_be_open(event.trial_id)
            case Ended():
                self._end(event.trial_id, event.outcome)
            case Died():
                self._must_be_open(event.trial_id)
                if event.killed:
                    self.kills += 1
                else:
                    self.deaths.setdefault(event.trial_id, []).append(event.round)
            case Recorded():
                if event.trial_id not in self.ended:
                    raise ValueError(f"trial {event.trial_id} has not ended")
                self.recorded[event.trial_id] = event.run_id
            case Cut():
                self.planned = event.planned
        self._after_curve = isinstance(event, Evaluated)

    def _request(self, request: TrialRequest) -> None:
        """Take a request in: of a search trial once, in the order of its entry's; of a run that repeats one until
        it has ended, since one that is not over is asked for anew where it is wanted again.
        """
        own, name = TrialId.parse(request.trial_id), request.trial_id
        searched = request.kind == TrialKind.SEARCH
        index = request.index if searched else own.index
        such = (request.entry_id, request.replicate, request.kind, index)
        if such != (own.entry_id, own.replicate, own.kind, own.index):
            raise ValueError(f"{name} is no id of such a trial")
        if name in (self.ended if request.kind in REPEATS else self.requested):
            raise ValueError(f"trial {name} was asked for before")
        if searched:
            before = f"{request.search}-s{index - 1:04d}"
            if index and before not in self.requested:
                raise ValueError(f"{before}, which comes before it, was not asked for")
        elif request.source not in self.requested:
            raise ValueError(f"{request.source}, which it repeats, was not asked for")
        self.requests.append(request)
        self.requested[name] = request
        if request.kind == TrialKind.FINAL:
            # A sweep that grew, or chose again, repeats another configuration in place of the former one.
            group = self.finals.setdefault(request.search, [])
            if group and group[0].source != request.source:
                group.clear()
            group.append(request)

    def _end(self, trial_id: str, outcome: TrialResult) -> None:
        self._must_be_open(trial_id)
        if outcome.history and not self._after_curve:
            raise ValueError(f"the line before has no curve of trial {trial_id}")
        # An object that pydantic made takes twice the memory of this one.
        outcome = self.ended[trial_id] = replace(outcome)
        self.seconds += outcome.seconds
        request = self.requested[trial_id]
        if not request.counted:
            return
        tally = self.tallies[request.entry_id]
        tally.ended[request.kind, outcome.status] += 1
        score = outcome.value
        if request.kind == TrialKind.SEARCH and outcome.status == Status.FINISHED:
            assert self.begun is not None
            about = self.begun.entries.get(request.entry_id)
            if about is not None and score is not None and score == score:
                sign = TASKS[about["metric"]].sign
                tally.scored += 1
                if tally.best is None or sign * score > sign * tally.best:
                    tally.best = score

    def _must_be_open(self, trial_id: str) -> None:
        if trial_id not in self.requested:
            raise ValueError(f"trial {trial_id} was not asked for")
        if trial_id in self.ended:
            raise ValueError(f"trial {trial_id} has ended before")

    @property
    def current_finals(self) -> set[str]:
        """The final runs of what is best now, as far as they were asked for."""
        return {request.trial_id for group in self.finals.values() for request in group}


def sessions(path: Path) -> list[Begun]:
    """Return how a sweep's sessions began; what else a long journal holds is not taken apart."""
    begins = []
    for number, raw in _lines(path):
        if raw.startswith(START):
            event = read(path, number, raw)
            assert isinstance(event, Begun)
            begins.append(event)
    return begins


def outcomes(path: Path, trial_ids: Collection[str]) -> Iterator[tuple[str, TrialResult]]:
    """Yield these trials of a journal and how they ended, with all that they reported."""
    history: list[dict[str, int | float]] = []
    named = [trial_id.encode() for trial_id in trial_ids] if len(trial_ids) <= FEW else [b""]
    for number, raw in _lines(path) if trial_ids else ():
        if not raw.startswith((CURVE, END)) or not any(name in raw for name in named):
            continue
        event = read(path, number, raw)
        if isinstance(event, Evaluated):
            history = event.history
        elif isinstance(event, Ended):
            if event.trial_id in trial_ids:
                yield event.trial_id, replace(event.outcome, history=history)
            history = []


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each whole line."""
    with path.open("rb") as file:
        yield from ((number, raw) for number, raw in enumerate(file, 1) if raw.endswith(b"\n"))
