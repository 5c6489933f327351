"""The tables of a storage, of a tracking server, or of files. A sweep that goes on has its rows in its journal."""

import math
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from suite.console import say
from suite.results.table import (
    SEARCH_CURVES,
    EntryFacts,
    TableFacts,
    TrialTable,
    curve_columns,
    read,
    rows_table,
)
from suite.results.tables import Source, Tables, nothing_in
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import Entry, make_entries
from suite.studies.replicates import Replicate
from suite.studies.study import check_study
from suite.sweeps.journal.events import Begun, SweepState, check_first, outcomes
from suite.sweeps.journal.paths import JOURNAL, SweepPaths
from suite.sweeps.status import sweeps
from suite.tracking import RUNS
from suite.tracking.faults import without_user
from suite.tracking.schema.tags import dumps
from suite.tracking.tables import RecordedTable, recorded_tables
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.run.outcome import TrialResult, index_of
from trials.scoring.metrics import COUNTED, TASKS, reach, untrained

pa: Any = Lazy("pyarrow")
AT_ONCE = 500
"""So many rows become a part of the table together: as Python objects they take ten times the memory."""


def table_of(
    paths: SweepPaths,
    state: SweepState,
    entries: Sequence[Entry],
    finals: Collection[str],
    **facts: Any,
) -> TrialTable:
    """Return the table of a sweep: the rows that it wrote last, and those of further trials that have ended, from its journal.

    `finals` are the final runs of what is best now. `facts` are those that no journal has: when it ended, where MLflow has it.
    """
    begun, before = state.begun, earlier(paths)
    assert begun is not None
    parts, there, tuned = [rows_table([])], set[str](), dict[str, str]()
    if before is not None and before.facts.id == begun.id:
        facts = before.facts.model_dump(include={"experiment", "run_id"}) | facts
        tuned = {entry.id: entry.tuned for entry in before.facts.entries}
        parts = [before.whole()]
        there = set(parts[0]["trial_id"].to_pylist())
    by_id, rows = {entry.id: entry for entry in entries}, list[dict[str, Any]]()
    for trial_id, outcome in outcomes(paths.journal, state.ended.keys() - there):
        request = state.requests[trial_id]
        rows.append(_row(paths.name, begun, by_id[request.entry_id], request, outcome))
        if len(rows) >= AT_ONCE:
            parts.append(rows_table(rows))
            rows = []
    asked = [
        EntryFacts(
            id=entry.id,
            name=entry.name,
            reference=entry.reference(),
            space=dict(entry.space.searched),
            row=state.recorded.get(entry.id, ""),
            tuned=tuned.get(entry.id, ""),
            **entry.about(),
        )
        for entry in entries
    ]
    whole = TableFacts(
        name=paths.name,
        entries=asked,
        began=state.began,
        cut=state.cut,
        journal=os.path.getsize(paths.journal),
        **begun.model_dump(include={"id", "study_name", "study", "code", "versions"}),
        **facts,
    )
    return TrialTable(whole, _joined([*parts, rows_table(rows)], state, finals))


def _joined(parts: Sequence[Any], state: SweepState, finals: Collection[str]) -> Any:
    """Return the rows of trials that have ended, in order, with their runs in MLflow; only `finals` are not superseded."""
    rows = pa.concat_tables(parts).combine_chunks().sort_by("trial_id")
    ended = [trial_id in state.ended for trial_id in rows["trial_id"].to_pylist()]
    rows = rows.filter(pa.array(ended, pa.bool_()))
    trial_ids, kinds = rows["trial_id"].to_pylist(), rows["kind"].to_pylist()
    for number, kind in enumerate(kinds):
        if kind in ("final", "superseded"):
            kinds[number] = "final" if trial_ids[number] in finals else "superseded"
    runs = [state.recorded.get(trial_id, "") for trial_id in trial_ids]
    for name, values in (("kind", kinds), ("run_id", runs)):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.array(values, pa.string()))
    return rows


