"""The entries of a study, each an algorithm in a scenario, and the check that all of them can run."""

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from suite.console import say
from suite.studies.replicates import FIRST, Replicate
from suite.studies.samplers import find_sampler
from suite.studies.space import Space, Stated, space_file
from suite.studies.study import Study
from suite.studies.validation import Faults
from trials import algorithms, datasets
from trials.algorithm import Algorithm
from trials.common.mappings import only, without
from trials.datasets.base import Dataset
from trials.run.simulation import refuse_personal
from trials.run.spec import Scenario, TrialSpec, away, outside, refuse
from trials.run.trial import fit_model, load_dataset, partition_data
from trials.scoring.metrics import Task
from trials.settings import Settings


@dataclass(frozen=True)
class Entry:
    """An algorithm in a scenario (data set, model, heterogeneity level), with the settings, space and constraints of a study."""

    algorithm: str
    scenario: Scenario
    settings: Settings
    space: Space
    known: tuple[Stated, ...]
    task: Task
    constraints: Mapping[str, float] = field(default_factory=dict)
    implied: Mapping[str, Any] = field(default_factory=dict)
    """Default values that a paper implies for this scenario. They replace the algorithm's own default values."""

    @property
    def _cls(self) -> type[Algorithm]:
        return algorithms.resolve(self.algorithm)

    @property
    def paper(self) -> str:
        """The name of the paper that the algorithm is from."""
        return self._cls.paper

    def outside(self, params: Mapping[str, Any] | None = None) -> str:
        """Return which settings of a configuration (None: the default) break its paper's assumptions, and why, or "" if none do."""
        return outside(self._cls, self.spec(params or self.space.default(), 0).settings)

    @property
    def away(self) -> str:
        """Return the features of the paper's experiments that the default configuration lacks, such as unequal work; "" if none."""
        settings = self.spec(self.space.default(), 0).settings
        return away(self._cls, settings, self.scenario.heterogeneity)

    @property
    def unscored(self) -> bool:
        """Return whether the score ignores the personal models that the algorithm makes for its clients."""
        owner = next(cls for cls in self._cls.__mro__ if "personal" in vars(cls))
        ignored = owner is not Algorithm and "scored" not in vars(owner)
        return ignored and self.settings.metric != "personal"

    def reference(self, params: Mapping[str, Any] | None = None) -> bool:
        """Return whether leaderboards show a configuration (None: the default) without a rank. This is so for reference
        algorithms (except under their metric `ranked_under`), and for settings that break assumptions of the paper.
        """
        unranked = self._cls.reference and self._cls.ranked_under != self.settings.metric
        return unranked or bool(self.outside(params))

    @cached_property
    def id(self) -> str:
        """Return a hash of the algorithm, scenario, settings, search space and constraints. Data seeds and execution are left out."""
        excluded = {"data_seed", "partition_seed", "execution", "chunk"}
        fixed = self.settings.model_dump(exclude=excluded, exclude_defaults=True)
        content = [self.algorithm, *self.scenario, fixed, self.space.describe()]
        if self.constraints:
            content.append({"constraints": dict(self.constraints)})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """Return the entry's readable name, such as `folb · digits · logreg · dirichlet(0.3)`."""
        return f"{self.label} · {self.scenario}"

    def about(self) -> dict[str, str]:
        """Return a dict with the names of the algorithm, data set, model, heterogeneity level and ranking metric."""
        return {"algorithm": self.algorithm, **self.scenario.names(), "metric": self.task.metric}

    @property
    def label(self) -> str:
        """The short name of the algorithm, or the class name of a third party's algorithm."""
        return algorithms.label(self.algorithm)

    @property
    def stops(self) -> tuple[int, ...]:
        """Return the rounds at which early stopping may end a trial: g, 3 g, 9 g, ..., if trials are evaluated every g rounds."""
        gap, rounds = self.settings.evaluation_gap, self.settings.rounds
        return tuple(itertools.takewhile(lambda r: r < rounds, (gap * 3**k for k in range(64))))

    def spec(
        self, params: Mapping[str, Any], seed: int, partition_seed: int = 0, split: int = 0
    ) -> TrialSpec:
        """Return the specification of a trial with hyperparameters and settings `params`. `split` is added to the data seed."""
        hyperparameters = only(params, self._cls.ranges())
        settings = self.settings.model_dump() | without(params, hyperparameters)
        settings["partition_seed"] = partition_seed
        settings["data_seed"] += split
        return TrialSpec(
            algorithm=self.algorithm,
            params=hyperparameters,
            **self.scenario.names(),
            settings=Settings(**settings),
            seed=seed,
        )


