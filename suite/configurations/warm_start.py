"""Warm starts: for each entry the nearest tuned configuration of its algorithm, or a portfolio, to be tried early."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.configurations import configuration as tuned
from suite.configurations.configuration import Tuned
from suite.configurations.distance import nearest
from suite.configurations.portfolio import Portfolio, portfolio
from suite.console import say
from suite.search.trial import InitialConfiguration
from suite.studies.entry import Entry
from trials import algorithms
from trials.common.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

NEAREST = "nearest"
"""`warm_start: nearest`: among all that the storage holds."""


def portfolio_size(where: str) -> int | None:
    """The k of `portfolio(k)`; None where that is not asked for. Raises `UserError` for one below 1."""
    found = re.fullmatch(r"portfolio\(([0-9]{1,4})\)", where)
    if found is None:
        return None
    if int(found[1]) < 1:
        raise UserError(f"warm_start {where}: a portfolio has at least 1 configuration")
    return int(found[1])


def from_portfolio(
    entries: Sequence[Entry], k: int, trials: "pd.DataFrame"
) -> dict[str, list[InitialConfiguration]]:
    """By entry, the first k configurations of its algorithm's portfolio in a bank; none, which is said, where the bank has no
    portfolio of it.
    """
    made: dict[str, Portfolio | None] = {}
    for name in dict.fromkeys(entry.algorithm for entry in entries):
        try:
            made[name] = portfolio(name, k, trials=trials)
        except UserError as error:
            say(f"{name} starts without a portfolio: {error}")
    return {
        entry.id: [_started(entry, member.params, of.source) for member in of.members]
        if (of := made.get(entry.algorithm))
        else []
        for entry in entries
    }


def tuned_files(path: Path) -> list[Tuned]:
    """A tuned file, or all below a folder; raises `UserError` when there is none."""
    paths = sorted(path.rglob("*.yaml")) if os.path.isdir(path) else [path]
    if not paths:
        raise UserError(f"warm_start {path}: holds no tuned file (*.yaml)")
    return [tuned.read(found) for found in paths]


def warm_start(
    entries: Sequence[Entry], found: Sequence[Tuned]
) -> dict[str, list[InitialConfiguration]]:
    """By entry, the configuration of the same algorithm whose scenario is nearest (`suite.configurations.distance`), of
    equally near ones the first; none where there is none.

    What the entry does not search or set is left out of a configuration; the default configuration fills the rest.
    """
    warm: dict[str, list[InitialConfiguration]] = {}
    for entry in entries:
        own = nearest(entry.scenario, [item for item in found if item.algorithm == entry.algorithm])
        warm[entry.id] = [_known(entry, item, str(distance)) for distance, item in own[:1]]
    return warm


def _known(entry: Entry, item: Tuned, distance: str) -> InitialConfiguration:
    values = {**item.settings.model_dump(), **item.params}
    source = f"{item.scenario}, tuned by {item.provenance.get('sweep', 'a file')}: {distance}"
    return _started(entry, values, source)


def _started(entry: Entry, values: Mapping[str, Any], source: str) -> InitialConfiguration:
    """A start of an entry; raises `UserError` where a hyperparameter has a value that the algorithm never takes."""
    given = {k: values[k] for k in entry.space.ranges if values.get(k) is not None}
    cls = algorithms.resolve(entry.algorithm)
    try:
        for name in given.keys() & cls.ranges():
            cls.checked(name, given[name])
    except UserError as error:
        raise UserError(f"warm start of {entry.name} from {source}: {error}") from None
    return InitialConfiguration("warm", entry.space.default(given), source)
