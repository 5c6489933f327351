"""Warm starts: for each entry the nearest tuned configuration of its algorithm, to be tried early."""

from collections.abc import Sequence
from pathlib import Path

from suite.configurations.configuration import Tuned, files_at, read
from suite.configurations.nearest import nearest
from suite.search.trial import InitialConfiguration
from suite.studies.entry import Entry
from trials import algorithms
from trials.common.errors import UserError

NEAREST = "nearest"
"""`warm_start: nearest`: among all that the storage holds."""


def tuned_files(path: Path) -> list[Tuned]:
    """Read a tuned file, or all below a folder; raises `UserError` when there is none."""
    return [read(file) for file in files_at(path)]


def warm_start(
    entries: Sequence[Entry], known: Sequence[Tuned]
) -> dict[str, list[InitialConfiguration]]:
    """Return by entry the configuration of the same algorithm whose scenario is nearest, of equally near ones the first;
    none where there is none. What the entry does not search or set is left out of it; the default configuration fills the rest.

    Raises `UserError` where a hyperparameter has a value that the algorithm never takes.
    """
    warm: dict[str, list[InitialConfiguration]] = {entry.id: [] for entry in entries}
    for entry in entries:
        own = [item for item in known if item.algorithm == entry.algorithm]
        for distance, item in nearest(entry.scenario, own)[:1]:
            tuned_by = item.provenance.get("sweep", "a file")
            source = f"{item.scenario}, tuned by {tuned_by}: {distance}"
            every = {**item.settings.model_dump(), **item.params}
            values = {k: every[k] for k in entry.space.ranges if every.get(k) is not None}
            cls = algorithms.resolve(entry.algorithm)
            try:
                for name in values.keys() & cls.ranges():
                    cls.checked(name, values[name])
            except UserError as error:
                raise UserError(f"warm start of {entry.name} from {source}: {error}") from None
            start = InitialConfiguration("warm", entry.space.default(values), source)
            warm[entry.id].append(start)
    return warm
