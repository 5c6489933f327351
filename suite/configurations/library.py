"""Tuned configurations of a store and of imported files, and which of them match."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from reports.frames import frame
from reports.leaderboard.board import Row
from reports.leaderboard.statistics import interval
from reports.table import Column, ColumnKind, Table, table
from reports.wording.words import number, params_text, short
from suite.configurations import configuration as tuned
from suite.configurations.configuration import Tuned
from suite.results.query import EVERYTHING, Query, published
from suite.results.searched import Searched, chosen
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.store import Store, open_existing
from trials import algorithms
from trials.common.errors import UserError, unknown
from trials.run.scenario import SPELLING

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10
"""Choices that a message names at most."""


class TunedList(list[Tuned]):
    """Tuned configurations, those of a data set and level together, of these the best validated first."""

    def __repr__(self) -> str:
        lines = (f"{t.algorithm} on {t.scenario}: {params_text(t.params)}" for t in self)
        return "\n".join(lines) or "no tuned configuration"

    def _repr_html_(self) -> str:
        from reports.page.notebook import html

        return html([self.table])

    @property
    def table(self) -> Table:
        """The table of `suite tuned list`."""
        columns = (
            Column("algorithm", ColumnKind.NAME),
            Column("scenario", ColumnKind.NAME),
            Column("val"),
            Column("test"),
            Column("params", ColumnKind.WORDS),
            Column("from", ColumnKind.NAME),
        )
        rows = []
        for item in self:
            scores = [item.scores.get(f"{part}_{item.task.metric}") for part in ("val", "test")]
            known = (score if isinstance(score, int | float) else None for score in scores)
            source = str(item.provenance.get("sweep", "a file"))
            name, scenario = short(item.algorithm), str(item.scenario)
            rows.append([name, scenario, *map(number, known), params_text(item.params), source])
        return table(columns, rows, essential=5)

    def to_pandas(self) -> "pd.DataFrame":
        """A row a configuration, with columns such as `params.lr` and `scores.val_accuracy`."""
        return frame(item.model_dump(mode="json") for item in self)


def tuned_of(
    runs: Sequence[Record], searches: Sequence[Searched], row: Row, rows: Sequence[Row]
) -> Tuned:
    """The tuned configuration behind a leaderboard row, from the final runs and the search trials of its entry; `rows`
    are all of the board.
    """
    finals = [run for run in runs if run.run_id in row.chosen]
    finals.sort(key=lambda run: run.tags.seed)
    first = finals[0].tags
    spec = first.spec
    confirming = sum(one.confirm for one in searches)
    scores = [run.metrics["test_score"] for run in finals]
    mean, between = row.mean, [row.ci_low, row.ci_high]
    if len(row.chosen) < len(row.runs):  # the row is about several tunings, the file about one
        mean, between = fmean(scores), [*interval(scores)]
        confirming //= len(row.by_replicate)
    validated = chosen(searches, first.source)
    return Tuned(
        algorithm=spec.algorithm,
        **spec.scenario.names(),
        params=spec.params,
        settings=spec.settings,
        scores={
            f"val_{first.metric}": validated,
            f"test_{first.metric}": mean,
            "test_interval_95": between,
            "test_by_seed": {r.tags.seed: r.metrics["test_score"] for r in finals},
        },
        budget={
            "trials": row.trials,
            **({"confirming": confirming} if confirming else {}),
            **({"tunings": row.tunings} if row.tunings > 1 else {}),
            **({"partitions": row.partitions} if row.partitions > 1 else {}),
            "rounds": spec.settings.rounds,
            "sampler": first.sampler,
            "scheduler": first.scheduler,
        },
        provenance={
            "study": row.study,
            "sweep": row.sweep,
            "origin": first.origin,
            **({"warm_start": first.warm_start} if "warm_start" in first else {}),
            **({"code": first.code} if first.code else {}),
            "search_trial": first.source,
            "suite_version": first.version,
            "partition_fingerprint": first.partition_fingerprint,
            "date": tuned.today(),
            **({"board": _standing(row, rows)} if row.rank is not None else {}),
            "runs": [run.run_id for run in finals],
        },
    )


def _standing(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """The rank of a row among those that are ranked with it, whether it may be the best, and what its audit found."""
    ranked = [one for one in rows if one.group == row.group and one.rank is not None]
    found = [one.text for one in row.audit.findings] if row.audit else []
    return {
        "rank": row.rank,
        "of": len(ranked),
        "may_be_best": row.within_noise,
        "audit": found if row.audit else None,
    }


def tuned_in(store: Reader, query: Query = EVERYTHING) -> list[Tuned]:
    """The tuned configurations of a store's leaderboard rows."""
    found, broken = [], []
    for run in published(store, query).values():
        try:
            found.append(tuned.parse(run.tags.tuned, f"run {run.run_id}"))
        except UserError:
            broken.append((run, "tag suite.tuned"))
    store.pass_over(broken)
    return found


def list_tuned(store: Store | None, storage: Path) -> list[Tuned]:
    """Every tuned configuration: the store's leaderboard rows, then imported files."""
    found = tuned_in(store) if store else []
    return found + [tuned.read(path) for path in sorted((storage / "imported").rglob("*.yaml"))]


def known(storage: Path, tracking_uri: str | None) -> list[Tuned]:
    """Every tuned configuration: the store's, where there is one, and imported files.

    Raises `UserError` when there is neither.
    """
    has_store = tracking_uri is not None or (storage / "mlflow.db").exists()
    imported = (storage / "imported").exists()
    store = open_existing(tracking_uri, storage) if has_store or not imported else None
    return list_tuned(store, storage)


def select_tuned(
    found: list[Tuned],
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    level: str | None = None,
) -> TunedList:
    """The configurations that match every name given: scenario by scenario, as they first come, and of
    each the best validation score first; those tuned by clients' own scores, which are no others', last.
    """
    given = {"algorithm": algorithm, "dataset": dataset, "model": model, "heterogeneity": level}
    spelling = {"algorithm": algorithms.canonical, **SPELLING}
    wanted = {part: spelling[part](name) for part, name in given.items() if name is not None}
    asked = wanted.pop("algorithm", None)
    if asked is not None:
        named = {item.algorithm for item in found} | set(algorithms.known())
        if not any(algorithms.is_named(name, asked) for name in named):
            raise unknown("algorithm", asked, map(algorithms.label, named))
    matching = [
        item
        for item in found
        if all(getattr(item, part) == name for part, name in wanted.items())
        and (asked is None or algorithms.is_named(item.algorithm, asked))
    ]
    levels = list(dict.fromkeys(item.data_level for item in matching))

    def order(item: Tuned) -> tuple[int, bool, float]:
        personal = item.settings.metric != "pooled"
        return levels.index(item.data_level), personal, item.loss

    return TunedList(sorted(matching, key=order))


def best_of(found: TunedList) -> Tuned:
    """The best validated of configurations of one scenario; raises `UserError` where they are of several,
    between which no score decides.
    """
    levels = list(dict.fromkeys(item.data_level for item in found))
    if len(levels) > 1:
        choices = [
            shlex.join(["--dataset", dataset, "--heterogeneity", level])
            for dataset, level in levels[:SHOWN]
        ]
        more = [f"and {len(levels) - SHOWN} more"] * (len(levels) > SHOWN)
        about = (
            "what matches was tuned on several data sets or levels, whose scores cannot be compared: "
            "name one of"
        )
        raise UserError("\n  ".join((about, *choices, *more)))
    return found[0]
