"""A sweep followed from outside, by its journal: only what was added since the last look is read."""

import math
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.execution.stop_signal import WORDS, Control
from suite.search.trial import TrialRequest
from suite.studies.entries import make_entries
from suite.studies.entry import Entry
from suite.studies.study import Study
from suite.sweeps.journal.events import (
    Begun,
    Died,
    Ended,
    Event,
    Recorded,
    Requested,
    SweepState,
    read_raw,
)
from suite.sweeps.journal.file import broken, is_locked
from suite.sweeps.running import FILE, Reported
from suite.sweeps.running import read as read_running
from suite.sweeps.status import pace
from trials.common.files import plain
from trials.run.outcome import Outcome, Status, TrialKind, reason


@dataclass
class Tally:
    """What is known of an entry: which trials are handed out and not over, how many there are of which
    kind and ending, how many final runs of what is best are recorded, and the scores of search trials by their place in
    the journal.
    """

    open: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    recorded: int = 0
    scores: dict[int, float] = field(default_factory=dict)


@dataclass
class Followed:
    """A sweep below a storage root, as far as it was read. Not for several threads at once.

    `requests` has the trials in the order they were handed out, `tallies` what they add up to by entry: kept up
    line by line, so that a look costs what is new, however long the sweep is. `finals` is how many final
    runs an entry has. `locked` is whether a process runs it, as far as this machine can see, `asked_to`
    what it was asked to do, `stop` or `cancel`, or "".
    """

    folder: Path
    state: SweepState = field(default_factory=SweepState)
    study: Study | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    planned: int = 0
    finals: int = 0
    requests: dict[str, TrialRequest] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    reported: Reported = field(default_factory=Reported)
    locked: bool = False
    asked_to: str = ""
    _places: dict[str, int] = field(default_factory=dict)
    _crashed: list[tuple[str, Outcome]] = field(default_factory=list)
    _deaths: list[Died] = field(default_factory=list)
    _superseded: set[str] = field(default_factory=set)
    _file: int = 0
    _offset: int = 0
    _lines: int = 0

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.folder.name

    @property
    def journal(self) -> Path:
        """Its journal."""
        return self.folder / "journal.jsonl"

    @property
    def replaced(self) -> bool:
        """Whether the journal is another file than what was read, as after a repair."""
        try:
            return self._file not in (0, self.journal.stat().st_ino)
        except OSError:
            return False

    @property
    def version(self) -> tuple[object, ...]:
        """What changes whenever anything does that is to be seen. No line is read for it."""
        stamps = _stamp(self.journal), _stamp(self.folder / FILE)
        return *stamps, is_locked(self.journal), self._word()

    def refresh(self) -> None:
        """Read what is new. A last line that is not whole yet is left for the next time. Raises `UserError`
        for one that a sweep did not write there, and again at each later look.
        """
        with plain(self.journal, "journal").open("rb") as file:
            self._file = os.fstat(file.fileno()).st_ino
            file.seek(self._offset)
            new = file.read()
        for raw in new.split(b"\n")[:-1]:
            self._take(raw)
            self._offset += len(raw) + 1
            self._lines += 1
        self.reported = read_running(self.folder)
        self.locked, self.asked_to = is_locked(self.journal), self._word()

    def _word(self) -> str:
        word = Control(self.folder).asked
        return word if word in WORDS else ""

    def _take(self, raw: bytes) -> None:
        event = read_raw(self.journal, self._lines + 1, raw)
        if isinstance(event, Begun):
            self._begin(event)
        new = isinstance(event, Recorded) and event.trial_id not in self.state.recorded
        try:
            self.state.add(event)
        except ValueError as error:
            raise broken(str(self.journal), self._lines + 1, str(error)) from None
        self._count(event, new)

    def _count(self, event: Event, new: bool) -> None:
        match event:
            case Requested(request):
                if request.trial_id not in self.requests:
                    self._places[request.trial_id] = len(self._places)
                self.requests[request.trial_id] = request
                self.tallies[request.entry_id].open.add(request.trial_id)
                if len(self.state.superseded) > len(self._superseded):
                    self._supersede()
            case Ended(trial_id, outcome):
                self._end(self.requests[trial_id], outcome)
            case Recorded(trial_id) if new:
                request = self.requests[trial_id]
                self.tallies[request.entry_id].recorded += request.kind == TrialKind.FINAL
            case Died():
                self._deaths.append(event)

    def _supersede(self) -> None:
        """Count no final run of a former best any more."""
        for trial_id in self.state.superseded - self._superseded:
            self.tallies[self.requests[trial_id].entry_id].recorded -= (
                trial_id in self.state.recorded
            )
        self._superseded = set(self.state.superseded)

    def _end(self, request: TrialRequest, outcome: Outcome) -> None:
        of = self.tallies[request.entry_id]
        of.open.discard(request.trial_id)
        of.counts["search" if request.counted else request.kind] += 1
        of.counts[outcome.status] += 1
        if request.kind == TrialKind.SEARCH:
            of.scores[self._places[request.trial_id]] = _score(outcome)
        if outcome.status in (Status.FAILED, Status.DIVERGED):
            self._crashed.append((request.trial_id, outcome))
        del outcome.history[:-1]  # its last evaluation is all that is shown

    def _begin(self, begun: Begun) -> None:
        self.study = study = Study.model_validate(begun.study)
        self.entries = {e.id: e for e in make_entries(study, f"sweep {self.name}")}
        self.planned = begun.planned
        self.finals = study.seeds * len(study.replicates)

    @property
    def over(self) -> bool:
        """Whether all of its trials have ended and are recorded."""
        recorded = len(self.state.recorded) >= len(self.state.ended)
        return self.state.done >= self.planned and recorded

    @property
    def per_minute(self) -> float | None:
        """Its pace while it runs, None while nobody knows."""
        rate = pace(self.state) if self.locked else None
        return None if rate is None else 60 * rate

    @property
    def seconds_left(self) -> float | None:
        """How long it takes at this pace, None while that is not known."""
        if self.over or not self.per_minute:
            return None
        return 60 * (self.planned - self.state.done) / self.per_minute

    def counts(self, entry: str) -> Counter[str]:
        """Trials of an entry: `search` and `final`, how they ended, and those that run."""
        of = self.tallies[entry]
        return of.counts + Counter(running=len(of.open) * self.locked)

    def scores(self, entry: str) -> list[float]:
        """The validation score of each search trial of an entry in order, NaN where it did not run to its
        end at full rounds.
        """
        return [score for _, score in sorted(self.tallies[entry].scores.items())]

    def failures(self) -> Sequence[tuple[str, str, str]]:
        """(trial, how it ended, why) of those that crashed, diverged or died and started again."""
        found: list[tuple[str, str, str]] = []
        for trial_id, outcome in self._crashed:
            why = reason(outcome.error)[:300] or "not finite: " + " ".join(outcome.not_finite)
            found.append((self._called(trial_id), str(outcome.status), why))
        for died in self._deaths:
            found.append(
                (
                    self._called(died.trial_id),
                    f"died at round {died.round}",
                    reason(died.error)[:300],
                )
            )
        return found

    def _called(self, trial_id: str) -> str:
        entry = self.requests[trial_id].entry_id
        name = self.entries[entry].name if entry in self.entries else entry
        return f"{name} · {trial_id.rpartition('-')[2]}"


def _score(outcome: Outcome) -> float:
    done = outcome.status == Status.FINISHED and outcome.value is not None
    return float(outcome.value) if done and outcome.value is not None else math.nan


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
