"""What a journal says, as types: the events of a sweep, and the state that they add up to.

A line of a journal is an event's name under `event` beside its fields.
"""

import math
import time
from collections import Counter
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import FiniteFloat, TypeAdapter, ValidationError, with_config

from suite.formats import FORMAT
from suite.search.trial import InitialConfiguration, TrialRequest
from suite.studies.study import Study
from suite.sweeps.journal.file import END, broken, parsed, raw_lines, shortened
from trials.run.outcome import Status, TrialKind, reason
from trials.run.result import TrialResult
from trials.run.trial_id import REPEATS, TrialId

if TYPE_CHECKING:
    from suite.search.sweep_search import SweepSearch  # which loads the samplers

Line = Mapping[str, Any]
Warm = Mapping[str, list[InitialConfiguration]]
"""The configurations that entries start from, by entry."""


@dataclass(frozen=True)
class Begun:
    """A session of the sweep begins: its study (plain data), what its entries start from, how many of an
    entry's trials may be in flight, how many trials each entry will have, what the entries are
    (by id: algorithm, data set, model, level, and the metric they are ranked by). `id` tells the sweep from
    others of its name.
    """

    name: ClassVar = "begin"
    study_name: str
    study: Mapping[str, Any]
    lag: int
    warm: Warm
    planned: Mapping[str, int]
    id: str
    entries: Mapping[str, Mapping[str, str]]
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        study_name: str,
        study: Study,
        search: "SweepSearch",
        warm: Warm,
        id: str,
        versions: Mapping[str, str],
    ) -> Self:
        """A session of this search."""
        entries = {of.entry.id: of.entry.about() for of in search.firsts}
        content = study.model_dump(mode="json")
        planned = dict(search.planned_by_entry)
        return cls(study_name, content, search.lag, warm, planned, id, entries, versions)

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled: versions are fields of their own."""
        own = {key: value for key, value in vars(self).items() if key != "versions"}
        warm = {entry: [asdict(known) for known in given] for entry, given in self.warm.items()}
        return {"format": FORMAT, **own, "warm": warm, **self.versions}


@dataclass(frozen=True)
class Requested:
    """A trial was handed out for the first time."""

    name: ClassVar = "request"
    request: TrialRequest

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled."""
        return self.request.fields()


@dataclass(frozen=True)
class Ended:
    """A trial is over; `test_score` needs all of its history."""

    name: ClassVar = "end"
    trial_id: str
    outcome: TrialResult
    at: float = field(default_factory=lambda: round(time.time(), 3))
    test_score: float | None = None

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled: of the outcome those that are not empty."""
        told = {key: value for key, value in asdict(self.outcome).items() if value}
        scored = {} if self.test_score is None else {"test_score": self.test_score}
        return {"trial_id": self.trial_id, "at": self.at, **scored, **told}


@dataclass(frozen=True)
class _AsIs:
    """An event that is journaled as it is."""

    def fields(self) -> dict[str, Any]:
        """The event's fields as journaled."""
        return asdict(self)


@with_config(extra="forbid")
@dataclass(frozen=True)
class Died(_AsIs):
    """An attempt at a trial died at a round; it is started again."""

    name: ClassVar = "died"
    trial_id: str
    round: int
    error: str


@with_config(extra="forbid")
@dataclass(frozen=True)
class Recorded(_AsIs):
    """A trial that is over has its run in the tracking store."""

    name: ClassVar = "recorded"
    trial_id: str
    run_id: str


@with_config(extra="forbid")
@dataclass(frozen=True)
class Chosen(_AsIs):
    """How scenarios are computed, as it was measured; `suite.execution.autotune`."""

    name: ClassVar = "chosen"
    executions: Mapping[str, str]


@with_config(extra="forbid")
@dataclass(frozen=True)
class Cut(_AsIs):
    """The search ends early, for a deadline: how many trials each entry will have instead."""

    name: ClassVar = "cut"
    planned: Mapping[str, int]


Event = Begun | Requested | Ended | Died | Recorded | Chosen | Cut


@with_config(extra="forbid")
@dataclass(kw_only=True)
class _EndLine(TrialResult):
    """The fields of a line that ends a trial."""

    trial_id: str
    at: float
    test_score: FiniteFloat | None = None
    status: Status = field()
    history: list[dict[str, int | float]] = field(default_factory=list)

    def event(self) -> Ended:
        told = vars(self)
        trial_id, at, score = (told.pop(name) for name in ("trial_id", "at", "test_score"))
        return Ended(trial_id, TrialResult(**told), at, score)


