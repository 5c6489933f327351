"""Selection of tuned configurations, from sweeps and imported files, by name or as the start of a search."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from operator import ne
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from reports.leaderboard.board import Row
from reports.leaderboard.statistics import interval
from reports.table import Column, ColumnKind, Table, frame, table
from reports.wording.words import params_text, scored, short
from suite.configurations import configuration
from suite.configurations.configuration import Tuned
from suite.console import say
from suite.results.table import FILE, TableFacts, Tables, nothing_in, read, spec_of
from suite.search.trial import InitialConfiguration
from suite.studies.entries import Entry
from trials import algorithms, datasets
from trials.common.errors import UserError, unknown
from trials.run.spec import SPELLING

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    Column("algorithm", ColumnKind.NAME),
    Column("scenario", ColumnKind.NAME),
    *map(Column, ("val", "test")),
    Column("params", ColumnKind.WORDS),
    Column("from", ColumnKind.NAME),
)


class TunedList(list[Tuned]):
    """The result of `suite.tuned()`: configurations sorted by data set, level, metric ("pooled" first) and validation score."""

    def __repr__(self) -> str:
        lines = [
            f"{item.algorithm} on {item.scenario}: {params_text(item.params)}" for item in self
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(self.to_pandas().to_html())

    @property
    def table(self) -> Table:
        """Return the table that `suite tuned list` prints."""
        rows = []
        for item in self:
            metric, source = item.task.metric, str(item.provenance.get("sweep", "a file"))
            scores = scored(item.score("val"), metric), scored(item.score("test"), metric)
            names = short(item.algorithm), str(item.scenario)
            rows.append([*names, *scores, params_text(item.params), source])
        return table(COLUMNS, rows, essential=5)

    def to_pandas(self) -> "pd.DataFrame":
        """Return a data frame with a row per configuration, and columns such as `params.lr` and `scores.val_accuracy`."""
        return frame(item.model_dump(mode="json") for item in self)


def tuned_of(tables: Tables, row: Row) -> Tuned:
    """Return the tuned configuration of a leaderboard's row. `tables` are the trial tables from which the leaderboard was made."""
    facts, searches = tables.facts[row.sweep], tables.searches[row.sweep, row.entry_id]
    ordered = tables.finals.sort_values("seed", kind="stable").to_dict("records")
    finals = [final for final in ordered if final["run_id"] in row.chosen]
    first, spec = finals[0], spec_of(finals[0])
    scores = {final["seed"]: final["test_score"] for final in finals}
    mean, between = row.mean, [row.ci_low, row.ci_high]
    if len(row.chosen) < len(row.runs):  # the row averages several tunings, the file has one
        mean, between = fmean(scores.values()), [*interval([*scores.values()])]
    validated = searches.loc[searches["trial_id"] == first["source"], "val_score"]
    effort = ("confirm", "tunings", "partitions", "sampler", "scheduler")
    budget = {key: value for key in effort if (value := facts.study.get(key)) not in (None, 1)}
    columns = ("study", "sweep", "origin", "warm_start", "partition_fingerprint")
    provenance = {
        **{key: first[key] for key in columns},
        "code": {name: facts.code[name] for name in spec.code if name in facts.code},
        "search_trial": first["source"],
        "suite_version": first["version"],
        "date": datetime.now(UTC).date().isoformat(),
        "runs": [final["run_id"] for final in finals],
    }
    return Tuned(
        algorithm=spec.algorithm,
        **spec.scenario.names(),
        params=spec.params,
        settings=spec.settings,
        scores={
            f"val_{first['metric']}": next(iter(validated.dropna()), None),
            f"test_{first['metric']}": mean,
            "test_interval_95": between,
            "test_by_seed": scores,
        },
        budget={"trials": row.trials, "rounds": spec.settings.rounds, **budget},
        provenance={key: value for key, value in provenance.items() if value},
    )


