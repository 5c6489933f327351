"""Tuned configurations of a store and of imported files: which match, and which to start from on a scenario."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
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
from suite.results.table import FILE, TableFacts, Tables, nothing_in, read, run_id, spec_of
from suite.search.trial import InitialConfiguration
from suite.studies.entries import Entry
from trials import algorithms, datasets
from trials.common.errors import UserError, unknown
from trials.run.spec import SPELLING

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *(Column(head, ColumnKind.NAME) for head in ("algorithm", "scenario")),
    *(Column(head) for head in ("val", "test")),
    Column("params", ColumnKind.WORDS),
    Column("from", ColumnKind.NAME),
)


class TunedList(list[Tuned]):
    """Tuned configurations, those of a data set and level together, of these the best validated first."""

    def __repr__(self) -> str:
        lines = (f"{t.algorithm} on {t.scenario}: {params_text(t.params)}" for t in self)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(self.to_pandas().to_html())

    @property
    def table(self) -> Table:
        """The table of `suite tuned list`."""
        rows = []
        for item in self:
            scores = [scored(item.score(part), item.task.metric) for part in ("val", "test")]
            source = str(item.provenance.get("sweep", "a file"))
            names = [short(item.algorithm), str(item.scenario)]
            rows.append([*names, *scores, params_text(item.params), source])
        return table(COLUMNS, rows, essential=5)

    def to_pandas(self) -> "pd.DataFrame":
        """Return a row a configuration, with columns such as `params.lr` and `scores.val_accuracy`."""
        return frame(item.model_dump(mode="json") for item in self)


def tuned_of(tables: Tables, row: Row) -> Tuned:
    """Return the tuned configuration behind a row of a leaderboard of these tables."""
    facts, searches = tables.facts[row.sweep], tables.searches[row.sweep, row.entry_id]
    ordered = tables.finals.sort_values("seed", kind="stable").to_dict("records")
    finals = [final for final in ordered if run_id(final) in row.chosen]
    first, spec = finals[0], spec_of(finals[0])
    scores = {final["seed"]: final["test_score"] for final in finals}
    mean, between = row.mean, [row.ci_low, row.ci_high]
    if len(row.chosen) < len(row.runs):  # the row is about several tunings, the file about one
        mean, between = fmean(scores.values()), [*interval([*scores.values()])]
    validated = searches.loc[searches["trial_id"] == first["source"], "val_score"]
    asked = ("confirm", "tunings", "partitions", "sampler", "scheduler")
    budget = {key: value for key in asked if (value := facts.study.get(key)) not in (None, 1)}
    taken = ("study", "sweep", "origin", "warm_start", "partition_fingerprint")
    provenance = {
        **{key: first[key] for key in taken},
        "code": {name: facts.code[name] for name in spec.code if name in facts.code},
        "search_trial": first["source"],
        "suite_version": first["version"],
        "date": datetime.now(UTC).date().isoformat(),
        "runs": [run_id(final) for final in finals],
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
    """Return the tuned configurations of a sweep: none before it has ended."""
    source = f"sweep {sweep.name}"
    return [configuration.parse(entry.tuned, source) for entry in sweep.entries if entry.tuned]


def list_tuned(storage: Path, tracking_uri: str | None = None) -> list[Tuned]:
    """Return every tuned configuration: those of sweeps of a storage, or of a tracking server, that have ended, then imported files. No
    trial is read. Raises `UserError` where there is neither a sweep nor an imported file.
    """
    imported = sorted((storage / "imported").rglob("*.yaml"))
    places: list[Any] = sorted(storage.glob(f"*/{FILE}"))
    if tracking_uri is not None:
        from suite.tracking.store import Store  # MLflow takes a second to load

        store = Store(tracking_uri, storage)
        places = store.sweeps()
    elif not (places or imported):
        raise UserError(nothing_in(storage))
    configurations: list[Tuned] = []
    for place in places:
        try:
            path = store.table(place) if tracking_uri is not None else place
            configurations += tuned_in(read(path).facts)
        except UserError as error:
            say(str(error))
    return [*configurations, *map(configuration.read, imported)]


def select_tuned(
    configurations: list[Tuned],
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    level: str | None = None,
) -> TunedList:
    """Return the configurations that match every name given: those of a data set and level together, and of these the best
    validation score first; those tuned by clients' own scores, which are no others', last.
    """
    names = {"dataset": dataset, "model": model, "heterogeneity": level}
    wanted = {part: SPELLING[part](name) for part, name in names.items() if name is not None}
    matching = [t for t in configurations if wanted.items() <= t.scenario.names().items()]
    if algorithm is not None:
        asked = algorithms.canonical(algorithm)
        there = {item.algorithm for item in configurations} | set(algorithms.known())
        if not any(algorithms.is_named(name, asked) for name in there):
            raise unknown("algorithm", asked, map(algorithms.label, there))
        matching = [item for item in matching if algorithms.is_named(item.algorithm, asked)]
    matching.sort(key=lambda t: (t.dataset, t.heterogeneity, t.settings.metric != "pooled", t.loss))
    return TunedList(matching)


def best_of(configurations: TunedList) -> Tuned:
    """Return the best validated of configurations of one data set and level; raises `UserError` where they are of several, between
    which no score decides.
    """
    levels = {(item.dataset, shlex.quote(item.heterogeneity)) for item in configurations}
    if len(levels) > 1:
        lines = [f"--dataset {d} --heterogeneity {h}" for d, h in sorted(levels)[:10]]
        several = "what matches was tuned on several data sets or levels: name one of"
        raise UserError("\n  ".join([several, *lines]))
    return configurations[0]


def warm_start(
    entries: Sequence[Entry], known: Sequence[Tuned]
) -> dict[str, list[InitialConfiguration]]:
    """Return by entry the configuration of the same algorithm whose scenario is nearest: one with the entry's data set before one
    with its model, and that before one with its level, of equally near ones the first; none where the task has none. What the
    entry does not search or set is left out of it; the default configuration fills the rest.
    """
    warm: dict[str, list[InitialConfiguration]] = {entry.id: [] for entry in entries}
    for entry in entries:
        task, apart = datasets.parse(entry.scenario.dataset).task, []
        for item in known:
            if item.algorithm == entry.algorithm and datasets.parse(item.dataset).task == task:
                differs = [a != b for a, b in zip(item.scenario, entry.scenario, strict=True)]
                apart.append((differs, item))
        if apart:
            _, item = min(apart, key=lambda pair: pair[0])
            source = f"{item.scenario}, tuned by {item.provenance.get('sweep', 'a file')}"
            values = item.settings.model_dump() | item.params
            values = {k: values[k] for k in entry.space.ranges if values.get(k) is not None}
            warm[entry.id] = [InitialConfiguration("warm", entry.space.default(values), source)]
    return warm
