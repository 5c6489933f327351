"""Searches as Optuna's studies, for Optuna's tools: one for each entry, or for each replicate of its search."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from optuna import Study, distributions
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from reports.leaderboard.names import without_paths
from suite.results.table import EntryFacts, TableFacts, TrialTable
from suite.results.tables import Row, history_of
from suite.yaml_files import replacing, writing
from trials.algorithm import Range
from trials.algorithms import label
from trials.common.errors import UserError, unknown
from trials.run.outcome import Status, reason
from trials.scoring.metrics import TASKS

optuna.logging.set_verbosity(optuna.logging.WARNING)  # it says of each study that it was made

ATTRIBUTES = ("trial_id", "status", "origin", "source", "seed", "seconds")
COLUMNS = (*ATTRIBUTES, "entry_id", "replicate", "number", "params", "metric", "val_score", "error")
Ranges = dict[str, distributions.BaseDistribution]
NAMES = ("name", "algorithm", "dataset", "model", "heterogeneity", "metric")


@dataclass(frozen=True)
class RecordedSearch:
    """A search: its trials that have ended, in the order of the table, with validation scores. `name` is of one study only."""

    name: str
    sweep: TableFacts
    entry: EntryFacts
    replicate: str
    rows: pd.DataFrame

    @cached_property
    def ranges(self) -> Ranges:
        """The declared range of each searched name, widened by the values that were tried: Optuna compares trials of one range. A
        name whose values have none (words among numbers) is left out: its values are user attributes.
        """
        params = [_plains(json.loads(text)) for text in self.rows["params"]]
        ranges = {}
        for name, declared in self.entry.space.items():
            values = [own[name] for own in params if name in own]
            if (distribution := _distribution(declared, values)) is not None:
                ranges[name] = distribution
        return ranges

    def trial(self, row: Row) -> FrozenTrial:
        """Return a trial as Optuna has it."""
        written = json.loads(row["params"])
        ranges = self.ranges
        params = {name: value for name, value in _plains(written).items() if name in ranges}
        attributes = {name: row[name] for name in ATTRIBUTES if pd.notna(row[name])}
        attributes |= {k: v for k, v in written.items() if k not in params or params[k] != v}
        if row["error"]:
            attributes["error"] = reason(row["error"])
        # What ended otherwise failed, a trial that diverged too: the worst score, which samplers are told, would hide all others in a plot.
        state, value = TrialState.FAIL, None
        if row["status"] == Status.PRUNED:
            state = TrialState.PRUNED
        elif row["status"] == Status.FINISHED and pd.notna(row["val_score"]):
            state, value = TrialState.COMPLETE, row["val_score"]
        history, score = history_of(row, ["val"]), f"val_{row['metric']}"
        trial = create_trial(
            state=state,
            value=value,
            params=params,
            distributions={name: ranges[name] for name in params},
            user_attrs=without_paths(attributes),
            intermediate_values={int(e["round"]): e[score] for e in history if score in e},
        )
        # The table knows how long a trial took, not when it began.
        trial.datetime_start = datetime.fromtimestamp(self.sweep.began)
        took = timedelta(seconds=attributes.get("seconds", 0.0))
        trial.datetime_complete = trial.datetime_start + took
        return trial

    def write(self, storage: BaseStorage) -> Study:
        """Add the trials that are not there to the study in a storage, which is made where there is none; return it."""
        direction = TASKS[self.entry.metric].direction
        study = optuna.create_study(
            storage=storage, study_name=self.name, direction=direction, load_if_exists=True
        )
        facts = {name: getattr(self.entry, name) for name in ("id", *NAMES[1:])}
        names = {"sweep": self.sweep.name, "sweep_id": self.sweep.id, "replicate": self.replicate}
        for name, value in (facts | names).items():
            study.set_user_attr(name, value)
        there = {trial.user_attrs["trial_id"] for trial in study.get_trials(deepcopy=False)}
        fresh = self.rows[~self.rows["trial_id"].isin(there)]
        study.add_trials([self.trial(row) for row in fresh.to_dict("records")])
        return study


def searches_of(table: TrialTable) -> Iterator[RecordedSearch]:
    """Yield the searches of a sweep that have trials, in the order of its study."""
    rows = table.columns([*COLUMNS, "round", "val"], ("search",))
    parts = dict(iter(rows.groupby(["entry_id", "replicate"])))
    for entry in table.facts.entries:
        # An absolute path names somebody's disk, and studies are for others, too.
        shown = {name: without_paths(getattr(entry, name)) for name in NAMES}
        for (entry_id, replicate), own in parts.items():
            if entry_id == entry.id:
                name = " · ".join(filter(None, (shown["name"], str(replicate))))
                facts = table.facts, entry.model_copy(update=shown), str(replicate)
                yield RecordedSearch(f"{table.facts.name}: {name}", *facts, own)


def refresh(storage: BaseStorage, tables: Sequence[TrialTable]) -> None:
    """Bring the studies in a storage to what tables have: trials that ended since come behind those that a browser has."""
    searches = {search.name: search for table in tables for search in searches_of(table)}
    for study in storage.get_all_studies():
        search = searches.get(study.study_name)
        number = storage.get_study_id_from_name(study.study_name)
        trials = storage.get_all_trials(number, deepcopy=False)
        # A study has one range for all of its trials, and a sweep that began anew may have the old one's name.
        if (
            search is None
            or study.user_attrs["sweep_id"] != search.sweep.id
            or any(not trial.distributions.items() <= search.ranges.items() for trial in trials)
        ):
            storage.delete_study(number)
    for search in searches.values():
        search.write(storage)


def study_of(table: TrialTable, entry: str) -> Study:
    """Return the search of an entry, by its id, its name, or its algorithm's where that has one entry. Raises `UserError` for others."""
    named: dict[str, RecordedSearch] = {}
    searches = list(searches_of(table))
    algorithms = Counter(label(search.entry.algorithm) for search in searches)
    for search in searches:
        named[search.name.removeprefix(f"{table.facts.name}: ")] = search
        named["-".join(filter(None, (search.entry.id, search.replicate)))] = search
        if algorithms[label(search.entry.algorithm)] == 1:
            named[label(search.entry.algorithm)] = search
    if entry not in named:
        raise unknown(f"entry of sweep {table.facts.name}", entry, named)
    search = named[entry]
    ordered = replace(search, rows=search.rows.sort_values("number"))
    return ordered.write(InMemoryStorage())


