"""The tables of a storage, of a tracking server, or of files. A sweep that goes on has its rows in its journal."""

import math
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
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
from suite.search.trial import TARGET, TrialRequest, ValidationResult
from suite.studies.entries import make_entries
from suite.studies.entry import Entry
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
from trials.run.outcome import TrialId, TrialResult
from trials.scoring.metrics import COUNTED, TASKS, reach, score

pa: Any = Lazy("pyarrow")
AT_ONCE = 500
"""So many rows become a part of the table together: as Python objects they take ten times the memory."""
ABOUT = {"cut", "code", "experiment", "run_id"}
"""Facts of a sweep that its journal does not have."""
RAN = {"own_models", "test_samples"}
"""What its trials say of an entry."""
ERROR = 5000
"""Characters of a traceback that are kept, its last ones."""


def table_of(
    paths: SweepPaths,
    state: SweepState,
    entries: Sequence[Entry],
    finals: Collection[str],
    ended: float | None = None,
    about: Mapping[str, Any] = MappingProxyType({}),
) -> TrialTable:
    """Return the table of a sweep: the rows that it wrote last, and those of further trials that have ended, from its journal.

    `finals` are the final runs of what is best now, `ended` is when the sweep did; of `ABOUT` what is not given is as it
    was. So are the run and the tuned file of each entry, but for a sweep that ends.
    """
    assert state.begun is not None
    begun, before = state.begun, earlier(paths)
    parts, there, brought_in = [rows_table([])], set[str](), dict[str, dict[str, Any]]()
    if before is not None and before.facts.id == state.id:
        about = {**before.facts.model_dump(include=ABOUT), **about}
        kept = RAN | (set() if ended is not None else {"row", "tuned"})
        brought_in = {each.id: each.model_dump(include=kept) for each in before.facts.entries}
        parts = [before.whole()]
        there = set(parts[0]["trial_id"].to_pylist())
    by_id, rows = {entry.id: entry for entry in entries}, list[dict[str, Any]]()
    for trial_id, outcome in outcomes(paths.journal, state.ended.keys() - there):
        request = state.requests[trial_id]
        rows.append(_row(paths.name, begun, by_id[request.entry_id], request, outcome))
        if outcome.history:
            ran = {name: getattr(outcome, name) for name in RAN}
            brought_in.setdefault(request.entry_id, {}).update(ran)
        if len(rows) >= AT_ONCE:
            parts.append(rows_table(rows))
            rows = []
    facts = TableFacts(
        name=paths.name,
        id=begun.id,
        study_name=begun.study_name,
        study=begun.study,
        entries=[
            EntryFacts(
                id=entry.id,
                name=entry.name,
                reference=entry.reference(),
                space=dict(entry.space.searched),
                **entry.about(),
                **brought_in.get(entry.id, {}),
            )
            for entry in entries
        ],
        began=state.began,
        ended=ended,
        looks=state.looks,
        versions=dict(begun.versions),
        journal=os.path.getsize(paths.journal),
        **about,
    )
    return TrialTable(facts, _joined([*parts, rows_table(rows)], state, finals))


def _joined(parts: Sequence[Any], state: SweepState, finals: Collection[str]) -> Any:
    """Return the rows of trials that have ended as a `pyarrow.Table`, in order, with the runs that record them; final runs that are
    not among `finals` are superseded.
    """
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
    replicate, metric, params = (
        Replicate.parse(request.replicate),
        entry.task.metric,
        request.params,
    )
    spec = entry.spec(params, request.seed, request.partition_seed, replicate.split)
    settings = spec.settings
    if request.counted:
        settings = settings.model_copy(update={"fine_tune": None})  # which only tests
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
        "number": TrialId.parse(request.trial_id).index,
        "split": replicate.split,
        "partition": replicate.partition,
        "tuning": replicate.tuning,
        "warm_start": "; ".join(dict.fromkeys(w.source for w in warm if w.source)) or None,
        "params": dumps(params),
        "settings": dumps(settings.model_dump(mode="json")),
        "reference": entry.reference(params),
        "outside": entry.outside(params),
        "status": str(outcome.status),
        "not_finite": " ".join(outcome.not_finite) or None,
        "error": outcome.error[-ERROR:] or None,
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
        end = ValidationResult.of(outcome)
        values["feasible"] = end.feasible(entry, target)
        if request.counted and TARGET in entry.constraints:
            values[TARGET] = end.cost(TARGET, entry, target)
    return values


def _of_clients(outcome: TrialResult, part: str, metric: str) -> float | None:
    """Return a metric over clients at the evaluations that the score is of; None where it is not measured."""
    name = f"test_{TASKS[metric].pooled}_{part}"
    if outcome.last(name) is None:
        return None
    return _finite(score(outcome.history, name, outcome.lost(f"test_{metric}")))


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
    state = paths.state()
    assert state.begun is not None
    entries = make_entries(check_study(state.begun.study, {}, f"sweep {name}"), f"sweep {name}")
    return table_of(paths, state, entries, state.current_finals)


def earlier(paths: SweepPaths) -> TrialTable | None:
    """Return the table that a sweep wrote last; None where there is none that can be read: the journal has all."""
    with suppress(UserError):
        return read(paths.table)
    return None
