"""Tuned configurations of a store and of imported files, and which of them match."""

import shlex
from collections.abc import Iterable
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
from suite.results.table import FILE, TrialTable, read
from suite.results.tables import Tables, nothing_in, run_id, spec_of
from trials import algorithms
from trials.common.errors import UserError
from trials.run.spec import SPELLING

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10
"""Choices that a message names at most."""
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
        from reports.page.notebook import html

        return html([self.table])

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
    budget: dict[str, Any] = {"trials": row.trials, "rounds": spec.settings.rounds}
    for key in ("confirm", "tunings", "partitions", "sampler", "scheduler"):
        if facts.study.get(key) not in (None, 1):
            budget[key] = facts.study[key]
    provenance = {
        "study": row.study,
        "sweep": row.sweep,
        "origin": first["origin"],
        "warm_start": first["warm_start"],
        "code": {name: facts.code[name] for name in spec.code if name in facts.code},
        "search_trial": first["source"],
        "suite_version": first["version"],
        "partition_fingerprint": first["partition_fingerprint"],
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
        budget=budget,
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
        places = store.tables()
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
    """Return the configurations that match every name given: scenario by scenario, as they first come, and of
    each the best validation score first; those tuned by clients' own scores, which are no others', last.
    """
    names = {"dataset": dataset, "model": model, "heterogeneity": level}
    wanted = {part: SPELLING[part](name) for part, name in names.items() if name is not None}
    matching = [t for t in configurations if wanted.items() <= t.scenario.names().items()]
    if algorithm is not None:
        asked = algorithms.canonical(algorithm)
        matching = [item for item in matching if algorithms.is_named(item.algorithm, asked)]
    levels = _levels(matching)

    def place(item: Tuned) -> tuple[int, bool, float]:
        level = item.dataset, item.heterogeneity
        return levels.index(level), item.settings.metric != "pooled", item.loss

    return TunedList(sorted(matching, key=place))


def best_of(configurations: TunedList) -> Tuned:
    """Return the best validated of configurations of one scenario; raises `UserError` where they are of several,
    between which no score decides.
    """
    levels = [f"--dataset {d} --heterogeneity {shlex.quote(h)}" for d, h in _levels(configurations)]
    if len(levels) > 1:
        several = "what matches was tuned on several data sets or levels: name one of"
        raise UserError("\n  ".join([several, *levels[:SHOWN]]))
    return configurations[0]


def _levels(configurations: Iterable[Tuned]) -> list[tuple[str, str]]:
    """Return data sets and levels in their order: scores on others say nothing of which configuration is better."""
    return list(dict.fromkeys((item.dataset, item.heterogeneity) for item in configurations))