def export(table: TrialTable, path: Path) -> list[str]:
    """Write the searches of a sweep into a new SQLite file; return their names. Raises `UserError` where it cannot, or there are none."""
    if path.exists() or "?" in str(path):  # which would end the address of the file
        raise UserError(f"{path}: must be the name of a file that is not there yet, without ?")
    searches = list(searches_of(table))
    if not searches:
        raise UserError(f"no search trial of sweep {table.facts.name} has ended")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.touch()  # which says in words why it cannot be
            storage = RDBStorage(f"sqlite:///{part.absolute()}")
            names = [search.write(storage).study_name for search in searches]
            storage.remove_session()
            storage.engine.dispose()
    return names


def _plains(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with what is no plain value as JSON."""
    return {name: _plain(value) for name, value in params.items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else json.dumps(value)


def _distribution(declared: Range, values: Sequence[Any]) -> distributions.BaseDistribution | None:
    if declared.choices is not None:
        choices = [*map(_plain, declared.choices), *values]
        return distributions.CategoricalDistribution(list(dict.fromkeys(choices)))
    if not all(isinstance(value, int | float) for value in values):
        return None
    ends = [value for value in (declared.low, declared.high, *values) if value is not None]
    if declared.type == "int" and all(value % 1 == 0 for value in values):
        return distributions.IntDistribution(
            int(min(ends)), int(max(ends)), log=declared.log and min(ends) >= 1
        )
    return distributions.FloatDistribution(
        float(min(ends)), float(max(ends)), log=declared.log and min(ends) > 0
    )
