"""The tables of a storage, of a tracking server, or of files. A sweep that goes on has its rows in its journal."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from suite.console import say
from suite.results.table import FILE, TableFacts, TrialTable, read
from suite.results.tables import Source, Tables, nothing_in
from suite.studies.entries import make_entries
from suite.studies.study import check_study
from suite.sweeps.journal.events import check_first
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording.rows import TrialRows, entry_facts
from suite.sweeps.status import sweeps
from suite.tracking import RUNS
from suite.tracking.tables import recorded_tables
from trials.common.errors import UserError


def open_tables(
    storage: Path, tracking_uri: str | None = None, files: Sequence[Path] = ()
) -> Tables:
    """Return the tables of these files; without any, those of a tracking server, or else of a storage."""
    if files:
        return Tables(_of_files(files), "")
    options = [*(["--storage", str(storage)] if storage != RUNS else [])]
    here = {name: storage / name for name in sweeps(storage)}
    if tracking_uri is None:
        local = [source for name in here if (source := _source(storage, name)) is not None]
        return Tables(local, nothing_in(storage), options)
    found = []
    for of in recorded_tables(tracking_uri):
        source = _source(storage, of.sweep) if of.sweep in here else None
        own = source is not None and _begin(storage / of.sweep).get("id") == of.sweep_id
        there = Source(of.sweep, of.study, lambda of=of: read(of.download()))  # type: ignore[misc]
        found.append(source if source is not None and own else there)
    options += ["--tracking-uri", tracking_uri]
    return Tables(found, f"{tracking_uri} holds no sweep", options)


def _of_files(files: Sequence[Path]) -> list[Source]:
    """Return the tables in files; another sweep of a name that there was gets its id behind it."""
    named: dict[str, TrialTable] = {}
    for table in map(read, files):
        facts = table.facts
        if facts.name in named and named[facts.name].facts.id != facts.id:
            facts = facts.model_copy(update={"name": f"{facts.name}-{facts.id[:6]}"})
        named[facts.name] = TrialTable(facts, table.source)
    return [Source(n, of.facts.study_name, lambda of=of: of) for n, of in named.items()]  # type: ignore[misc]


def _source(storage: Path, name: str) -> Source | None:
    """Return a sweep of a storage; None, which is said, for one of another version."""
    try:
        check_first(storage / name / "journal.jsonl")
    except UserError as error:
        say(str(error))
        return None
    study = str(_begin(storage / name).get("study_name", ""))
    return Source(name, study, lambda: local_table(storage, name))


def _begin(folder: Path) -> dict[str, object]:
    """Return the first line of a journal."""
    with suppress(OSError, ValueError), (folder / "journal.jsonl").open("rb") as file:
        line = json.loads(file.readline())
        return line if isinstance(line, dict) else {}
    return {}


def local_table(storage: Path, name: str) -> TrialTable:
    """Return the table of a sweep of this machine: its file, where the sweep has ended since its journal grew last, else its journal's
    trials. Raises `UserError` where the journal is damaged.
    """
    paths = SweepPaths(storage, name)
    before = earlier(paths)
    size = os.path.getsize(paths.journal)
    if before is not None and before.facts.ended is not None and before.facts.journal == size:
        return before
    state = paths.state()
    begun = state.begun
    assert begun is not None
    if before is not None and before.facts.id != begun.id:
        before = None
    study = check_study(begun.study, {}, f"sweep {name}")
    entries = make_entries(study, f"sweep {name}")
    names = name, begun.study_name
    rows = TrialRows(names, study, entries, begun.warm, begun.versions, before, state.ended)
    for trial_id, request in state.requested.items():
        if trial_id in state.ended and trial_id not in rows.there:
            rows.add(request, state.ended[trial_id])
    finals = {request.trial_id for group in state.finals.values() for request in group}
    now = {
        "study": begun.study,
        "entries": entry_facts(entries, before),
        "versions": begun.versions,
        "ended": None,
    }
    if before is not None:
        facts = before.facts.model_copy(update=now)
    else:
        began = os.stat(paths.journal).st_mtime
        facts = TableFacts(name=name, id=begun.id, study_name=names[1], began=began, **now)
    return TrialTable(facts, rows.table(state.recorded, finals))


def earlier(paths: SweepPaths) -> TrialTable | None:
    """Return the table that a sweep wrote last; None where there is none that can be read: the journal has all."""
    with suppress(UserError):
        return read(paths.folder / FILE)
    return None
