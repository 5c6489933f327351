"""Searches as Optuna's studies, for Optuna's tools: one for each entry, or for each replicate of its search."""

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

optuna.logging.set_verbosity(optuna.logging.WARNING)  # it says of each study that it was made

ATTRIBUTES = ("trial_id", "status", "origin", "source", "seed", "seconds")
COLUMNS = (*ATTRIBUTES, "entry_id", "replicate", "params", "metric", "val_score", "error")
STATES = {Status.PRUNED: TrialState.PRUNED, Status.FINISHED: TrialState.COMPLETE}
"""All other endings are failures. A diverged trial is one, too: its score, the worst there is, would hide all others in a plot."""


class SearchTrials(NamedTuple):
    """One search of a sweep. Its `name` is unique in the sweep. It has the ended trials in the table's order, and its
    study's attributes; the attribute `ranges` says in words what is searched.
    """

    name: str
    attributes: dict[str, Any]
    ranges: dict[str, Any]
    rows: pd.DataFrame


def searches_of(table: TrialTable) -> Iterator[SearchTrials]:
    """Yield the searches of a sweep that have trials, in the order of its study."""
    rows, sweep = table.columns([*COLUMNS, "round", "val"], ("search",)), table.facts
    for entry in sweep.entries:
        for key, own in rows[rows["entry_id"] == entry.id].groupby("replicate"):
            ranges, replicate = _ranges(entry.space, own), str(key)
            attributes = entry.model_dump(include={"id", "algorithm", "metric", *Scenario._fields})
            attributes |= {"sweep": sweep.name, "sweep_id": sweep.id, "replicate": replicate}
            attributes["ranges"] = str(ranges)
            name = f"{entry.name} · {replicate}" if replicate else entry.name
            yield SearchTrials(name, attributes, ranges, own)


def _ranges(space: Mapping[str, Range], rows: pd.DataFrame) -> dict[str, Any]:
    """Return each searched name's range as an Optuna distribution. It is widened to hold the tried values, since Optuna
    compares only trials of one range. Numbers mixed with words become choices.
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
    """Return a plain value as it is, any other as JSON."""
    return value if isinstance(value, str | int | float | None) else json.dumps(value)


def _trial(row: Row, ranges: Mapping[str, Any]) -> FrozenTrial:
    """Return a row as an Optuna trial."""
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
    """Add missing trials to the study in a storage, which is made where there is none. Return the study."""
    study = optuna.create_study(
        storage=storage,
        study_name=f"{search.attributes['sweep']}: {search.name}",
        direction=TASKS[search.attributes["metric"]].direction,
        load_if_exists=True,
    )
    for name, value in search.attributes.items():
        study.set_user_attr(name, value)
    there = {trial.user_attrs["trial_id"] for trial in study.get_trials(deepcopy=False)}
    fresh = search.rows[~search.rows["trial_id"].isin(there)].to_dict("records")
    study.add_trials(map(partial(_trial, ranges=search.ranges), fresh))
    return study


def refresh(storage: BaseStorage, tables: Sequence[TrialTable]) -> None:
    """Update the studies in a storage from tables. New trials come last, since a browser knows the others by number."""
    searches = [*chain.from_iterable(map(searches_of, tables))]
    current = [search.attributes for search in searches]
    for study in storage.get_all_studies():
        # A study has one range for all of its trials, and a sweep that began anew may have the old one's name.
        if study.user_attrs not in current:
            storage.delete_study(storage.get_study_id_from_name(study.study_name))
    for search in searches:
        add(search, storage)


def study_of(table: TrialTable, name: str) -> optuna.Study:
    """Return the search of an entry; ` · t1` at the end of its name selects a replicate. Raises `UserError` where there is none."""
    searches = {search.name: search for search in searches_of(table)}
    if name not in searches:
        raise unknown(f"entry of sweep {table.facts.name}", name, searches)
    return add(searches[name], InMemoryStorage())


def export(table: TrialTable, path: Path) -> list[str]:
    """Write a sweep's searches into a new SQLite file; return their names. Raises `UserError` if there are none or writing fails."""
    if path.exists():
        raise UserError(f"{path}: must be the name of a file that is not there yet")
    searches = [*searches_of(table)]
    if not searches:
        raise UserError(f"no search trial of sweep {table.facts.name} has ended")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.touch()  # which says in words why it cannot be
            storage = RDBStorage(f"sqlite:///{part.absolute()}")
            names = [add(search, storage).study_name for search in searches]
            storage.remove_session()
    return names
