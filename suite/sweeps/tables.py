"""The tables of sweeps in a folder, on a tracking server, or in files. An unfinished sweep's rows come from its journal."""

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
    Tables,
    TrialTable,
    curve_columns,
    nothing_in,
    read,
    rows_table,
)
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import Entry, make_entries
from suite.studies.replicates import Replicate
from suite.studies.study import check_study
from suite.sweeps.journal.events import Begun, SweepState, check_first, outcomes
from suite.sweeps.journal.paths import JOURNAL, SweepPaths
from suite.sweeps.status import sweeps
from suite.tracking import without_user
from suite.tracking.tags import dumps
from trials.common.errors import UserError, unknown
from trials.common.lazy import Lazy
from trials.run.outcome import TrialResult, index_of
from trials.scoring.metrics import COUNTED, TASKS, reach, score

pa: Any = Lazy("pyarrow")
AT_ONCE = 500
"""The most rows that are held as Python objects, which take ten times the memory of an Arrow table."""
RAN = {"own_models", "test_samples"}
"""The fields of a trial's result that describe its entry."""
Source = tuple[str, Callable[[], TrialTable]]
"""The name of a sweep's study, and a function that returns the sweep's table."""


def table_of(
    paths: SweepPaths,
    state: SweepState,
    entries: Sequence[Entry],
    finals: Collection[str],
    **facts: Any,
) -> TrialTable:
    """Return the table of a sweep. It has the rows of the last written table, and new rows for trials that have ended since.
    `finals` are the ids of the final runs that repeat the current best trials. `facts` has the end time and the MLflow ids,
    which the journal lacks.
    """
    begun, before = state.begun, earlier(paths)
    assert begun is not None
    parts, written, notes = [rows_table([])], set[str](), dict[str, dict[str, Any]]()
    if before is not None and before.facts.id == begun.id:
        facts = before.facts.model_dump(include={"experiment", "run_id"}) | facts
        notes = {e.id: e.model_dump(include=RAN | {"tuned"}) for e in before.facts.entries}
        parts = [before.whole()]
        written = set(parts[0]["trial_id"].to_pylist())
    by_id, rows = {entry.id: entry for entry in entries}, list[dict[str, Any]]()
    for trial_id, outcome in outcomes(paths.journal, state.ended.keys() - written):
        request = state.requests[trial_id]
        rows.append(_row(paths.name, begun, by_id[request.entry_id], request, outcome))
        if outcome.history:
            ran = {name: getattr(outcome, name) for name in RAN}
            notes.setdefault(request.entry_id, {}).update(ran)
        if len(rows) >= AT_ONCE:
            parts.append(rows_table(rows))
            rows = []
    entry_facts = [
        EntryFacts(
            id=entry.id,
            name=entry.name,
            reference=entry.reference(),
            space=dict(entry.space.searched),
            row=state.rows.get(entry.id, ""),
            **entry.about(),
            **notes.get(entry.id, {}),
        )
        for entry in entries
    ]
    table_facts = TableFacts(
        name=paths.name,
        entries=entry_facts,
        began=state.began,
        cut=state.cut,
        looks=state.looks,
        journal=os.path.getsize(paths.journal),
        **begun.model_dump(include={"id", "study_name", "study", "code", "versions"}),
        **facts,
    )
    return TrialTable(table_facts, _joined([*parts, rows_table(rows)], state, finals))


def _joined(parts: Sequence[Any], state: SweepState, finals: Collection[str]) -> Any:
    """Return one table of all ended trials, sorted by id, with MLflow run ids. Mark final runs outside `finals` as "superseded"."""
    rows = pa.concat_tables(parts)
    trial_ids = rows["trial_id"].to_pylist()
    ended = (number for number, trial_id in enumerate(trial_ids) if trial_id in state.ended)
    order = sorted(ended, key=trial_ids.__getitem__)
    if order != [*range(len(trial_ids))]:  # `take` would copy a large table
        rows = rows.take(order)
        trial_ids = [trial_ids[number] for number in order]
    kinds = rows["kind"].to_pylist()
    for number, kind in enumerate(kinds):
        if kind in ("final", "superseded"):
            kinds[number] = "final" if trial_ids[number] in finals else "superseded"
    runs = [state.recorded.get(trial_id, "") for trial_id in trial_ids]
    for name, values in (("kind", kinds), ("run_id", runs)):
        column = rows.schema.get_field_index(name)
        rows = rows.set_column(column, name, pa.array(values, pa.string()))
    return rows


def _row(
    name: str, begun: Begun, entry: Entry, request: TrialRequest, outcome: TrialResult
) -> dict[str, Any]:
    """Return the table row of an ended trial, as values by column. `name` is the sweep's name."""
    metric, params, target = entry.task.metric, request.params, begun.study.get("target")
    warm = begun.warm.get(entry.id, ())
    last = outcome.history[-1] if outcome.history else {}
    identity = ("trial_id", "entry_id", "replicate", "origin", "source", "seed")
    ran = ("last_round", "execution", "chunk", "device", "model_note", "data_note", "seconds")
    execution = {name: getattr(outcome, name) for name in ran}
    optional = dict[str, Any]()  # columns for a study with a target or constraints
    if target is not None and not request.counted:
        lost = outcome.lost(f"test_{metric}")
        reached = {} if lost else reach(outcome.history, metric, target)
        optional = {"reached": bool(reached), **reached}
    if entry.constraints:
        optional["feasible"] = ValidationResult.of(outcome).feasible(entry)
    return {
        "sweep": name,
        "study": begun.study_name,
        "entry": entry.name,
        "paper": entry.paper,
        "away": entry.away,
        **entry.about(),
        **{name: getattr(request, name) for name in identity},
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
        **{name: None if value == "" else value for name, value in execution.items()},
        "halved": dumps(outcome.halved) if outcome.halved else None,
        "partition_fingerprint": outcome.fingerprint,
        "val_score": _finite(outcome.value) if outcome.history else None,
        "test_score": outcome.tested(metric),
        "worst_clients": _client_score(outcome, "worst10", metric),
        "client_spread": _client_score(outcome, "spread", metric),
        **{name: _finite(last.get(name)) for name in COUNTED},
        **optional,
        **begun.versions,
        **_curves(request, outcome, metric),
    }


