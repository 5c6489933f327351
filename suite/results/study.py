"""The searches of a sweep as Optuna studies, for Optuna's tools: one study per entry, or per replicate of its search."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import pandas as pd
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState

from suite.results.table import Row, TrialTable, history_of
from suite.yaml_files import replacing, writing
from trials.algorithm import Range
from trials.common.errors import UserError, unknown
from trials.common.mappings import only, without
from trials.run.outcome import Status, reason
from trials.run.spec import Scenario
from trials.scoring.metrics import TASKS

optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would announce each new study

ATTRIBUTES = ("trial_id", "status", "origin", "source", "seed", "seconds")
COLUMNS = (*ATTRIBUTES, "entry_id", "replicate", "params", "metric", "val_score", "error")
STATES = {Status.PRUNED: TrialState.PRUNED, Status.FINISHED: TrialState.COMPLETE}
"""Optuna's states by status. Every other status is a failure, also `diverged`: its score would hide all others in a chart."""


class SearchTrials(NamedTuple):
    """The ended trials of one search. `name` is unique in the sweep. `attributes` are those of the Optuna study, `ranges` are
    distributions by hyperparameter, and `rows` has the trials in the order of the table.
    """

    name: str
    attributes: dict[str, Any]
    ranges: dict[str, Any]
    rows: pd.DataFrame


def searches_of(table: TrialTable) -> Iterator[SearchTrials]:
    """Yield the sweep's searches with at least one ended trial, in the order of the study's entries."""
    rows, sweep = table.columns([*COLUMNS, "round", "val"], ("search",)), table.facts
    for entry in sweep.entries:
        for key, trials in rows[rows["entry_id"] == entry.id].groupby("replicate"):
            ranges, replicate = _ranges(entry.space, trials), str(key)
            attributes = entry.model_dump(include={"id", "algorithm", "metric", *Scenario._fields})
            attributes |= {"sweep": sweep.name, "sweep_id": sweep.id, "replicate": replicate}
            attributes["ranges"] = str(ranges)
            name = f"{entry.name} · {replicate}" if replicate else entry.name
            yield SearchTrials(name, attributes, ranges, trials)


def _ranges(space: Mapping[str, Range], rows: pd.DataFrame) -> dict[str, Any]:
    """Return each searched hyperparameter's Optuna distribution, widened to include all tried values. Optuna compares only
    trials with equal distributions. A distribution over choices, or over values that are not numbers, is categorical.
    """
    tried, ranges = [*map(json.loads, rows["params"])], dict[str, Any]()
    for name, declared in space.items():
        values = [_plain(params[name]) for params in tried if name in params]
        if declared.choices is None and all(isinstance(value, int | float) for value in values):
            ends: list[Any] = [*declared.ends, *values]
            kind = FloatDistribution if declared.type == "float" else IntDistribution
            ranges[name] = kind(min(ends), max(ends), log=declared.log and min(ends) > 0)
        else:
            choices = dict.fromkeys([*map(_plain, declared.choices or ()), *values])
            ranges[name] = CategoricalDistribution([*choices])
    return ranges


def _plain(value: Any) -> Any:
    """Return a value that Optuna can store: text, numbers and None unchanged, any other value as JSON."""
    return value if isinstance(value, str | int | float | None) else json.dumps(value)


def _trial(row: Row, ranges: Mapping[str, Any]) -> FrozenTrial:
    values = {name: _plain(value) for name, value in json.loads(row["params"]).items()}
    searched = only(values, ranges)
    attributes = {name: row[name] for name in ATTRIBUTES if pd.notna(row[name])}
    attributes |= without(values, ranges)
    if row["error"]:
        attributes["error"] = reason(row["error"])
    state = STATES.get(row["status"], TrialState.FAIL)
    if state == TrialState.COMPLETE and pd.isna(row["val_score"]):
        state = TrialState.FAIL
    history, score = history_of(row, ["val"]), f"val_{row['metric']}"
    return optuna.trial.create_trial(
        state=state,
        value=row["val_score"] if state == TrialState.COMPLETE else None,
        params=searched,
        distributions=only(ranges, searched),
        user_attrs=attributes,
        intermediate_values={int(e["round"]): e[score] for e in history if score in e},
    )


def add(search: SearchTrials, storage: BaseStorage) -> optuna.Study:
    """Add a search's missing trials to its Optuna study, and return the study. Create the study in `storage` if necessary."""
    study = optuna.create_study(
        storage=storage,
        study_name=f"{search.attributes['sweep']}: {search.name}",
        direction=TASKS[search.attributes["metric"]].direction,
        load_if_exists=True,
    )
    for name, value in search.attributes.items():
        study.set_user_attr(name, value)
    stored = {trial.user_attrs["trial_id"] for trial in study.get_trials(deepcopy=False)}
    missing = search.rows[~search.rows["trial_id"].isin(stored)].to_dict("records")
    study.add_trials(map(partial(_trial, ranges=search.ranges), missing))
    return study


def refresh(storage: BaseStorage, tables: Sequence[TrialTable]) -> None:
    """Update the Optuna studies in a storage from tables. New trials come last, so that earlier trials keep their numbers."""
    searches = [*chain.from_iterable(map(searches_of, tables))]
    current = [search.attributes for search in searches]
    for study in storage.get_all_studies():
        # Its ranges may have been widened, or another sweep may have got its name.
        if study.user_attrs not in current:
            storage.delete_study(storage.get_study_id_from_name(study.study_name))
    for search in searches:
        add(search, storage)


def study_of(table: TrialTable, name: str) -> optuna.Study:
    """Return the Optuna study of a search. `name` is the entry's name, or `ENTRY · t1` for the entry's repeated search `t1`."""
    searches = {search.name: search for search in searches_of(table)}
    if name not in searches:
        raise unknown(f"entry of sweep {table.facts.name}", name, searches)
    return add(searches[name], InMemoryStorage())


def export(table: TrialTable, path: Path) -> list[str]:
    """Write a sweep's searches as Optuna studies to a new SQLite file, and return the studies' names. Raise `UserError` if the
    file exists, no search trial has ended, or writing fails.
    """
    if path.exists():
        raise UserError(f"{path}: must be the name of a file that does not exist yet")
    searches = [*searches_of(table)]
    if not searches:
        raise UserError(f"no search trial of sweep {table.facts.name} has ended")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.touch()  # its error is easier to read than SQLite's
            storage = RDBStorage(f"sqlite:///{part.absolute()}")
            names = [add(search, storage).study_name for search in searches]
            storage.remove_session()
    return names
