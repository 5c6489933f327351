"""The journal of a sweep: a file of events, each a line of JSON that is flushed to the disk before the sweep goes on.

A resumed sweep is rebuilt from this file alone. A lock file beside it lets only one process write at a time. If a crash leaves
an incomplete last line, the next process that writes the journal cuts it off.
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
"""The first bytes of every journal, and of each of its lines that holds the evaluations of a trial."""
OUTCOME = re.compile(rb'\{"event":"(?:curve|end)","trial_id":"([^"]+)"')
"""Matches the beginning of a line with a trial's evaluations or its end; group 1 is the trial's id."""
LOCK = "journal.lock"
"""The name of the lock file beside a journal."""
TRIES, PAUSE = 200, 0.002
"""The number of attempts to lock a journal, and the seconds between them. `is_locked` also locks it for a moment."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Begun(_Event):
    """The start of a sweep, or its resumption. At most `lag` trials of one search run at once. `planned` has the number of
    trials by entry id. `id` distinguishes sweeps of the same name. `code` has the SHA-256 of third-party code by name.
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
    """The request for a new trial, confirming run or final run. A retry after a failure has no such event."""

    event: Literal["request"] = "request"
    request: TrialRequest


class Evaluated(_Event):
    """All evaluations of a trial that ended, on the line before its event `Ended`. Most readers skip this line, since it is long."""

    event: Literal["curve"] = "curve"
    trial_id: str
    history: list[dict[str, int | float]]


class Ended(_Event):
    """The end of a trial. The history of its outcome is cut to the last evaluation."""

    event: Literal["end"] = "end"
    trial_id: str
    outcome: TrialResult
    at: float = Field(default_factory=time.time)


class Died(_Event):
    """An attempt at a trial that failed at `round`. The trial is tried again, at the latest when the sweep is resumed.
    `killed` is true if the process died, and false if the code raised an exception.
    """

    event: Literal["died"] = "died"
    trial_id: str
    round: int
    error: str
    killed: bool = False


class Recorded(_Event):
    """The MLflow run `run_id` was created for a trial that ended. `run_id` is "" if MLflow refused the run."""

    event: Literal["recorded"] = "recorded"
    trial_id: str
    run_id: str


class Ranked(_Event):
    """The MLflow run `run_id` was created for the leaderboard row of an entry. `run_id` is "" if MLflow refused the run."""

    event: Literal["ranked"] = "ranked"
    entry_id: str
    run_id: str


class Cut(_Event):
    """An early end of the search for the reason `why`. `planned` has the new number of trials by entry id."""

    event: Literal["cut"] = "cut"
    planned: Mapping[str, int]
    why: str = ""


Event = Begun | Requested | Evaluated | Ended | Died | Recorded | Ranked | Cut
EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def ended(trial_id: str, outcome: TrialResult, **fields: Any) -> list[Event]:
    """Return the journal events for a trial's end: its evaluations, if any, then its outcome. `fields` are further fields of the last event."""
    shortened = replace(outcome, history=outcome.history[-1:])
    end = Ended(trial_id=trial_id, outcome=shortened, **fields)
    if not outcome.history:
        return [end]
    return [Evaluated(trial_id=trial_id, history=outcome.history), end]