def tuned_in(sweep: TableFacts) -> list[Tuned]:
    """Return the tuned configurations of a sweep, or [] while it has not ended."""
    source = f"sweep {sweep.name}"
    return [configuration.parse(entry.tuned, source) for entry in sweep.entries if entry.tuned]


def list_tuned(storage: Path, tracking_uri: str | None = None) -> list[Tuned]:
    """Return all tuned configurations, from ended sweeps first, then from imported files. Sweeps are read from `storage` or,
    with `tracking_uri`, from an MLflow server. Raise `UserError` if a folder has neither sweeps nor imported files.
    """
    imported = sorted((storage / "imported").rglob("*.yaml"))
    sources: list[Any] = sorted(storage.glob(f"*/{FILE}"))
    if tracking_uri is not None:
        from suite.tracking.store import Store  # MLflow takes a second to load

        store = Store(tracking_uri, storage)
        sources = store.sweeps()
    elif not (sources or imported):
        raise UserError(nothing_in(storage))
    configurations: list[Tuned] = []
    for source in sources:
        try:
            path = store.table(source) if tracking_uri is not None else source
            configurations += tuned_in(read(path).facts)
        except UserError as error:  # the other sweeps' tables may be readable
            say(str(error))
    return [*configurations, *map(configuration.read, imported)]


def select_tuned(
    configurations: list[Tuned], algorithm: str | None = None, **scenario: str | None
) -> TunedList:
    """Return the configurations for an algorithm and parts of a scenario, sorted by data set and then by level. Within a level,
    those for the metric "pooled" come before others, and better validation scores before worse ones. Raise `UserError` for an
    unknown algorithm.
    """
    wanted = {part: SPELLING[part](name) for part, name in scenario.items() if name is not None}
    name = None if algorithm is None else algorithms.canonical(algorithm)
    names, matching = set(algorithms.known()), TunedList()
    for item in configurations:
        names.add(item.algorithm)
        if name is None or algorithms.is_named(item.algorithm, name):
            matching += [item] if wanted.items() <= item.scenario.names().items() else []
    if name is not None and name not in {*names, *map(algorithms.label, names)}:
        raise unknown("algorithm", name, map(algorithms.label, names))
    matching.sort(key=lambda t: (t.dataset, t.heterogeneity, t.settings.metric != "pooled", t.loss))
    return matching


def best_of(configurations: TunedList) -> Tuned:
    """Return the configuration with the best validation score. Raise `UserError` unless all have the same data set and level."""
    levels = {(item.dataset, shlex.quote(item.heterogeneity)) for item in configurations}
    if len(levels) > 1:
        lines = [f"--dataset {d} --heterogeneity {h}" for d, h in sorted(levels)[:10]]
        several = "these names match several data sets or levels: choose one of"
        raise UserError("\n  ".join([several, *lines]))
    return configurations[0]


def warm_start(
    entries: Sequence[Entry], configurations: Sequence[Tuned]
) -> dict[str, list[InitialConfiguration]]:
    """Return a configuration to start each entry from: by entry id, a list with the tuned configuration nearest to the entry.
    The list is empty if none has the entry's algorithm and task. Configurations of the same data set are nearest, then those
    of the same model, then those of the same level. Hyperparameters without a value get the entry's defaults.
    """
    warm: dict[str, list[InitialConfiguration]] = {}
    for entry in entries:
        task, candidates = datasets.parse(entry.scenario.dataset).task, list[Tuned]()
        for item in configurations:
            if item.algorithm == entry.algorithm and datasets.parse(item.dataset).task == task:
                candidates.append(item)
        warm[entry.id] = []
        if candidates:
            nearest = min(candidates, key=lambda item: [*map(ne, item.scenario, entry.scenario)])
            source = f"{nearest.scenario}, tuned by {nearest.provenance.get('sweep', 'a file')}"
            values = nearest.settings.model_dump() | nearest.params
            values = {k: values[k] for k in entry.space.ranges if values.get(k) is not None}
            warm[entry.id] = [InitialConfiguration("warm", entry.space.default(values), source)]
    return warm
