"""The tables of a storage, of a tracking server, or of files. A sweep that goes on has its rows in its journal."""

import json
import math
import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from suite.console import say
from suite.results.table import (
    FILE,
    SEARCH_CURVES,
    EntryFacts,
    TableFacts,
    TrialTable,
    curve_columns,
    read,
    rows_table,
    write,
)
from suite.results.tables import Source, Tables, nothing_in
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import make_entries
from suite.studies.entry import Entry
from suite.studies.replicates import Replicate
from suite.studies.study import check_study
from suite.sweeps.journal.events import SweepState, check_first, outcomes
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.status import sweeps
from suite.tracking import RUNS
from suite.tracking.faults import without_user
from suite.tracking.schema.tags import dumps
from suite.tracking.tables import RecordedTable, recorded_tables
from trials import algorithms
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.run.outcome import TrialId, TrialResult
from trials.scoring.metrics import COUNTED, TASKS, reach, untrained

pa: Any = Lazy("pyarrow")
SECONDS = 300.0
"""How long the table of a running sweep is left as it is."""
AT_ONCE = 500
"""So many rows wait until they become a part of the table: as Python objects they take ten times the memory."""
ABOUT = ("study_file", "cut", "code", "experiment", "run_id")
"""Facts of a sweep that its journal does not have."""
ERROR = 5000
"""Characters of a traceback that are kept, its last ones."""


