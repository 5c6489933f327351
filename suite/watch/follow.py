"""A sweep followed from outside, by its journal: only what was added since the last look is read."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.execution.stop_signal import WORDS, Control
from suite.studies.entries import make_entries
from suite.studies.entry import Entry
from suite.studies.study import Study
from suite.sweeps.events import Begun, Died, Ended, SweepState, read
from suite.sweeps.journal import broken, is_locked, parsed
from suite.sweeps.running import FILE, Curves
from suite.sweeps.running import read as read_running
from suite.sweeps.status import pace, sizes
from trials.errors import UserError
from trials.files import plain
from trials.outcome import Kind, Outcome, Status


@dataclass
class Followed:
    """A sweep below a storage root, as far as it was read. Not for several threads at once."""

    folder: Path
    state: SweepState = field(default_factory=SweepState)
    study: Study | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    planned: int = 0
    deaths: list[Died] = field(default_factory=list)
    running: Curves = field(default_factory=dict)
    dashboard: str = ""
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
    def version(self) -> tuple[object, ...]:
        """What changes whenever anything does that is to be seen."""
        return (*map(_stamp, (self.journal, self.folder / FILE)), self.locked, self.asked_to)

    @property
    def locked(self) -> bool:
        """Whether a process runs it, as far as this machine can see."""
        return is_locked(self.journal)

    @property
    def asked_to(self) -> str:
        """What it was asked to do, `stop` or `cancel`, or ""."""
        word = Control(self.folder).asked
        return word if word in WORDS else ""

    def refresh(self) -> None:
        """Read what is new. A last line that is not whole yet is left for the next time. Raises `UserError`
        for one that a sweep did not write there, and again at each later look.
        """
        with plain(self.journal, "journal").open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        for raw in new.split(b"\n")[:-1]:
            self._take(raw)
            self._offset += len(raw) + 1
            self._lines += 1
        self.running, self.dashboard = read_running(self.folder)

    def _take(self, raw: bytes) -> None:
        number = self._lines + 1
        line = parsed(self.journal, number, raw)
        try:
            event = read(line)
            if isinstance(event, Begun):
                self._begin(event)
            self.state.add(event)
        except UserError:
            raise
        except ValueError as error:
            fault = str(error).splitlines()[0]
            raise broken(str(self.journal), number, fault) from None
        match event:
            case Ended(_, outcome):
                if outcome.history:  # its last evaluation is all that is shown
                    del outcome.history[:-1]
            case Died():
                self.deaths.append(event)

    def _begin(self, begun: Begun) -> None:
        self.study = Study.model_validate(begun.study)
        self.entries = {e.id: e for e in make_entries(self.study, f"sweep {self.name}")}
        self.planned = sizes(begun, self.name)[1]

    @property
    def over(self) -> bool:
        """Whether all of its trials have ended and are recorded."""
        ended = len(self.state.ended)
        return ended >= self.planned and len(self.state.recorded) >= ended

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
        return 60 * (self.planned - len(self.state.ended)) / self.per_minute

    def counts(self) -> dict[str, Counter[str]]:
        """Trials by entry: `search` and `final`, how the search trials ended, and those that run."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for ask in self.state.asks:
            outcome = self.state.ended.get(ask.trial_id)
            of = found[ask.cell]
            if outcome is None:
                of["running"] += self.locked
                continue
            of["search" if ask.counted else ask.kind] += 1
            of[outcome.status] += 1
        return found

    def scores(self, entry: str) -> list[float]:
        """The validation score of each search trial of an entry in order, NaN where it did not run to its
        end at full rounds.
        """
        tried = [a for a in self.state.asks if a.cell == entry and a.kind == Kind.SEARCH]
        ends = [self.state.ended.get(a.trial_id) for a in tried]
        return [_score(end) for end in ends if end is not None]

    def failures(self) -> Sequence[tuple[str, str, str]]:
        """(trial, how it ended, why) of those that crashed, diverged or died and started again."""
        asks = {ask.trial_id: ask for ask in self.state.asks}
        found: list[tuple[str, str, str]] = []
        for trial_id, outcome in self.state.ended.items():
            if outcome.status in (Status.FAILED, Status.DIVERGED):
                why = _last(outcome.error) or "not finite: " + " ".join(outcome.not_finite)
                found.append((self._called(asks[trial_id].cell, trial_id), outcome.status, why))
        for died in self.deaths:
            name = self._called(asks[died.trial_id].cell, died.trial_id)
            found.append((name, f"died at round {died.round}", _last(died.error)))
        return [(name, str(status), why) for name, status, why in found]

    def _called(self, entry: str, trial_id: str) -> str:
        name = self.entries[entry].name if entry in self.entries else entry
        return f"{name} · {trial_id.rpartition('-')[2]}"


def _score(outcome: Outcome) -> float:
    done = outcome.status == Status.FINISHED and outcome.value is not None
    return float(outcome.value) if done and outcome.value is not None else math.nan


def _last(error: str) -> str:
    return error.strip().splitlines()[-1][:300] if error.strip() else ""


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