_FORMS: dict[str, TypeAdapter[Any]] = {
    Requested.name: TypeAdapter(TrialRequest),
    Ended.name: TypeAdapter(_EndLine),
    **{kind.name: TypeAdapter(kind) for kind in (Begun, Died, Recorded, Chosen, Cut)},
}
"""What the fields of a line must be, by the name of its event."""
_NAMED = b'{"event":"'


def _event(found: Any) -> Event:
    if isinstance(found, _EndLine):
        return found.event()
    return Requested(found) if isinstance(found, TrialRequest) else found


def read(line: Line) -> Event:
    """The event of a journal's line; raises `ValueError` for what is none, or one of a later version."""
    name, fields = line.get("event"), {key: value for key, value in line.items() if key != "event"}
    if not isinstance(name, str) or name not in _FORMS:
        raise ValueError(f"{name!r} is no event of this version of suite")
    try:
        return _event(_FORMS[name].validate_python(fields))
    except ValueError:
        raise ValueError(f"its fields are not those of the event {name!r}") from None


def read_raw(path: Path, number: int, raw: bytes) -> Event:
    """The event of a line's bytes: most are taken apart and checked in one go. Raises `UserError` for what is
    none.
    """
    name = raw[len(_NAMED) : raw.find(b'"', len(_NAMED))].decode(errors="replace")
    if raw.startswith(_NAMED) and name in _FORMS and name != Begun.name:
        with suppress(ValidationError):
            rest = raw[len(_NAMED) + len(name) + 2 :]
            return _event(_FORMS[name].validate_json(b"{" + rest))
    line = parsed(path, number, raw)
    try:
        return read(line)
    except ValueError as error:
        raise broken(str(path), number, str(error)) from None


@dataclass
class Tally:
    """The trials of an entry: which are handed out and not over, how many of the search's, confirming ones
    among them, ended of each kind and status, and the validation score of each search trial that was requested (None: it is not over; NaN: it did not run to its end
    at full rounds).
    """

    open: set[str] = field(default_factory=set)
    ended: Counter[tuple[TrialKind, Status]] = field(default_factory=Counter)
    scores: dict[str, float | None] = field(default_factory=dict)