class SweepTable:
    """The rows of the trials of a sweep that have ended, which grow as further ones do, and the table of them.

    What the sweep wrote last is taken as it is, where its journal's `state` has those trials. `about` has `ABOUT`; `brought_in` has the leaderboard row's run and the tuned file of each entry, once the
    sweep has ended.
    """

    def __init__(self, paths: SweepPaths, state: SweepState, entries: Sequence[Entry]) -> None:
        assert state.begun is not None
        self.paths, self.state, self.begun, self.before = paths, state, state.begun, earlier(paths)
        if self.before is not None and self.before.facts.id != state.id:
            self.before = None
        self.study = check_study(self.begun.study, {}, f"sweep {paths.name}")
        self.entries = {entry.id: entry for entry in entries}
        facts = self.before.facts if self.before else None
        self.about = {name: getattr(facts, name) for name in ABOUT} if facts else {}
        self.brought_in: dict[str, dict[str, str]] = {}
        self._settings_of = lru_cache(maxsize=1000)(self._settings)
        self._pending: list[dict[str, Any]] = []
        self._parts: list[Any] = []
        self._next = 0.0
        self.there: set[str] = set()
        rows_table(
            []
        ).to_pandas()  # imports what the thread that records needs: only this thread may
        if self.before is not None:
            rows = self.before.whole()
            trial_ids = rows["trial_id"].to_pylist()
            kept = [number for number, name in enumerate(trial_ids) if name in state.ended]
            self._parts.append(rows.take(pa.array(kept, pa.int64())))
            self.there = set(trial_ids) & state.ended.keys()

    @property
    def rows_in_mlflow(self) -> list[str]:
        """The runs of leaderboard rows that the last table named, or that were made since."""
        facts = self.before.facts.entries if self.before else []
        runs = [entry.row for entry in facts] + [new["row"] for new in self.brought_in.values()]
        return [run_id for run_id in runs if run_id]

    @property
    def due(self) -> bool:
        """Whether it is time to write it."""
        return time.monotonic() >= self._next

    def add(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Add a trial that has ended, with its whole history, unless it is there."""
        if request.trial_id in self.there:
            return
        self.there.add(request.trial_id)
        self._pending.append(self._row(request, outcome))
        if len(self._pending) >= AT_ONCE:
            self._parts.append(rows_table(self._pending))
            self._pending = []

    def tables(self, finals: Collection[str], options: Sequence[str]) -> Tables:
        """Return it as leaderboards read it, where the sweep ends now."""
        ended = partial(self.now, finals, time.time())
        source = Source(self.paths.name, self.begun.study_name, ended)
        return Tables([source], "", options, named=True)

    def write(self, finals: Collection[str], ended: float | None = None) -> Path:
        """Write it to the sweep's folder; return where."""
        path = self.paths.folder / FILE
        write(path, self.now(finals, ended))
        self._next = time.monotonic() + SECONDS
        return path

    def now(self, finals: Collection[str], ended: float | None = None) -> TrialTable:
        """Return it as it is; `finals` are the final runs of what is best now, `ended` is when the sweep did."""
        brought_in = self.brought_in
        if ended is None and self.before is not None:
            former = self.before.facts.entries
            brought_in = {entry.id: entry.model_dump(include={"row", "tuned"}) for entry in former}
        entries = []
        for entry in self.entries.values():
            about, space = entry.about(), dict(entry.space.searched)
            facts = EntryFacts(
                id=entry.id, name=entry.name, reference=entry.reference(), space=space, **about
            )
            entries.append(facts.model_copy(update=brought_in.get(entry.id, {})))
        whole = TableFacts(
            name=self.paths.name,
            id=self.begun.id,
            study_name=self.begun.study_name,
            study=self.begun.study,
            entries=entries,
            began=self.state.began,
            ended=ended,
            versions=dict(self.begun.versions),
            journal=os.path.getsize(self.paths.journal),
            **self.about,
        )
        return TrialTable(whole, self._rows(finals))

    def _rows(self, finals: Collection[str]) -> Any:
        """Return all rows as a `pyarrow.Table`, with the runs that record them; final runs that are not among `finals` are
        superseded.
        """
        rows = pa.concat_tables([*self._parts, rows_table(self._pending)]).combine_chunks()
        self._parts, self._pending = [rows], []
        trial_ids, kinds = (rows[name].to_pylist() for name in ("trial_id", "kind"))
        for number, kind in enumerate(kinds):
            if kind in ("final", "superseded"):
                kinds[number] = "final" if trial_ids[number] in finals else "superseded"
        runs = [self.state.recorded.get(trial_id, "") for trial_id in trial_ids]
        for name, values in (("kind", kinds), ("run_id", runs)):
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, pa.array(values, pa.string()))
        return rows.sort_by([("entry_id", "ascending"), ("trial_id", "ascending")])

    def _row(self, request: TrialRequest, outcome: TrialResult) -> dict[str, Any]:
        entry, replicate = self.entries[request.entry_id], Replicate.parse(request.replicate)
        metric = entry.task.metric
        pooled = TASKS[metric].pooled
        own = algorithms.resolve(entry.algorithm).ranges()
        moved = dumps({key: value for key, value in request.params.items() if key not in own})
        warm = self.begun.warm.get(entry.id, ())
        last = outcome.history[-1] if outcome.history else {}
        asked = ("trial_id", "entry_id", "replicate", "origin", "source", "seed")
        ran = ("last_round", "execution", "chunk", "device", "model_note", "data_note", "seconds")
        return {
            "sweep": self.paths.name,
            "study": self.begun.study_name,
            "entry": entry.name,
            "paper": entry.paper,
            "away": entry.away,
            **entry.about(),
            **{name: getattr(request, name) for name in asked},
            "kind": str(request.kind),
            "number": TrialId.parse(request.trial_id).index,
            "split": replicate.split,
            "partition": replicate.partition,
            "tuning": replicate.tuning,
            "warm_start": "; ".join(dict.fromkeys(w.source for w in warm if w.source)) or None,
            "params": dumps(request.params),
            **self._settings_of(
                entry.id, request.partition_seed, replicate.split, request.counted, moved
            ),
            "status": str(outcome.status),
            "not_finite": " ".join(outcome.not_finite) or None,
            "error": outcome.error[-ERROR:] or None,
            **{
                name: None if getattr(outcome, name) == "" else getattr(outcome, name)
                for name in ran
            },
            "halved": dumps(outcome.halved) if outcome.halved else None,
            "partition_fingerprint": outcome.fingerprint,
            "val_score": _finite(outcome.value) if outcome.history else None,
            "test_score": outcome.tested(metric),
            "worst_clients": _of_clients(outcome, f"test_{pooled}_worst10", metric),
            "client_spread": _of_clients(outcome, f"test_{pooled}_spread", metric),
            **{name: _finite(last.get(name)) for name in COUNTED},
            **self._target(entry, request, outcome),
            **self.begun.versions,
            **_curves(request, outcome, metric, pooled),
        }

    def _settings(
        self, entry_id: str, partition_seed: int, split: int, counted: bool, moved: str
    ) -> dict[str, Any]:
        """Return the settings that a trial runs under, whose configuration has the `moved` ones (JSON), and how that is ranked."""
        entry, searched = self.entries[entry_id], json.loads(moved)
        params = {**entry.space.default(), **searched}
        settings = entry.spec(searched, 0, partition_seed, split).settings
        if counted and settings.fine_tune is not None:  # which only tests
            settings = settings.model_copy(update={"fine_tune": None})
        return {
            "settings": dumps(settings.model_dump(mode="json")),
            "reference": entry.reference(params),
            "outside": entry.outside(params),
        }

    def _target(self, entry: Entry, request: TrialRequest, outcome: TrialResult) -> dict[str, Any]:
        """Return what a row says of the study's target and constraints."""
        target, metric = self.study.target, entry.task.metric
        values: dict[str, Any] = {}
        if target is not None and not request.counted:
            lost = outcome.lost(f"test_{metric}")
            reached = {} if lost else reach(outcome.history, metric, target)
            values = {"reached": bool(reached), **reached}
        if entry.constraints:
            end = ValidationResult.of(outcome)
            values["feasible"] = end.feasible(entry, target)
            if request.counted and "rounds_to_target" in entry.constraints:
                values["rounds_to_target"] = end.cost("rounds_to_target", entry, target)
        return values