def _client_score(outcome: TrialResult, part: str, metric: str) -> float | None:
    """Return a statistic of the clients' test scores: the worst tenth's mean (`part` "worst10") or the standard deviation ("spread")."""
    name = f"test_{TASKS[metric].pooled}_{part}"
    if outcome.last(name) is None:
        return None
    return _finite(score(outcome.history, name, outcome.lost(f"test_{metric}")))


def _curves(
    request: TrialRequest, outcome: TrialResult, metric: str
) -> dict[str, list[float] | None]:
    """Return a trial's curves by column, with one value per evaluation. Infinite values become NaN; a curve of NaN alone is None."""
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
    storage: Path, tracking_uri: str | None = None, names: Sequence[str] = ()
) -> Tables:
    """Return the tables of the sweeps in `names`, or of all sweeps if `names` is empty. A name is a sweep, a study or the
    path of a Parquet file. Sweeps are on the tracking server or, without one, in the folder `storage`. Raise `UserError` for
    an unknown name or a named sweep that cannot be read. Skip other unreadable sweeps with a message.
    """
    if files := [name for name in names if name.endswith(".parquet")]:
        if len(files) < len(names):
            raise UserError(f"{', '.join(names)}: give paths of tables or names of sweeps")
        return Tables(_of_files(map(Path, files)))
    sources = dict(_sources(storage, tracking_uri))
    if not sources:
        uri = without_user(tracking_uri or "")
        raise UserError(f"{uri} holds no sweep" if uri else nothing_in(storage))
    named_studies = set(names) - sources.keys()
    for name in named_studies:
        its_sweeps = [sweep for sweep, (study, _) in sources.items() if study == name]
        if not its_sweeps:
            studies = {study for study, _ in sources.values()}
            raise unknown("sweep", name, sources.keys() | studies)
        say(f"{name} is a study; its sweeps: {', '.join(its_sweeps)}")
    opened = []
    for sweep, (study, fetch) in sources.items():
        if not names or sweep in names or study in named_studies:
            try:
                opened.append(fetch())
            except UserError as error:
                if sweep in names:
                    raise
                say(f"sweep {sweep} is left out: {error}")
    if not opened:
        raise UserError("none of the sweeps can be read")
    return Tables(opened)


def _sources(storage: Path, tracking_uri: str | None) -> Iterator[tuple[str, Source]]:
    """Yield the name and the source of each sweep. Sweeps are on the tracking server or, without a server, in `storage`. If
    `storage` also has a sweep of the server, `storage` is the source. Skip journals of other formats, and say so.
    """
    here = dict[str, dict[str, Any]]()
    for name in sweeps(storage):
        try:
            here[name] = check_first(storage / name / JOURNAL)
        except UserError as error:
            say(str(error))
    if tracking_uri is None:
        for name, begin in here.items():
            yield name, (begin.get("study_name", ""), partial(local_table, storage, name))
        return
    from suite.tracking.store import Store  # MLflow takes a second to load

    store = Store(tracking_uri, storage)
    for run in store.sweeps():
        name = run.tags["sweep"]
        local = here.get(name, {}).get("id") == run.tags["sweep_id"]
        fetch = (
            partial(local_table, storage, name) if local else lambda run=run: read(store.table(run))
        )
        yield name, (run.tags["study"], fetch)


def _of_files(files: Iterable[Path]) -> list[TrialTable]:
    """Return the tables in these files. If two sweeps share a name, the second one gets a suffix with six letters of its id."""
    named: dict[str, TrialTable] = {}
    for table in map(read, files):
        facts = table.facts
        if facts.name in named and named[facts.name].facts.id != facts.id:
            facts = facts.model_copy(update={"name": f"{facts.name}-{facts.id[:6]}"})
        named[facts.name] = TrialTable(facts, table.source)
    return [*named.values()]


def local_table(storage: Path, name: str) -> TrialTable:
    """Return the table of the sweep `name` in the folder `storage`. An unfinished sweep's table is made from its journal."""
    paths = SweepPaths(storage, name)
    written, size = earlier(paths), os.path.getsize(paths.journal)
    if written is not None and written.facts.ended is not None and written.facts.journal == size:
        return written
    state, source = paths.state(), f"sweep {name}"
    assert state.begun is not None
    entries = make_entries(check_study(state.begun.study, {}, source), source)
    return table_of(paths, state, entries, state.current_finals)


def earlier(paths: SweepPaths) -> TrialTable | None:
    """Return the table that a sweep wrote last, or None if the file is missing or unreadable."""
    with suppress(UserError):
        return read(paths.table)
    return None
