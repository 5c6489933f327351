"""The entries of a study, each partitioned and fitted once to see that it can be run."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from suite.console import say
from suite.studies.entry import Entry
from suite.studies.replicates import FIRST, Replicate
from suite.studies.samplers import find_sampler
from suite.studies.space import Implied, RangeSpec, Space, space_file
from suite.studies.study import Study
from suite.studies.validation import Faults
from trials import algorithms, datasets
from trials.datasets.base import Dataset
from trials.models.base import Model
from trials.run.evaluation import refuse_personal
from trials.run.scenario import Scenario
from trials.run.spec import TrialSpec, refuse
from trials.run.trial import fit_model, load_dataset, partition_data

LARGEST_GRID = 1_000_000
"""Configurations of a grid, which is made whole before its order is drawn."""


def make_entries(study: Study, source: str) -> list[Entry]:
    """Every combination, algorithms innermost. Raises `UserError` with every fault: ranges that are
    none, settings that an algorithm refuses.
    """
    faults = Faults(source)
    if study.settings.val_fraction == 0:
        faults.add(
            "settings.val_fraction", 0, "a search needs validation data, so it must be above 0"
        )
    for fault in study.contradictions():
        faults.add(*fault)
    bounds: dict[str, float] = {name: bound.max for name, bound in study.constraints.items()}
    entries = []
    for dataset, model, level, algorithm in itertools.product(
        study.datasets, study.models, study.heterogeneity, study.algorithms
    ):
        cls = algorithms.resolve(algorithm)
        name = algorithms.canonical(algorithm)
        faults.attempt(
            "algorithms", algorithm, partial(refuse, algorithm, cls, study.settings, level)
        )
        scenario = Scenario.canonical(dataset, model, level)
        search = {key: spec.on(scenario.dataset) for key, spec in study.search.items()}
        space = faults.attempt(
            "search",
            None,
            partial(Space.build, algorithm, cls, study.settings, search, study.constraints),
        )
        if space is None:
            continue
        size = space.most_points(study.grid_points) if find_sampler(study.sampler).grid else 0
        if size > LARGEST_GRID:
            faults.add(
                "grid_points",
                study.grid_points,
                f"makes up to {size:,} configurations of {algorithm}, and a grid has at most "
                f"{LARGEST_GRID:,}: give fewer points, or sampler: random",
            )
        own = space_file(name)
        known = tuple(p for p in own.published if p.matches(scenario.dataset, scenario.model))
        task = datasets.parse(dataset).task.by(study.settings.metric)
        entries.append(
            Entry(
                name,
                scenario,
                study.settings,
                space,
                known,
                task,
                bounds,
                _implied(
                    own.implied(scenario.dataset, scenario.model), algorithm, space, search, study
                ),
            )
        )
    faults.check()
    return list({entry.id: entry for entry in entries}.values())


def _implied(
    default: Implied | None,
    algorithm: str,
    space: Space,
    search: Mapping[str, RangeSpec],
    study: Study,
) -> dict[str, Any]:
    """What a paper implies for a default configuration, of what is searched, within its range, and has no default that the
    study gives.
    """
    if default is None:
        return {}
    given = [key for key, spec in search.items() if spec.default is not None]
    return {
        name: value
        for name, value in default.values(study.settings.rounds).items()
        if not {name, f"{algorithm}.{name}"} & set(given) and space.holds(name, value)
    }


def load_data(
    entries: list[Entry], root: str | None, source: str, replicates: Sequence[Replicate] = (FIRST,)
) -> dict[str, Dataset]:
    """The data sets of all entries by `TrialSpec.dataset_key`, with every partition and split of the replicates,
    which are kept for the trials; models fitted to them, and every algorithm asked whether it can run there.
    Raises `UserError` with every fault.
    """
    parts = sorted({Replicate(of.split, of.partition) for of in replicates})
    faults = Faults(source)
    found: dict[tuple[str, str, str], Any] = {}

    def once(name: str, key: str, value: str, make: Callable[[], Any]) -> Any:
        if (name, key, value) not in found:
            found[name, key, value] = faults.attempt(name, value, make)
        return found[name, key, value]

    for entry, part in itertools.product(entries, parts):
        seeds = (0, entry.settings.partition_seed + part.partition, part.split)
        spec = entry.spec(entry.space.default(), *seeds)
        key = spec.dataset_key
        data = once("datasets", key, entry.scenario.dataset, partial(_loaded, spec, root))
        if data is None:
            continue
        model = once("models", key, entry.scenario.model, partial(fit_model, spec, data))
        level = entry.scenario.heterogeneity
        clients = once("heterogeneity", spec.data_key, level, partial(_clients, spec, data))
        if model is None or clients is None:
            continue
        if spec.settings.metric == "personal":
            serves = partial(_serves_each, spec, data, model)
            once("settings.metric", f"{spec.data_key}|{entry.scenario.model}", "personal", serves)
        for params in entry.space.corners():
            one = entry.spec(params, *seeds)
            check = partial(one.configured().check, clients, model, one.settings)
            faults.attempt("algorithms", entry.label, check)
    faults.check()
    return {key: data for (name, key, _), data in found.items() if name == "datasets"}


def _loaded(spec: TrialSpec, root: str | None) -> Dataset:
    """The data set of a spec; says how the columns of a table were taken."""
    dataset = load_dataset(spec, root)
    if dataset.note:
        say(f"{spec.dataset}: {dataset.note}")
    return dataset


def _serves_each(spec: TrialSpec, data: Dataset, model: Model) -> None:
    """Raise `UserError` where clients cannot be tested one by one."""
    refuse_personal(partition_data(spec, data), model)


def _clients(spec: TrialSpec, data: Dataset) -> int:
    """The number of clients of a partition, which is kept for the trials; says what of the data reaches nobody."""
    partitioned = partition_data(spec, data, keep=True)
    if partitioned.unreached:
        say(f"{spec.dataset}, {spec.heterogeneity}: {partitioned.unreached}")
    return partitioned.clients
