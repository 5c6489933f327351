"""A sweep's journal: what was asked, what ended, what is recorded; events, one fsynced line of JSON each.

It is the only thing that a resumed sweep is rebuilt from. One process writes it at a time, which a lock on a file beside it
enforces; a line torn by a crash is cut off by the next one.
"""

import errno
import fcntl
import math
import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from suite.execution.stop_signal import HaltedError
from suite.formats import FORMAT, check_format
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from suite.studies.replicates import finals_of
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.scoring.metrics import TASKS

START, CURVE = b'{"event":"begin",', b'{"event":"curve",'
"""The first bytes of a sweep's journal, which no other file has, and of a line with a trial's curve."""
OUTCOME = re.compile(rb'\{"event":"(?:curve|end)","trial_id":"([^"]+)"')
"""The beginning of a line about the end of a trial, with the trial's id."""
LOCK = "journal.lock"
"""The file beside a journal that its writer has locked."""
TRIES, PAUSE = 200, 0.002
"""How often, and at which interval in seconds, a writer tries to lock a journal: watchers lock it for a moment."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Begun(_Event):
    """A process begins or resumes the sweep. `lag` trials of an entry may be in flight. `id` differs between sweeps of one
    name. `code` is the SHA-256 of third parties' code, by name.
    """

    event: Literal["begin"] = "begin"
    format: int = Field(FORMAT, ge=FORMAT, le=FORMAT)
    study_name: str
    study: dict[str, Any]
    lag: int
    warm: Mapping[str, list[InitialConfiguration]] = {}
    planned: Mapping[str, int]
    id: str
    entries: Mapping[str, Mapping[str, str]]
    code: dict[str, str] = {}
    versions: dict[str, str] = {}
    at: float = Field(default_factory=time.time)


class Requested(_Event):
    """A trial was handed out for the first time."""

    event: Literal["request"] = "request"
    request: TrialRequest


class Evaluated(_Event):
    """All evaluations of a trial; the next line is its end. Most readers skip it."""

    event: Literal["curve"] = "curve"
    trial_id: str
    history: list[dict[str, int | float]]


class Ended(_Event):
    """A trial is over. Its outcome has only the last evaluation of the history."""

    event: Literal["end"] = "end"
    trial_id: str
    outcome: TrialResult
    at: float = Field(default_factory=time.time)


class Died(_Event):
    """An attempt at a trial died at a round; it is started again. `killed`: its code raised nothing."""

    event: Literal["died"] = "died"
    trial_id: str
    round: int
    error: str
    killed: bool = False


class Recorded(_Event):
    """A trial that is over has its run in the tracking store; "": it was refused."""

    event: Literal["recorded"] = "recorded"
    trial_id: str
    run_id: str


class Ranked(_Event):
    """The row of an entry on the leaderboard has its run in the tracking store; "": it was refused."""

    event: Literal["ranked"] = "ranked"
    entry_id: str
    run_id: str


class Cut(_Event):
    """The search ends early, as `why` says: how many trials each entry will have instead."""

    event: Literal["cut"] = "cut"
    planned: Mapping[str, int]
    why: str = ""


Event = Begun | Requested | Evaluated | Ended | Died | Recorded | Ranked | Cut
EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def ended(trial_id: str, outcome: TrialResult, **more: Any) -> list[Event]:
    """Return the events by which a trial ends: its curve, where it has one, and its end."""
    last = replace(outcome, history=outcome.history[-1:])
    end = Ended(trial_id=trial_id, outcome=last, **more)
    if not outcome.history:
        return [end]
    return [Evaluated(trial_id=trial_id, history=outcome.history), end]


@dataclass
class SweepState:
    """A sweep's state as read from its journal. A resume starts from it; terminal, `suite status` and pages show it.

    Of how a trial `ended` it has what the search goes by; `outcomes` reads the rest. `requests` has each trial's last one,
    in the order in which trials were first asked for, `recorded` its run in MLflow, `finals` the runs that repeat the best
    configuration, by search. By entry, `planned` is how many trials it will have, `tallies` how many of its search ended, by
    kind and status, `best` the best score at full rounds, and `rows` the run of its row. `began` is when the first session did.
    No journal has the round and score of each `running` trial, since when trials run, and how many had `ended_before`.
    """

    begun: Begun | None = None
    began: float = 0.0
    planned: Mapping[str, int] = field(default_factory=dict)
    cut: str = ""
    requests: dict[str, TrialRequest] = field(default_factory=dict)
    ended: dict[str, ValidationResult] = field(default_factory=dict)
    deaths: dict[str, list[int]] = field(default_factory=dict)
    kills: int = 0
    recorded: dict[str, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    finals: dict[str, list[TrialRequest]] = field(default_factory=dict)
    tallies: dict[str, Counter[Any]] = field(default_factory=lambda: defaultdict(Counter))
    best: dict[str, float] = field(default_factory=dict)
    looks: list[int] = field(default_factory=list)

    running: dict[str, tuple[int, float | None]] = field(default_factory=dict)
    since: float = math.inf
    ended_before: int = 0

    lines: int = 0
    offset: int = 0
    _searched: Counter[str] = field(default_factory=Counter)
    _curve: list[dict[str, int | float]] | None = None
    """The curve in the line before, None where there is none; [] where it is not used."""

    def read(self, path: Path) -> Self:
        """Read the whole lines of a journal that were not read yet. Raises `UserError` for the first that cannot be there."""
        for number, raw in _lines(path, self.lines, self.offset):
            if raw.startswith(CURVE):
                self._curve = []  # parsing curves would take most of the time
            else:
                try:
                    self.add(EVENTS.validate_json(raw))
                except ValueError as error:
                    raise broken(path, number, error) from None
            self.lines, self.offset = number, self.offset + len(raw)
        return self

    def add(self, event: Event) -> None:
        """Take an event into account. Raises `ValueError` for one that cannot come next, and then nothing has changed."""
        if self.begun is None and not isinstance(event, Begun):
            raise ValueError("the sweep has not begun")
        if isinstance(event, Evaluated | Ended | Died) and (
            event.trial_id not in self.requests or event.trial_id in self.ended
        ):
            raise ValueError(f"trial {event.trial_id} does not run here")
        match event:
            case Begun():
                if self.begun is not None:
                    seen = finals_of(self.begun.study)
                    drawn = len(self.current_finals & self.ended.keys())
                    if drawn >= seen * len(self.begun.entries) and finals_of(event.study) > seen:
                        self.looks.append(seen)
                self.begun, self.planned, self.cut = event, event.planned, ""
                self.began, self.ended_before = self.began or event.at, len(self.ended)
            case Requested():
                self._request(event.request)
            case Ended():
                self._end(event.trial_id, event.outcome)
            case Died():
                self.running.pop(event.trial_id, None)
                self.kills += event.killed
                if not event.killed:
                    self.deaths.setdefault(event.trial_id, []).append(event.round)
            case Recorded():
                if event.trial_id not in self.ended:
                    raise ValueError(f"trial {event.trial_id} has not ended")
                self.recorded[event.trial_id] = event.run_id
            case Ranked():
                self.rows[event.entry_id] = event.run_id
            case Cut():
                self.planned, self.cut = event.planned, event.why
        self._curve = event.history if isinstance(event, Evaluated) else None

    def report(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Take the report of a running trial, which is empty when it only begins."""
        assert self.begun is not None
        metric = self.begun.entries[request.entry_id]["metric"]
        self.running[request.trial_id] = outcome.last_round, outcome.last(f"val_{metric}")
        self.since = min(self.since, time.monotonic())

    def _request(self, request: TrialRequest) -> None:
        # Search trials come once, in their order; what repeats one may be asked for anew until it has ended.
        assert self.begun is not None
        searched, trial_id = request.kind == TrialKind.SEARCH, request.trial_id
        expected = self._searched[request.search]
        misplaced = request.index != expected if searched else trial_id in self.ended
        if misplaced or request.entry_id not in self.begun.entries:
            raise ValueError(f"trial {trial_id} cannot be asked for here")
        self.requests[trial_id] = request
        self._searched[request.search] += searched
        if request.kind == TrialKind.FINAL:
            # A sweep that grew, or chose again, repeats another configuration in place of the former one.
            group = self.finals.setdefault(request.search, [])
            if group and group[0].source != request.source:
                group.clear()
            group.append(request)

    def _end(self, trial_id: str, outcome: TrialResult) -> None:
        assert self.begun is not None
        self.running.pop(trial_id, None)
        if outcome.history and self._curve is None:
            raise ValueError(f"the line before has no curve of trial {trial_id}")
        whole = replace(outcome, history=self._curve or outcome.history)
        end, study = ValidationResult.of(whole), self.begun.study
        if study.get("scheduler") == "none":  # only what stops trials looks at them
            end = replace(end, intermediates={})
        if not study.get("constraints"):
            end = replace(end, spent={})
        self.ended[trial_id] = end
        request = self.requests[trial_id]
        if not request.counted:
            return
        entry_id = request.entry_id
        self.tallies[entry_id][request.kind, end.status] += 1
        full = request.kind == TrialKind.SEARCH and end.status == Status.FINISHED
        if full and end.value is not None and math.isfinite(end.value):
            better = max if TASKS[self.begun.entries[entry_id]["metric"]].sign > 0 else min
            self.best[entry_id] = better(self.best.get(entry_id, end.value), end.value)

    @property
    def current_finals(self) -> set[str]:
        """Return the final runs, requested so far, of the configurations that are best now."""
        return {request.trial_id for group in self.finals.values() for request in group}


