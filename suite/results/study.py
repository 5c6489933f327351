"""Searches as Optuna's studies, for Optuna's tools: plots, importance, dashboards.

An entry is one study; where a study of ours repeats the search of an entry, each replicate is one.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from reports.leaderboard.names import renamed, without_folders, without_paths
from suite.results.table import EntryFacts, TableFacts, TrialTable
from suite.results.tables import records
from suite.yaml_files import writing
from trials.algorithm import Range
from trials.algorithms import label
from trials.common.errors import UserError, unknown
from trials.run.outcome import Status, reason
from trials.scoring.metrics import TASKS

optuna.logging.set_verbosity(optuna.logging.WARNING)  # it says of each study that it was made

ATTRIBUTES = ("trial_id", "status", "origin", "source", "seed", "seconds")
COLUMNS = (*ATTRIBUTES, "entry_id", "replicate", "number", "params", "val_score", "error")
NAMES = ("name", "algorithm", "dataset", "model", "heterogeneity", "metric")
STATES = {Status.FINISHED: TrialState.COMPLETE, Status.PRUNED: TrialState.PRUNED}
"""What ended otherwise failed, a trial that diverged too: the worst score, which samplers are told, would hide all others in a plot."""


@dataclass(frozen=True)
class Search:
    """The search of an entry, or of a replicate of it: its trials that have ended, in the order of the table.

    Values are validation scores: what the search saw.
    """

    sweep: TableFacts
    entry: EntryFacts
    replicate: str
    rows: pd.DataFrame

    @property
    def label(self) -> str:
        """The entry's readable name with the replicate's."""
        return " · ".join(filter(None, (self.entry.name, self.replicate)))

    @property
    def name(self) -> str:
        """The name of the study, which no other has."""
        return f"{self.sweep.name}: {self.label}"

    @property
    def ranges(self) -> dict[str, BaseDistribution]:
        """The declared range of each searched name, widened by the values that were tried.

        Published and imported configurations may lie outside of what is searched, and Optuna compares only trials that have one
        distribution. A name whose values have none (words among numbers) is left out: its values are user attributes.
        """
        params = [_plains(json.loads(text)) for text in self.rows["params"]]
        known = {}
        for name, declared in self.entry.space.items():
            values = [own[name] for own in params if name in own]
            if (distribution := _distribution(declared, values)) is not None:
                known[name] = distribution
        return known

    def trials(self, ranges: Mapping[str, BaseDistribution]) -> list[FrozenTrial]:
        """Return the trials as Optuna has them, over these ranges."""
        return [self._trial(row, ranges) for row in records(self.rows)]

    def _trial(self, row: Mapping[str, Any], ranges: Mapping[str, BaseDistribution]) -> FrozenTrial:
        written = json.loads(row["params"])
        params = {name: value for name, value in _plains(written).items() if name in ranges}
        attributes = {name: row[name] for name in ATTRIBUTES if pd.notna(row[name])}
        attributes |= {k: v for k, v in written.items() if k not in params or params[k] != v}
        if row["error"]:
            attributes["error"] = reason(row["error"])
        attributes = without_paths(attributes)
        value = row["val_score"]
        scored = value is not None and math.isfinite(value)
        state = STATES.get(row["status"], TrialState.FAIL)
        if state == TrialState.COMPLETE and not scored:
            state = TrialState.FAIL
        # The table knows how long a trial took, not when it began.
        began = datetime.fromtimestamp(self.sweep.began)
        took = timedelta(seconds=attributes.get("seconds", 0.0))
        return FrozenTrial(
            number=row["number"],
            state=state,
            value=value if state == TrialState.COMPLETE else None,
            datetime_start=began,
            datetime_complete=began + took,
            params=params,
            distributions={name: ranges[name] for name in params},
            user_attrs=attributes,
            system_attrs={},
            intermediate_values=_curve(row),
            trial_id=-1,  # the storage gives it one
        )

    def create(self, storage: BaseStorage) -> Study:
        """Create the study, without trials, in a storage."""
        more = TASKS[self.entry.metric].sign > 0
        direction = StudyDirection.MAXIMIZE if more else StudyDirection.MINIMIZE
        storage.create_new_study([direction], self.name)
        study = optuna.load_study(study_name=self.name, storage=storage)
        study.set_user_attr("sweep", self.sweep.name)
        for name in ("id", *NAMES[1:]):
            study.set_user_attr(name, getattr(self.entry, name))
        if self.replicate:
            study.set_user_attr("replicate", self.replicate)
        return study

    def study(self, storage: BaseStorage) -> Study:
        """Write the study with all of its trials into a storage."""
        study = self.create(storage)
        study.add_trials(self.trials(self.ranges))
        return study


def searches_of(table: TrialTable) -> Iterator[Search]:
    """Yield the searches of a sweep that have trials, in the order of its study."""
    rows = table.columns([*COLUMNS, "round", "val"], ("search",))
    parts = dict(iter(rows.groupby(["entry_id", "replicate"])))
    # An absolute path names somebody's disk, and studies are for others, too.
    names = [name for of in table.facts.entries for name in (of.algorithm, of.dataset, of.model)]
    bare = without_folders(names)
    for entry in table.facts.entries:
        shown = {name: renamed(getattr(entry, name), bare) for name in NAMES}
        for (entry_id, replicate), own in parts.items():
            if entry_id == entry.id:
                yield Search(table.facts, entry.model_copy(update=shown), str(replicate), own)


class Studies:
    """The searches of several sweeps as studies in memory, which grow with their tables."""

    def __init__(self) -> None:
        self.storage = InMemoryStorage()
        self._ranges: dict[str, tuple[str, str, object]] = {}
        self._ended: dict[str, tuple[str, float | None]] = {}

    def update(self, tables: Sequence[TrialTable]) -> None:
        """Add the trials that ended since, and remove what is of no sweep of these."""
        for table in tables:
            # Of a sweep that has ended nothing is read again.
            state = table.facts.id, table.facts.ended
            if table.facts.ended is None or self._ended.get(table.facts.name) != state:
                for search in searches_of(table):
                    self._add(search)
                self._ended[table.facts.name] = state
        there = {table.facts.name for table in tables}
        for name, (sweep, *_) in list(self._ranges.items()):
            if sweep not in there:
                optuna.delete_study(study_name=name, storage=self.storage)
                del self._ranges[name]
                self._ended.pop(sweep, None)

    def _add(self, search: Search) -> None:
        """Add trials behind those that are there: a browser asks for what follows the last that it has."""
        ranges = search.ranges
        state = search.sweep.name, search.sweep.id, ranges
        if self._ranges.get(search.name) != state:
            # A study has one range for all of its trials, and a sweep that began anew may have the old one's name.
            if search.name in self._ranges:
                optuna.delete_study(study_name=search.name, storage=self.storage)
            search.create(self.storage)
            self._ranges[search.name] = state
        study = optuna.load_study(study_name=search.name, storage=self.storage)
        there = {trial.user_attrs["trial_id"] for trial in study.get_trials(deepcopy=False)}
        fresh = search.rows[~search.rows["trial_id"].isin(there)]
        study.add_trials(replace(search, rows=fresh).trials(ranges))


def study_of(table: TrialTable, entry: str) -> Study:
    """Return the search of an entry as a study in memory: `entry` is its id, its readable name, or its algorithm's name where that
    has one entry only. Raises `UserError` for another name, with the nearest one.
    """
    named: dict[str, Search] = {}
    searches = list(searches_of(table))
    algorithms = Counter(label(search.entry.algorithm) for search in searches)
    for search in searches:
        named[search.label] = search
        named["-".join(filter(None, (search.entry.id, search.replicate)))] = search
        if algorithms[label(search.entry.algorithm)] == 1:
            named[label(search.entry.algorithm)] = search
    if entry not in named:
        raise unknown(f"entry of sweep {table.facts.name}", entry, named)
    search = named[entry]
    ordered = replace(search, rows=search.rows.sort_values("number"))
    return ordered.study(InMemoryStorage())


def export(table: TrialTable, path: Path) -> list[str]:
    """Write the searches of a sweep as studies into a new SQLite file; return their names. Raises `UserError` where there are
    none, or the file is there or cannot be written.
    """
    if path.exists() or "?" in str(path):  # which would end the address of the file
        raise UserError(f"{path}: must be the name of a file that is not there yet, without ?")
    searches = list(searches_of(table))
    if not searches:
        raise UserError(f"no search trial of sweep {table.facts.name} has ended")
    part = path.with_name(f".{path.name}.part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        part.touch()  # which says in words why it cannot be
        try:
            storage = RDBStorage(f"sqlite:///{part.absolute()}")
            names = [search.study(storage).study_name for search in searches]
            storage.remove_session()
            storage.engine.dispose()
            part.rename(path)
        finally:
            part.unlink(missing_ok=True)
    return names


def _plains(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with what is no plain value as JSON."""
    return {name: _plain(value) for name, value in params.items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else json.dumps(value)


def _distribution(declared: Range, values: Sequence[Any]) -> BaseDistribution | None:
    if declared.choices is not None:
        choices = [*map(_plain, declared.choices), *values]
        return CategoricalDistribution(list(dict.fromkeys(choices)))
    if not all(isinstance(value, int | float) for value in values):
        return None
    assert declared.low is not None
    assert declared.high is not None
    low, high = min([declared.low, *values]), max([declared.high, *values])
    if declared.type == "int" and all(value % 1 == 0 for value in values):
        return IntDistribution(int(low), int(high), log=declared.log and low >= 1)
    return FloatDistribution(float(low), float(high), log=declared.log and low > 0)


def _curve(row: Mapping[str, Any]) -> dict[int, float]:
    """Return the validation scores of a trial by round, those that are finite."""
    if row["val"] is None or row["round"] is None:
        return {}
    points = zip(row["round"], row["val"], strict=True)
    return {int(at): float(value) for at, value in points if math.isfinite(value)}
