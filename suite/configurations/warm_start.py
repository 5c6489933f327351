"""Warm starts: for each entry the nearest tuned configuration of its algorithm, to be tried early."""

import os
from collections.abc import Sequence
from pathlib import Path

from suite.configurations import configuration as tuned
from suite.configurations.configuration import Tuned
from suite.configurations.distance import nearest
from suite.search.trial import InitialConfiguration
from suite.studies.entry import Entry
from trials import algorithms
from trials.common.errors import UserError

NEAREST = "nearest"
"""`warm_start: nearest`: among all that the storage holds."""


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
    """A start of an entry; raises `UserError` where a hyperparameter has a value that the algorithm never takes."""
    values = {**item.settings.model_dump(), **item.params}
    source = f"{item.scenario}, tuned by {item.provenance.get('sweep', 'a file')}: {distance}"
    given = {k: values[k] for k in entry.space.ranges if values.get(k) is not None}
    cls = algorithms.resolve(entry.algorithm)
    try:
        for name in given.keys() & cls.ranges():
            cls.checked(name, given[name])
    except UserError as error:
        raise UserError(f"warm start of {entry.name} from {source}: {error}") from None
    return InitialConfiguration("warm", entry.space.default(given), source)