def _row(
    name: str, begun: Begun, entry: Entry, request: TrialRequest, outcome: TrialResult
) -> dict[str, Any]:
    """Return the row of a trial of the sweep of this name."""
    metric, params = entry.task.metric, request.params
    warm = begun.warm.get(entry.id, ())
    last = outcome.history[-1] if outcome.history else {}
    asked = ("trial_id", "entry_id", "replicate", "origin", "source", "seed")
    ran = ("last_round", "execution", "chunk", "device", "model_note", "data_note", "seconds")
    how = {name: getattr(outcome, name) for name in ran}
    return {
        "sweep": name,
        "study": begun.study_name,
        "entry": entry.name,
        "paper": entry.paper,
        "away": entry.away,
        **entry.about(),
        **{name: getattr(request, name) for name in asked},
        "kind": str(request.kind),
        "number": index_of(request.trial_id),
        **asdict(Replicate.parse(request.replicate)),
        "warm_start": "; ".join(dict.fromkeys(w.source for w in warm if w.source)) or None,
        "params": dumps(params),
        "settings": dumps(request.spec(entry).settings.model_dump(mode="json")),
        "reference": entry.reference(params),
        "outside": entry.outside(params),
        "status": str(outcome.status),
        "not_finite": " ".join(outcome.not_finite) or None,
        "error": outcome.error or None,
        **{name: None if value == "" else value for name, value in how.items()},
        "halved": dumps(outcome.halved) if outcome.halved else None,
        "partition_fingerprint": outcome.fingerprint,
        "val_score": _finite(outcome.value) if outcome.history else None,
        "test_score": outcome.tested(metric),
        "worst_clients": _of_clients(outcome, "worst10", metric),
        "client_spread": _of_clients(outcome, "spread", metric),
        **{name: _finite(last.get(name)) for name in COUNTED},
        **_target(entry, begun.study.get("target"), request, outcome),
        **begun.versions,
        **_curves(request, outcome, metric),
    }


def _target(
    entry: Entry, target: float | None, request: TrialRequest, outcome: TrialResult
) -> dict[str, Any]:
    """Return what a row says of the study's target and constraints."""
    metric, values = entry.task.metric, dict[str, Any]()
    if target is not None and not request.counted:
        lost = outcome.lost(f"test_{metric}")
        reached = {} if lost else reach(outcome.history, metric, target)
        values = {"reached": bool(reached), **reached}
    if entry.constraints:
        values["feasible"] = ValidationResult.of(outcome).feasible(entry)
    return values


def _of_clients(outcome: TrialResult, part: str, metric: str) -> float | None:
    """Return a metric over clients as the run ended; of a run that is lost, the untrained model's."""
    name = f"test_{TASKS[metric].pooled}_{part}"
    last = outcome.last(name)
    lost = last is not None and outcome.lost(f"test_{metric}")
    return untrained(outcome.history, name) if lost else last


def _curves(
    request: TrialRequest, outcome: TrialResult, metric: str
) -> dict[str, list[float] | None]:
    """Return the history of a trial, what is not finite as NaN; None for what none of its evaluations has."""
    curves: dict[str, list[float] | None] = {}
    for column, name in curve_columns(metric, TASKS[metric].pooled).items():
        if request.counted and column not in SEARCH_CURVES:
            continue
        values = [entry.get(name, math.nan) for entry in outcome.history]
        curve = [value if math.isfinite(value) else math.nan for value in values]
        curves[column] = None if all(map(math.isnan, curve)) else curve
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
        own = [_source(storage, name) for name in names]
        return Tables([source for source in own if source], nothing_in(storage), options)
    remote = []
    for recorded in recorded_tables(tracking_uri):
        name = recorded.sweep
        here = _source(storage, name, recorded.sweep_id) if name in names else None
        remote.append(here or Source(name, recorded.study, partial(_fetch, recorded)))
    shown = without_user(tracking_uri)
    return Tables(remote, f"{shown} holds no sweep", [*options, "--tracking-uri", shown])


def _fetch(recorded: RecordedTable) -> TrialTable:
    return read(recorded.download())


def _of_files(files: Sequence[Path]) -> list[Source]:
    """Return the tables in files; another sweep of a name that there was gets its id behind it."""
    named: dict[str, TableFacts] = {}
    sources = dict[str, Source]()
    for table in map(read, files):
        facts = table.facts
        if named.setdefault(facts.name, facts).id != facts.id:
            facts = facts.model_copy(update={"name": f"{facts.name}-{facts.id[:6]}"})
        whole = partial(TrialTable, facts, table.source)
        sources[facts.name] = Source(facts.name, facts.study_name, whole)
    return [*sources.values()]


def _source(storage: Path, name: str, sweep_id: str | None = None) -> Source | None:
    """Return a sweep of a storage; None for one of another id, or of another version, which is said."""
    try:
        begin = check_first(storage / name / JOURNAL)
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
    state, source = paths.state(), f"sweep {name}"
    assert state.begun is not None
    entries = make_entries(check_study(state.begun.study, {}, source), source)
    return table_of(paths, state, entries, state.current_finals)


def earlier(paths: SweepPaths) -> TrialTable | None:
    """Return the table that a sweep wrote last; None where there is none that can be read: the journal has all."""
    with suppress(UserError):
        return read(paths.table)
    return None
