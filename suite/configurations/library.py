"""Tuned configurations of a store and of imported files: which match, and which to start from on a scenario.

That is its own, else the nearest scenario's. The distance of two scenarios is a sum over their parts (docs/reproduce.md).
"""

import math
import shlex
from collections.abc import Iterable, Sequence
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
from suite.results.table import FILE, Tables, TrialTable, nothing_in, read, run_id, spec_of
from suite.search.trial import InitialConfiguration
from suite.studies.entries import Entry
from trials import algorithms, datasets, heterogeneity
from trials.common import plugins
from trials.common.errors import UserError, unknown
from trials.common.names import split_top
from trials.run.spec import SPELLING, Scenario, outside, refuse

if TYPE_CHECKING:
    import pandas as pd

LABELS = 10
"""The number of labels that skews are computed for: a level has no data of its own."""
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
    ordered = tables.finals.sort_values("seed").to_dict("records")
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


def tuned_in(tables: Iterable[TrialTable]) -> list[Tuned]:
    """Return the tuned configurations of sweeps that have ended."""
    return [
        configuration.parse(entry.tuned, f"sweep {table.facts.name}, {entry.name}")
        for table in tables
        for entry in table.facts.entries
        if entry.tuned
    ]


def list_tuned(storage: Path, tracking_uri: str | None = None) -> list[Tuned]:
    """Return every tuned configuration: the sweeps' of a storage, or of a tracking server, then imported files. No trial is
    read. Raises `UserError` where there is neither a sweep nor an imported file.
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
            configurations += tuned_in([read(path)])
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

    def place(item: Tuned) -> tuple[str, str, bool, float]:
        return item.dataset, item.heterogeneity, item.settings.metric != "pooled", item.loss

    return TunedList(sorted(matching, key=place))


def best_of(configurations: TunedList) -> Tuned:
    """Return the best validated of configurations of one data set and level; raises `UserError` where they are of several, between
    which no score decides.
    """
    levels = {(item.dataset, item.heterogeneity) for item in configurations}
    if len(levels) > 1:
        lines = [f"--dataset {d} --heterogeneity {shlex.quote(h)}" for d, h in sorted(levels)[:10]]
        several = "what matches was tuned on several data sets or levels: name one of"
        raise UserError("\n  ".join([several, *lines]))
    return configurations[0]


def distance(a: Scenario, b: Scenario) -> float:
    """Return how far two scenarios with canonical names are from each other: 0 for the same one, infinite between tasks."""
    ours, theirs = datasets.parse(a.dataset), datasets.parse(b.dataset)
    if ours.task != theirs.task:
        return math.inf
    same_kind = ours.kind != "" and ours.kind == theirs.kind
    apart = _apart(a.dataset, b.dataset, same_kind) + _apart(a.model, b.model)
    if a.heterogeneity != b.heterogeneity:
        skews = [skew(split_top(s.heterogeneity, "+")[0]) for s in (a, b)]
        known = [value for value in skews if value is not None]
        apart += 0.1 + (max(known) - min(known) if len(known) == 2 else 0.5 * len(known))
    return apart


def _apart(a: str, b: str, same_kind: bool = False) -> float:
    """Return the distance between the names of two data sets, or of two models."""
    # `npz:PATH` is all name; what `mlp(100)` has in parentheses are arguments.
    alike = same_kind or (":" not in a and a.partition("(")[0] == b.partition("(")[0])
    return 0.0 if a == b else 0.5 if alike else 1.0


def skew(partition: str) -> float | None:
    """Return what a partition says of `LABELS` labels (`Partition.skew`); None where it depends on the data, and for
    code of others, which does not run to be compared.
    """
    own = plugins.named(partition)
    return None if own else heterogeneity.PARTITIONS.read(partition)[1].skew(LABELS)


def recommend(
    known: Sequence[Tuned],
    dataset: str,
    level: str,
    algorithm: str | None = None,
    model: str | None = None,
) -> tuple[float, Tuned]:
    """Return the best by validation score of the nearest scenario, and how far that is from the one asked for. Without an
    algorithm, of all that leaderboards rank; without a model, of any model.

    Raises `UserError` on unknown names, and when nothing known belongs to the data set's task.
    """
    name = algorithms.canonical(algorithm) if algorithm else None
    dataset, level = SPELLING["dataset"](dataset), SPELLING["heterogeneity"](level)
    model = SPELLING["model"](model) if model else None
    apart = []
    for item in known:
        # Without a model each configuration is as near as if its own had been asked for.
        away = distance(Scenario(dataset, model or item.model, level), item.scenario)
        asked_for = name is None or algorithms.is_named(item.algorithm, name)
        if math.isfinite(away) and asked_for and _runs_at(item, level, ranked=name is None):
            apart.append((away, item.loss, item.algorithm, item.model, item))
    if not apart:
        raise UserError(
            f"no tuned configuration of {name or 'a ranked algorithm'} fits {dataset}: see `suite tuned list`, "
            "make one with `suite sweep`, or add some with `suite tuned import`"
        )
    away, *_, best = min(apart, key=lambda candidate: candidate[:-1])
    return away, best


def _runs_at(item: Tuned, level: str, ranked: bool) -> bool:
    """Return whether a configuration can run at a level, and perhaps whether leaderboards would rank it."""
    if plugins.named(item.algorithm):  # code of others does not run for an answer
        return True
    cls = algorithms.resolve(item.algorithm)
    try:
        refuse(item.algorithm, cls, item.settings, level)
    except UserError:
        return False
    return not (ranked and (cls.reference or outside(cls, item.settings)))


def warm_start(
    entries: Sequence[Entry], known: Sequence[Tuned]
) -> dict[str, list[InitialConfiguration]]:
    """Return by entry the configuration of the same algorithm whose scenario is nearest, of equally near ones the first;
    none where there is none. What the entry does not search or set is left out of it; the default configuration fills the rest.
    """
    warm: dict[str, list[InitialConfiguration]] = {entry.id: [] for entry in entries}
    for entry in entries:
        own = [item for item in known if item.algorithm == entry.algorithm]
        apart = [(distance(entry.scenario, item.scenario), item) for item in own]
        away, item = min(apart, key=lambda pair: pair[0], default=(math.inf, None))
        if item is not None and math.isfinite(away):
            tuned_by = item.provenance.get("sweep", "a file")
            source = f"{item.scenario}, tuned by {tuned_by}: {away:.2f} away"
            values = item.settings.model_dump() | item.params
            values = {k: values[k] for k in entry.space.ranges if values.get(k) is not None}
            warm[entry.id] = [InitialConfiguration("warm", entry.space.default(values), source)]
    return warm