class Journal:
    """An append-only file of JSON lines, and the `state` that they add up to. One process owns it until it is closed. One
    thread at a time has its `lock`.
    """

    def __init__(self, path: Path, state: SweepState) -> None:
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.state, self.lock = state, threading.Lock()
        self.path, self._fault, self._owned = path, "", path.with_name(LOCK).open("ab")
        for _ in range(TRIES):
            with suppress(OSError):
                fcntl.flock(self._owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(PAUSE)
        else:
            self._owned.close()
            ways = "let it end, or choose another --name"
            raise UserError(f"another process is running this sweep ({path} is locked): {ways}")
        self._file = path.open("ab", buffering=0)
        # What another process wrote before the lock was this one's is taken in, and what it left torn is cut off.
        self._file.truncate(state.read(path).offset)

    def write(self, *events: Event) -> None:
        """Append events, and add them to the state once they have reached the disk. Raises `HaltedError` when the disk
        does not take them, and from then on always, so that a torn line stays last.
        """
        text = "".join(f"{event.model_dump_json()}\n" for event in events).encode()
        with self.lock:
            if not self._fault:
                try:
                    if os.write(self._file.fileno(), text) < len(text):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(self._file.fileno())
                except OSError as error:
                    self._fault = f"journal {self.path} cannot be written: {error.strerror}"
            if self._fault:
                raise HaltedError(self._fault)
            for event in events:
                self.state.add(event)

    def close(self) -> None:
        """Give up the lock."""
        self._file.close()
        self._owned.close()


def is_locked(journal: Path) -> bool:
    """Return whether a process is writing a journal, as far as this machine can see."""
    try:
        with journal.with_name(LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return False


def first_line(journal: Path) -> bytes:
    """Return the first line; nothing where there is no file."""
    with suppress(OSError), journal.open("rb") as file:
        return file.readline()
    return b""


def begun(journal: Path) -> bool:
    """Return whether a sweep's first event is in this journal."""
    first = first_line(journal)
    return first.startswith(START) and first.endswith(b"\n")


def check_first(journal: Path) -> dict[str, Any]:
    """Return the first line as plain data, {} where that is no sweep's. Raises `FormatError` for one of another version."""
    line = dict[str, Any]()
    with suppress(ValueError):  # which is said by who reads all of it
        line = from_json(first_line(journal)) if begun(journal) else {}
    if line:
        check_format(f"sweep {journal.parent.name}", line.get("format"), "choose another --name")
    return line


def broken(path: Path, number: int, error: ValueError) -> UserError:
    """Return an error that names a line which no sweep wrote there."""
    fault = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        fault = "".join(f"{part}: " for part in first["loc"]) + first["msg"]
    line = f"journal {path}, line {number}: {fault}"
    return UserError(f"{line}. It is damaged, or a later version of suite wrote it")


def outcomes(path: Path, trial_ids: Collection[str]) -> Iterator[tuple[str, TrialResult]]:
    """Yield these trials of a journal with their ends and all their reports."""
    history: list[dict[str, int | float]] = []
    for number, raw in _lines(path) if trial_ids else ():
        start = OUTCOME.match(raw)  # the rest of a line is parsed where it is wanted alone
        if start is None or start[1].decode() not in trial_ids:
            continue
        try:
            event = EVENTS.validate_json(raw)
        except ValueError as error:
            raise broken(path, number, error) from None
        if isinstance(event, Evaluated):
            history = event.history
        elif isinstance(event, Ended):
            whole = history if event.outcome.history else []
            yield event.trial_id, replace(event.outcome, history=whole)


def _lines(path: Path, before: int = 0, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each whole line from an offset on, given the number of lines before it."""
    with path.open("rb") as file:
        file.seek(offset)
        for number, raw in enumerate(file, before + 1):
            if raw.endswith(b"\n"):
                yield number, raw