@dataclass
class SweepState:
    """The state of a sweep, rebuilt from its events.

    It holds the requests in order, the trials that ended and their `test_scores`, the rounds at which attempts died, the run that records each trial,
    the measured execution of each scenario, and how many trials each entry will have (`planned`). Of the last
    session it holds when trials ended, and how many ran when the first of them did (`full`). `requested` has each trial's
    last request, `finals` the runs that repeat the best configuration, by search, `tallies` the entries that have
    trials, `failures` (entry, trial, status, reason) of trials that diverged, failed or died, and `seconds` the total
    time of trials.
    """

    begun: Begun | None = None
    sessions: int = 0
    requests: list[TrialRequest] = field(default_factory=list)
    ended: dict[str, TrialResult] = field(default_factory=dict)
    test_scores: dict[str, float] = field(default_factory=dict)
    deaths: dict[str, list[int]] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)
    executions: dict[str, str] = field(default_factory=dict)
    id: str | None = None
    ends: list[float] = field(default_factory=list)
    full: int = 0
    planned: Mapping[str, int] = field(default_factory=dict)

    requested: dict[str, TrialRequest] = field(default_factory=dict, repr=False)
    finals: dict[str, list[TrialRequest]] = field(default_factory=dict, repr=False)
    tallies: dict[str, Tally] = field(default_factory=dict)
    failures: list[tuple[str, str, str, str]] = field(default_factory=list)
    seconds: float = 0.0

    _counts: Counter[str] = field(default_factory=Counter, repr=False)

    @property
    def running(self) -> int:
        """How many trials were handed out and have not ended."""
        return len(self.requested.keys() - self.ended.keys())

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
                self.planned = event.planned
                self.ends, self.full = [], 0
                self.id = event.id
            case Requested(request):
                self._may_ask(request)
                self.requests.append(request)
                self.requested[request.trial_id] = request
                tally = self.tallies.setdefault(request.entry_id, Tally())
                tally.open.add(request.trial_id)
                if request.kind == TrialKind.SEARCH:
                    tally.scores[request.trial_id] = None
                if request.kind == TrialKind.FINAL:
                    self._supersede(request)
            case Ended(trial_id, outcome, at, score):
                self._must_be_open(trial_id)
                self.full = self.full or self.running
                self.ends.append(at)
                self.ended[trial_id] = outcome
                if score is not None:
                    self.test_scores[trial_id] = score
                self._count(self.requested[trial_id], outcome)
            case Died(trial_id, at, error):
                self._must_be_open(trial_id)
                self.deaths.setdefault(trial_id, []).append(at)
                self._fail(trial_id, f"died at round {at}", reason(error))
            case Recorded(trial_id, run_id):
                if trial_id not in self.ended:
                    raise ValueError(f"trial {trial_id} has not ended")
                self.recorded[trial_id] = run_id
            case Chosen(executions):
                self.executions |= executions
            case Cut(planned):
                self.planned = planned

    def _count(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Count a trial that is over."""
        tally, status = self.tallies[request.entry_id], outcome.status
        tally.open.discard(request.trial_id)
        if request.kind.counted:
            tally.ended[request.kind, status] += 1
        self.seconds += outcome.seconds
        if request.kind == TrialKind.SEARCH:
            done = status == Status.FINISHED and outcome.value is not None
            tally.scores[request.trial_id] = outcome.value if done else math.nan
        if status in (Status.FAILED, Status.DIVERGED):
            self._fail(request.trial_id, status, outcome.fault)

    def _fail(self, trial_id: str, how: str, why: str) -> None:
        entry_id = self.requested[trial_id].entry_id
        self.failures.append((entry_id, trial_id, str(how), why[:300]))

    def take(self, path: Path, number: int, raw: bytes) -> Event:
        """Take a line of a journal into account; raises `UserError` for one that cannot come next."""
        event = read_raw(path, number, raw)
        try:
            self.add(event)
        except ValueError as error:
            raise broken(str(path), number, str(error)) from None
        return event

    def _may_ask(self, request: TrialRequest) -> None:
        """A search trial once, in the order of its entry's; a run that repeats one until it has ended:
        one that is not over is asked for anew where it is wanted again.
        """
        own, name = TrialId.parse(request.trial_id), request.trial_id
        such = (own.entry_id, own.replicate, own.kind)
        if such != (request.entry_id, request.replicate, request.kind):
            raise ValueError(f"{name} is no id of such a trial")
        if name in (self.ended if request.kind in REPEATS else self.requested):
            raise ValueError(f"trial {name} was asked for before")
        if request.kind != TrialKind.SEARCH:
            if request.source not in self.requested:
                raise ValueError(f"{request.source}, which it repeats, was not asked for")
            return
        first = self._counts[request.search]
        if not request.index == own.index == first:
            raise ValueError(f"trial {first} of its entry was not asked for")
        self._counts[request.search] += 1

    def _supersede(self, request: TrialRequest) -> None:
        """Forget the runs whose place another configuration's now take: of a sweep that grew, or chose again."""
        group = self.finals.setdefault(request.search, [])
        if group and group[0].source != request.source:
            group.clear()
        group.append(request)

    def _must_be_open(self, trial_id: str) -> None:
        if trial_id not in self.requested:
            raise ValueError(f"trial {trial_id} was not asked for")
        if trial_id in self.ended:
            raise ValueError(f"trial {trial_id} has ended before")


def outcomes(path: Path, trial_ids: Container[str]) -> dict[str, TrialResult]:
    """How these trials of a journal ended, with all that they reported."""
    found = {}
    for number, raw in raw_lines(path):
        if raw.startswith(END):
            event = read_raw(path, number, raw)
            if isinstance(event, Ended) and event.trial_id in trial_ids:
                found[event.trial_id] = event.outcome
    return found


def replay(path: Path, brief: bool = False) -> SweepState:
    """The state that a journal's lines add up to, `brief` with the last evaluation alone of each trial's. Raises
    `UserError` for the first line that cannot be where it is.
    """
    state = SweepState()
    for number, raw in raw_lines(path):
        state.take(path, number, shortened(raw) if brief else raw)
    return state


def outcome(path: Path, trial_id: str) -> TrialResult | None:
    """How one trial of a journal ended; None where it has not. Only lines that name it are parsed."""
    named = f'"{trial_id}"'.encode()
    for number, raw in raw_lines(path):
        if raw.startswith(END) and named in raw:
            event = read_raw(path, number, raw)
            if isinstance(event, Ended) and event.trial_id == trial_id:
                return event.outcome
    return None