@dataclass
class SweepState:
    """The state of a sweep according to its journal, by which the sweep is resumed and its progress is shown.

    By trial id: `requests` (in order of first request), `ended` (only what the search uses), `deaths` (rounds at which code
    raised an exception), `recorded` (MLflow runs), and `running` (round and validation score, which the journal lacks).
    By entry id: `planned` (number of trials), `tallies` (ended trials of its search by kind and status), `best` (best score
    of a finished trial), and `rows` (MLflow runs of leaderboard rows). By search: `finals` (runs that repeat its best trial).
    `looks` has the number of final runs per entry for each earlier ranking. `began` is the first session's start (Unix time).
    `ended_before` counts trials that ended before this session. `since` is the monotonic time of this session's first report.
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
    """The evaluations in the previous line, [] if they were not parsed, None if that line has no evaluations."""

    def read(self, path: Path) -> Self:
        """Update the state with the complete lines added to the journal since the last call. Raise `UserError` for an invalid line."""
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
        """Apply an event to the state. If the event cannot come next, raise `ValueError` and leave the state unchanged."""
        if self.begun is None and not isinstance(event, Begun):
            raise ValueError("the sweep has not begun")
        if isinstance(event, Evaluated | Ended | Died) and (
            event.trial_id not in self.requests or event.trial_id in self.ended
        ):
            raise ValueError(f"trial {event.trial_id} is not running at this point")
        match event:
            case Begun():
                if self.begun is not None:
                    finals, entries = finals_of(self.begun.study), len(self.begun.entries)
                    ranked = len(self.current_finals & self.ended.keys()) >= finals * entries
                    if ranked and finals_of(event.study) > finals:
                        self.looks.append(finals)
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
        """Note the latest round and validation score of a running trial. The outcome is empty when a trial starts."""
        assert self.begun is not None
        metric = self.begun.entries[request.entry_id]["metric"]
        self.running[request.trial_id] = outcome.last_round, outcome.last(f"val_{metric}")
        self.since = min(self.since, time.monotonic())

    def _request(self, request: TrialRequest) -> None:
        # A search trial is requested once, in the order of its index. A run that repeats one may be requested until it ends.
        assert self.begun is not None
        is_search, trial_id = request.kind == TrialKind.SEARCH, request.trial_id
        expected = self._searched[request.search]
        misplaced = request.index != expected if is_search else trial_id in self.ended
        if misplaced or request.entry_id not in self.begun.entries:
            raise ValueError(f"trial {trial_id} cannot be requested at this point")
        self.requests[trial_id] = request
        self._searched[request.search] += is_search
        if request.kind == TrialKind.FINAL:
            # A sweep that grew may have another best configuration, whose final runs replace the former ones.
            group = self.finals.setdefault(request.search, [])
            if group and group[0].source != request.source:
                group.clear()
            group.append(request)

    def _end(self, trial_id: str, outcome: TrialResult) -> None:
        assert self.begun is not None
        if outcome.history and self._curve is None:
            raise ValueError(f"the previous line has no evaluations of trial {trial_id}")
        self.running.pop(trial_id, None)
        whole = replace(outcome, history=self._curve or outcome.history)
        result, study = ValidationResult.of(whole), self.begun.study
        if study.get("scheduler") == "none":  # only schedulers use them
            result = replace(result, intermediates={})
        if not study.get("constraints"):
            result = replace(result, spent={})
        self.ended[trial_id] = result
        request = self.requests[trial_id]
        if not request.counted:
            return
        entry_id = request.entry_id
        self.tallies[entry_id][request.kind, result.status] += 1
        finished = request.kind == TrialKind.SEARCH and result.status == Status.FINISHED
        if finished and result.value is not None and math.isfinite(result.value):
            better = max if TASKS[self.begun.entries[entry_id]["metric"]].sign > 0 else min
            self.best[entry_id] = better(self.best.get(entry_id, result.value), result.value)

    @property
    def current_finals(self) -> set[str]:
        """Return the ids of the requested final runs of each search's current best configuration."""
        return {request.trial_id for group in self.finals.values() for request in group}


class Journal:
    """An append-only file of events, and the `state` that results from them. A process that opens it holds its lock file until
    `close`. Threads share `lock`. Raises `UserError` if another process holds the lock file.
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
        # Before it gave up the lock, another process may have written events, or an incomplete last line.
        self._file.truncate(state.read(path).offset)

    def write(self, *events: Event) -> None:
        """Append events to the file, flush them to the disk, and apply them to the state. If writing fails, raise `HaltedError` now
        and at every later call, since no line may follow an incomplete one.
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
        """Close the file and release its lock."""
        self._file.close()
        self._owned.close()


def is_locked(journal: Path) -> bool:
    """Return whether a process on this machine holds a journal's lock. Return True, too, if the lock file exists but cannot be opened."""
    try:
        with journal.with_name(LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return False


def first_line(journal: Path) -> bytes:
    """Return the first line of a journal with its line break; b"" if the file cannot be read."""
    with suppress(OSError), journal.open("rb") as file:
        return file.readline()
    return b""


def begun(journal: Path) -> bool:
    """Return whether a file begins with the complete first event of a sweep."""
    first = first_line(journal)
    return first.startswith(START) and first.endswith(b"\n")


def check_first(journal: Path) -> dict[str, Any]:
    """Return a journal's first event as plain data. Return {} if the event is missing or damaged. Raise `FormatError` for another format."""
    line = dict[str, Any]()
    with suppress(ValueError):  # reading the whole journal will report it
        line = from_json(first_line(journal)) if begun(journal) else {}
    if line:
        check_format(f"sweep {journal.parent.name}", line.get("format"), "choose another --name")
    return line


def broken(path: Path, number: int, error: ValueError) -> UserError:
    """Return a `UserError` that names the line `number` of the journal `path`, and the first fault in `error`."""
    fault = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        fault = "".join(f"{part}: " for part in first["loc"]) + first["msg"]
    line = f"journal {path}, line {number}: {fault}"
    return UserError(f"{line}. It is damaged, or a later version of suite wrote it")


def outcomes(path: Path, trial_ids: Collection[str]) -> Iterator[tuple[str, TrialResult]]:
    """Yield the id and outcome of each trial in `trial_ids` that has ended. Outcomes have all evaluations. Raise `UserError` for a bad line."""
    history: list[dict[str, int | float]] = []
    for number, raw in _lines(path) if trial_ids else ():
        start = OUTCOME.match(raw)  # parsing the other lines would take most of the time
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
    """Yield the number and bytes of each complete line from byte `offset` on. `before` is the number of lines before that byte."""
    with path.open("rb") as file:
        file.seek(offset)
        for number, raw in enumerate(file, before + 1):
            if raw.endswith(b"\n"):
                yield number, raw