def make_entries(study: Study, source: str) -> list[Entry]:
    """Return an entry for each combination of data set, model, level and algorithm. Raise one `UserError` that lists all faults."""
    faults = Faults(source)
    if study.settings.val_fraction == 0:
        faults.add("settings.val_fraction", 0, "must be above 0: a search needs validation data")
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
        rate = space.searched.get("lr")
        if find_sampler(study.sampler).line and (rate is None or rate.choices is not None):
            faults.add("search.lr", None, "must be an interval: the sampler line halves it")
        entry = _entry(study, algorithm, scenario, space)
        entries[entry.id] = entry  # two spellings of a name give one entry
    faults.check()
    return list(entries.values())


def _entry(study: Study, algorithm: str, scenario: Scenario, space: Space) -> Entry:
    """Return an algorithm's entry in a scenario. A default that the study does not set is taken from a paper if it lies in `space`."""
    name = algorithms.canonical(algorithm)
    stated = space_file(name)
    implied: dict[str, Any] = {}
    if paper := next((paper for paper in stated.defaults if paper.matches(scenario)), None):
        shares = paper.of_rounds.items()
        implied = paper.params | {name: share * study.settings.rounds for name, share in shares}
    for key, spec in study.search.items():
        owner, _, searched = key.rpartition(".")
        if spec.default is not None and owner in ("", algorithm):
            implied.pop(searched, None)  # the study's default goes before the paper's
    return Entry(
        name,
        scenario,
        study.settings,
        space,
        tuple(published for published in stated.published if published.matches(scenario)),
        datasets.parse(scenario.dataset).task.by(study.settings.metric),
        {cost: bound.max for cost, bound in study.constraints.items()},
        {k: v for k, v in implied.items() if k in space.searched and space.ranges[k].holds(v)},
    )


def load_data(
    entries: list[Entry], root: str | None, source: str, replicates: Sequence[Replicate] = (FIRST,)
) -> dict[str, Dataset]:
    """Load the data sets of all entries, and return them by `TrialSpec.dataset_key`. Check that all entries can run: make all
    partitions, which are kept for the trials, and build all models. Raise one `UserError` that lists everything that fails.
    """
    faults = Faults(source)
    results: dict[tuple[str, str, str], Any] = {}

    def once(name: str, key: str, value: str, make: Callable[[], Any]) -> Any:
        if (name, key, value) not in results:
            results[name, key, value] = faults.attempt(name, value, make)
        return results[name, key, value]

    # Tunings of one partition and split have the same data.
    parts = {(replicate.split, replicate.partition) for replicate in replicates}
    for entry, (split, partition) in itertools.product(entries, sorted(parts)):
        seeds = (0, entry.settings.partition_seed + partition, split)
        first = entry.spec(entry.space.default(), *seeds)
        key, (name, model_name, level) = first.dataset_key, entry.scenario
        data = once("datasets", key, name, partial(load_dataset, first, root))
        if data is None:
            continue
        model = once("models", key, model_name, partial(fit_model, first, data))
        partitioned = partial(partition_data, first, data, keep=True)
        clients = once("heterogeneity", first.data_key, level, partitioned)
        if model is None or clients is None:
            continue
        if entry.settings.metric == "personal":
            alone = partial(refuse_personal, clients, model)
            faults.attempt("settings.metric", "personal", alone)
        changes: list[dict[str, Any]] = [{}]  # the default, then with each choice of a name
        for choice, spec in entry.space.ranges.items():
            changes += [{choice: value} for value in spec.choices or ()]
        for change in changes:
            trial = entry.spec(entry.space.default(change), *seeds)
            check = partial(trial.configured().check, clients.clients, model, trial.settings)
            faults.attempt("algorithms", entry.label, check)
    faults.check()
    for (kind, key, name), content in results.items():
        # Say how a table's columns became samples, and which samples no client has.
        if kind == "datasets" and content.note:
            say(f"{name}: {content.note}")
        elif kind == "heterogeneity" and content.unreached:
            say(f"{key.partition('|')[0]}, {name}: {content.unreached}")
    return {key: data for (name, key, _), data in results.items() if name == "datasets"}
