"""What a journal says, as types: the events of a sweep, one a line, and the state that they add up to."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from suite.formats import FORMAT, check_format
from suite.search.trial import InitialConfiguration, TrialRequest
from suite.studies.study import Study
from suite.sweeps.journal.file import START, first_line
from suite.sweeps.running import Eta
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind, reason
from trials.run.result import TrialResult
from trials.run.trial_id import REPEATS, TrialId

if TYPE_CHECKING:
    from suite.search.sweep_search import SweepSearch  # which loads the samplers

Warm = Mapping[str, list[InitialConfiguration]]
"""The configurations that entries start from, by entry."""
CURVE, END = b'{"event":"curve",', b'{"event":"end",'
"""The first bytes of a line with a trial's curve, and of the one that follows it."""
FEW = 8
"""For so many trials at most a journal is searched by their names before its lines are parsed."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Begun(_Event):
    """A session of the sweep begins: its study (plain data), what its entries start from, how many of an
    entry's trials may be in flight, how many trials each entry will have, what the entries are
    (by id: algorithm, data set, model, level, and the metric they are ranked by). `id` tells the sweep from
    others of its name.
    """

    event: Literal["begin"] = "begin"
    format: int = FORMAT
    study_name: str
    study: dict[str, Any]
    lag: int
    warm: Warm = {}
    planned: Mapping[str, int]
    id: str
    entries: Mapping[str, Mapping[str, str]]
    versions: Mapping[str, str] = {}

    @classmethod
    def of(cls, study: Study, search: "SweepSearch", **more: Any) -> Self:
        """Return the event of a session of this search."""
        return cls(
            study=study.model_dump(mode="json"),
            lag=search.lag,
            planned=dict(search.planned_by_entry),
            entries={first.entry.id: first.entry.about() for first in search.firsts},
            **more,
        )


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
    """A trial is over; of its history the outcome has the last evaluation. `test_score` needs all of it."""

    event: Literal["end"] = "end"
    trial_id: str
    outcome: TrialResult
    at: float = Field(default_factory=lambda: round(time.time(), 3))
    test_score: FiniteFloat | None = None


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
    return (
        [Evaluated(trial_id=trial_id, history=outcome.history), end] if outcome.history else [end]
    )


class _Format(BaseModel):
    format: Any = None


def check_begin(path: Path, raw: bytes) -> None:
    """Raise `FormatError` where another version began a session with this line, if one begins with it."""
    if raw.startswith(START):
        found = _Format.model_validate_json(raw).format
        check_format(f"sweep {path.parent.name}", found, "choose another --name")


def check_first(path: Path) -> None:
    """Raise `FormatError` where another version of the suite began this journal."""
    with suppress(ValidationError):  # which is said by who reads all of it
        check_begin(path, first_line(path))


def read(path: Path, number: int, raw: bytes) -> Event:
    """Return the event of a line. Raises `FormatError` where a session of another version begins with it, and
    `UserError` where it is none.
    """
    try:
        check_begin(path, raw)
        return _EVENTS.validate_json(raw)
    except ValidationError as error:
        raise broken(path, number, _fault(error)) from None


def _fault(error: ValidationError) -> str:
    first = error.errors()[0]
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"{first['input'].get('event')!r} is no event of this version of suite"
    if not first["loc"]:
        return "it is no JSON object"
    return f"its fields are not those of the event {first['loc'][0]!r}"


def broken(path: Path, number: int, fault: str) -> UserError:
    """Return the error for a line that a sweep did not write there."""
    return UserError(
        f"journal {path}, line {number}: {fault}. It is damaged, or a later version of suite wrote it"
    )


@dataclass
class SweepState:
    """A sweep as far as its journal was read: what its terminal, `suite status` and pages are drawn from, and what
    it is resumed from.

    A `brief` one is read without curves, so of each trial it has the last evaluation alone. `requests` are in order;
    `requested` has each trial's last one, `finals` the runs that repeat the best configuration, by search. By entry, `planned` is how
    many trials it will have, `over` counts the trials of its search that ended, confirming ones among them, by kind and status, and `scores`
    has the validation score of each search trial (None: it is not over; NaN: it did not run to its end at full rounds).
    `failures` are (trial, status, reason) of those that diverged, failed or died, `seconds` the time of all trials.
    `eta` has the pace of the last session, in which trials ended `ends` times, at last at `last_end`.
    """

    brief: bool = False
    id: str | None = None
    begun: Begun | None = None
    sessions: int = 0
    planned: Mapping[str, int] = field(default_factory=dict)
    requests: list[TrialRequest] = field(default_factory=list)
    requested: dict[str, TrialRequest] = field(default_factory=dict)
    ended: dict[str, TrialResult] = field(default_factory=dict)
    test_scores: dict[str, float] = field(default_factory=dict)
    deaths: dict[str, list[int]] = field(default_factory=dict)
    kills: int = 0
    recorded: dict[str, str] = field(default_factory=dict)

    finals: dict[str, list[TrialRequest]] = field(default_factory=dict)
    over: dict[str, Counter[tuple[TrialKind, Status]]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    scores: dict[str, dict[str, float | None]] = field(default_factory=lambda: defaultdict(dict))
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    seconds: float = 0.0
    eta: Eta = field(default_factory=Eta)
    ends: int = 0
    last_end: float = 0.0

    lines: int = 0
    offset: int = 0
    _curve: Evaluated | bool = False

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
        if self.brief and raw.startswith(CURVE):
            self._curve = True
            return
        event = read(path, self.lines + 1, raw)
        try:
            self.add(event)
        except ValueError as error:
            raise broken(path, self.lines + 1, str(error)) from None

    @property
    def pace(self) -> float | None:
        """Trials per second in the last session; None while nobody knows."""
        return self.eta.rate(self.last_end, self.ends)

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
                self.eta, self.ends, self.last_end = Eta(), 0, 0.0
            case Requested():
                self._request(event.request)
            case Evaluated():
                self._must_be_open(event.trial_id)
            case Ended():
                self._end(event)
            case Died():
                self._must_be_open(event.trial_id)
                if event.killed:
                    self.kills += 1
                else:
                    self.deaths.setdefault(event.trial_id, []).append(event.round)
                self._fail(event.trial_id, f"died at round {event.round}", reason(event.error))
            case Recorded():
                if event.trial_id not in self.ended:
                    raise ValueError(f"trial {event.trial_id} has not ended")
                self.recorded[event.trial_id] = event.run_id
            case Cut():
                self.planned = event.planned
        self._curve = event if isinstance(event, Evaluated) else False

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
            self.scores[request.entry_id][name] = None
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

    def _end(self, event: Ended) -> None:
        trial_id, history = event.trial_id, event.outcome.history
        self._must_be_open(trial_id)
        if isinstance(self._curve, Evaluated) and self._curve.trial_id == trial_id:
            history = self._curve.history
        elif history and self._curve is not True:
            raise ValueError(f"the line before has no curve of trial {trial_id}")
        # An object that pydantic made takes twice the memory of this one.
        outcome = replace(event.outcome, history=history)
        self.eta.begin(event.at, 1.0, len(self.requested) - len(self.ended))
        self.ends, self.last_end = self.ends + 1, max(self.last_end, event.at)
        self.ended[trial_id] = outcome
        if event.test_score is not None:
            self.test_scores[trial_id] = event.test_score
        request, status = self.requested[trial_id], outcome.status
        if request.counted:
            self.over[request.entry_id][request.kind, status] += 1
        self.seconds += outcome.seconds
        if request.kind == TrialKind.SEARCH:
            done = status == Status.FINISHED and outcome.value is not None
            self.scores[request.entry_id][trial_id] = outcome.value if done else math.nan
        if status in (Status.FAILED, Status.DIVERGED):
            self._fail(trial_id, status, outcome.fault)

    def _fail(self, trial_id: str, how: str, why: str) -> None:
        self.failures.append((trial_id, str(how), why[:300]))

    def _must_be_open(self, trial_id: str) -> None:
        if trial_id not in self.requested:
            raise ValueError(f"trial {trial_id} was not asked for")
        if trial_id in self.ended:
            raise ValueError(f"trial {trial_id} has ended before")


def sessions(path: Path) -> list[Begun]:
    """Return how a sweep's sessions began; what else a long journal holds is not taken apart."""
    begins = []
    for number, raw in _lines(path):
        if raw.startswith(START):
            event = read(path, number, raw)
            assert isinstance(event, Begun)
            begins.append(event)
    return begins


def outcomes(path: Path, trial_ids: Collection[str]) -> dict[str, TrialResult]:
    """Return how these trials of a journal ended, with all that they reported."""
    results: dict[str, TrialResult] = {}
    curve: Event | None = None
    named = [trial_id.encode() for trial_id in trial_ids] if len(trial_ids) <= FEW else [b""]
    for number, raw in _lines(path):
        if raw.startswith((CURVE, END)) and any(name in raw for name in named):
            event = read(path, number, raw)
            assert isinstance(event, Evaluated | Ended)
            if isinstance(event, Ended) and event.trial_id in trial_ids:
                history = curve.history if isinstance(curve, Evaluated) else []
                results[event.trial_id] = replace(event.outcome, history=history)
            curve = event
    return results


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each whole line."""
    with path.open("rb") as file:
        yield from ((number, raw) for number, raw in enumerate(file, 1) if raw.endswith(b"\n"))