def _of_clients(outcome: TrialResult, name: str, metric: str) -> float | None:
    """Return a metric over clients as the run ended; of a run that is lost, the untrained model's."""
    last = outcome.last(name)
    lost = last is not None and outcome.lost(f"test_{metric}")
    return untrained(outcome.history, name) if lost else last


def _curves(
    request: TrialRequest, outcome: TrialResult, metric: str, pooled: str
) -> dict[str, list[float] | None]:
    """Return the history of a trial, what is not finite as NaN; None for what none of its evaluations has."""
    curves: dict[str, list[float] | None] = {}
    for column, name in curve_columns(metric, pooled).items():
        if request.counted and column not in SEARCH_CURVES:
            continue
        values = [entry.get(name, math.nan) for entry in outcome.history]
        there = any(math.isfinite(value) for value in values)
        curves[column] = [v if math.isfinite(v) else math.nan for v in values] if there else None
    if outcome.history:
        curves["round"] = [int(entry["round"]) for entry in outcome.history]
    return curves


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def open_tables(
    storage: Path, tracking_uri: str | None = None, files: Sequence[Path] = ()
) -> Tables:
    """Return the tables of these files; without any, those of a tracking server, or else of a storage."""
    if files:
        return Tables(_of_files(files), "")
    options = [*(["--storage", str(storage)] if storage != RUNS else [])]
    names = sweeps(storage)
    if tracking_uri is None:
        sources = [_source(storage, name) for name in names]
        return Tables([source for source in sources if source], nothing_in(storage), options)
    remote = []
    for recorded in recorded_tables(tracking_uri):
        own = (
            _source(storage, recorded.sweep, recorded.sweep_id) if recorded.sweep in names else None
        )
        there = Source(recorded.sweep, recorded.study, partial(_fetch, recorded))
        remote.append(own or there)
    shown = without_user(tracking_uri)
    return Tables(remote, f"{shown} holds no sweep", [*options, "--tracking-uri", shown])


def _fetch(recorded: RecordedTable) -> TrialTable:
    return read(recorded.download())


def _of_files(files: Sequence[Path]) -> list[Source]:
    """Return the tables in files; another sweep of a name that there was gets its id behind it."""
    named: dict[str, TrialTable] = {}
    for table in map(read, files):
        facts = table.facts
        if facts.name in named and named[facts.name].facts.id != facts.id:
            facts = facts.model_copy(update={"name": f"{facts.name}-{facts.id[:6]}"})
        named[facts.name] = TrialTable(facts, table.source)
    return [
        Source(name, table.facts.study_name, partial(TrialTable, table.facts, table.source))
        for name, table in named.items()
    ]


def _source(storage: Path, name: str, sweep_id: str | None = None) -> Source | None:
    """Return a sweep of a storage; None for one of another id, or of another version, which is said."""
    try:
        begin = check_first(storage / name / "journal.jsonl")
    except UserError as error:
        say(str(error))
        return None
    if sweep_id not in (None, begin.get("id")):
        return None
    return Source(name, str(begin.get("study_name", "")), partial(local_table, storage, name))


def local_table(storage: Path, name: str) -> TrialTable:
    """Return the table of a sweep of this machine: its file, where the sweep has ended since its journal grew last, else its journal's
    trials. Raises `UserError` where the journal is damaged.
    """
    paths = SweepPaths(storage, name)
    written, size = earlier(paths), os.path.getsize(paths.journal)
    if written is not None and written.facts.ended is not None and written.facts.journal == size:
        return written
    state = paths.state()
    assert state.begun is not None
    entries = make_entries(check_study(state.begun.study, {}, f"sweep {name}"), f"sweep {name}")
    table = SweepTable(paths, state, entries)
    for trial_id, outcome in outcomes(paths.journal, state.ended.keys() - table.there):
        table.add(state.requested[trial_id], outcome)
    return table.now(state.current_finals)


def earlier(paths: SweepPaths) -> TrialTable | None:
    """Return the table that a sweep wrote last; None where there is none that can be read: the journal has all."""
    with suppress(UserError):
        return read(paths.folder / FILE)
    return None
