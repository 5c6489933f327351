"""The entries of a study, each partitioned and fitted once to see that it can be run."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from suite.console import say
from suite.studies.entry import Entry
from suite.studies.replicates import FIRST, Replicate
from suite.studies.samplers import find_sampler
from suite.studies.space import Space, space_file
from suite.studies.study import Study
from suite.studies.validation import Faults
from trials import algorithms, datasets
from trials.datasets.base import Dataset
from trials.run.simulation import refuse_personal
from trials.run.spec import Scenario, refuse
from trials.run.trial import fit_model, load_dataset, partition_data


def make_entries(study: Study, source: str) -> list[Entry]:
    """Return every combination, algorithms innermost. Raises `UserError` with every fault: ranges that are
    none, settings that an algorithm refuses.
    """
    faults = Faults(source)
    if study.settings.val_fraction == 0:
        needed = "a search needs validation data, so it must be above 0"
        faults.add("settings.val_fraction", 0, needed)
    if "rounds_to_target" in study.constraints and study.target is None:
        faults.add("target", None, "is needed by rounds_to_target: a validation score")
    if study.partitions > 1 and study.vary_partition:
        rule = "partitions every final run anew, which `partitions` does for a search"
        faults.add("vary_partition", True, rule)
    entries: dict[str, Entry] = {}
    for dataset, model, level, algorithm in itertools.product(
        study.datasets, study.models, study.heterogeneity, study.algorithms
    ):
        subject = algorithm, algorithms.resolve(algorithm), study.settings
        faults.attempt("algorithms", algorithm, partial(refuse, *subject, level))
        scenario = Scenario.canonical(dataset, model, level)
        build = partial(Space.build, *subject, study.search, study.constraints)
        space = faults.attempt("search", None, build)
        if space is None:
            continue
        if find_sampler(study.sampler).grid:
            points = study.grid_points
            faults.attempt("grid_points", points, partial(space.grid, points))
        entry = _entry(study, algorithm, scenario, space)
        entries[entry.id] = entry  # two spellings of a name are one
    faults.check()
    return list(entries.values())


def _entry(study: Study, algorithm: str, scenario: Scenario, space: Space) -> Entry:
    """Return an entry, with what papers state for it within its space."""
    name = algorithms.canonical(algorithm)
    stated = space_file(name)
    implied: dict[str, Any] = {}
    for paper in stated.defaults:
        if paper.matches(scenario):
            implied = paper.values(study.settings.rounds)
            break
    for key, spec in study.search.items():
        owner, _, searched = key.rpartition(".")
        if spec.default is not None and owner in ("", algorithm):
            implied.pop(searched, None)  # what the study says goes before a paper
    return Entry(
        name,
        scenario,
        study.settings,
        space,
        tuple(published for published in stated.published if published.matches(scenario)),
        datasets.parse(scenario.dataset).task.by(study.settings.metric),
        {cost: bound.max for cost, bound in study.constraints.items()},
        {key: value for key, value in implied.items() if space.holds(key, value)},
    )


def load_data(
    entries: list[Entry], root: str | None, source: str, replicates: Sequence[Replicate] = (FIRST,)
) -> dict[str, Dataset]:
    """Return the data sets of all entries by `TrialSpec.dataset_key`, with every partition and split of the replicates,
    which are kept for the trials. Models are fitted to them, and every algorithm is asked whether it can run there.

    Raises `UserError` with every fault.
    """
    faults = Faults(source)
    results: dict[tuple[str, str, str], Any] = {}

    def once(name: str, key: str, value: str, make: Callable[[], Any]) -> Any:
        if (name, key, value) not in results:
            results[name, key, value] = faults.attempt(name, value, make)
        return results[name, key, value]

    # Tunings share their data; what is partitioned here is kept for the trials.
    parts = {(replicate.split, replicate.partition) for replicate in replicates}
    for entry, (split, partition) in itertools.product(entries, sorted(parts)):
        seeds = (0, entry.settings.partition_seed + partition, split)
        spec = entry.spec(entry.space.default(), *seeds)
        key, (name, model_name, level) = spec.dataset_key, entry.scenario
        data = once("datasets", key, name, partial(load_dataset, spec, root))
        if data is None:
            continue
        model = once("models", key, model_name, partial(fit_model, spec, data))
        partitioned = partial(partition_data, spec, data, keep=True)
        clients = once("heterogeneity", spec.data_key, level, partitioned)
        if model is None or clients is None:
            continue
        if spec.settings.metric == "personal":
            alone = partial(refuse_personal, clients, model)
            once("settings.metric", f"{spec.data_key}|{model_name}", "personal", alone)
        for params in entry.space.corners():
            corner = entry.spec(params, *seeds)
            check = partial(corner.configured().check, clients.clients, model, corner.settings)
            faults.attempt("algorithms", entry.label, check)
    faults.check()
    for (kind, key, name), content in results.items():
        # How the columns of a table were taken; what of the data reaches nobody.
        if kind == "datasets" and content.note:
            say(f"{name}: {content.note}")
        elif kind == "heterogeneity" and content.unreached:
            say(f"{key.partition('|')[0]}, {name}: {content.unreached}")
    return {key: data for (name, key, _), data in results.items() if name == "datasets"}
