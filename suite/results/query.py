"""Which final runs are asked for, and each of them as leaderboards compare it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import nan
from statistics import fmean
from typing import TYPE_CHECKING, Any

from suite.results.table import PLAIN
from suite.results.tables import History, Row, is_lost, run_id
from suite.tracking.schema.tags import dumps
from trials.algorithms import is_named
from trials.common.errors import UserError, unknown
from trials.scoring import metrics
from trials.scoring.metrics import COSTS, TASKS

if TYPE_CHECKING:
    import pandas as pd

AT_THE_END = ("worst_clients", "client_spread", "personal", "fine_tuned", "unseen")
METRICS = ("score", "best", *AT_THE_END, "loss", "top5")
"""What `--metric` may ask for (docs/leaderboards.md), of which some are of the final model only."""
NONE_YET = "there are no final runs yet: finish the sweep with --resume"
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Query:
    """Which final runs, compared by what. `where` has values of columns, as texts; `sweep` (or the name of a study) and `studies` may be
    given too. Unless `interim`, scenarios whose final runs are not all there are compared by those that are. Raises `UserError`
    for a metric or a cost that there is none of.
    """

    sweep: str | None = None
    studies: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    metric: str = "score"
    target: float | None = None
    at: str = "rounds"
    interim: bool = True

    def __post_init__(self) -> None:
        for kind, name, choices in (("metric", self.metric, METRICS), ("cost", self.at, COSTS)):
            if name not in choices:
                raise unknown(kind, name, choices)
        if self.at != "rounds" and self.metric in AT_THE_END:
            raise UserError(
                f"metric {self.metric} is recorded of the final model only, so it cannot be compared at equal {self.at}"
            )

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with the values `where`, as far as there are such columns; an algorithm of a third party goes by its short
        name too. Raises `UserError` for what is no column of a table.
        """
        for name, value in self.where.items():
            if name not in PLAIN:
                raise unknown("column", name, PLAIN)
            if name in frame:
                same = is_named if name == "algorithm" else _is_written
                frame = frame.loc[[same(cell, value) for cell in frame[name]]]
        return frame

    def needs_histories(self, targets: Collection[float]) -> bool:
        """Return whether more is asked for than rows have: scores at equal rounds, and costs until the `targets` of their studies."""
        other_target = self.target is not None and set(targets) != {self.target}
        return self.metric != "score" or self.at != "rounds" or other_target


def _is_written(cell: Any, text: str) -> bool:
    """Return whether a value is written so by a person."""
    whole = int(cell) if isinstance(cell, float) and cell.is_integer() else cell
    return text in (str(whole), str(whole).lower())


def compared(row: Row, history: History, query: Query, own_target: float | None) -> dict[str, Any]:
    """Return what `query` asks of a final run (`COMPARED` of leaderboards), and those of its columns that are another's then: the
    costs until its target, its run. `own_target` is that of its study.
    """
    task, settings = row["metric"], json.loads(row["settings"])
    named = {"score": task, "best": f"best_{task}", "loss": "loss", "top5": "top5_accuracy"}
    end = {"worst_clients": "worst10", "client_spread": "spread"}.get(query.metric, query.metric)
    metric = named.get(query.metric, f"{TASKS[task].pooled}_{end}")
    name = f"test_{task if query.metric == 'best' else metric}"
    lost, score, curve = is_lost(row, name), row["test_score"], Curve()
    if query.metric != "score" or query.at != "rounds":
        own_score, curve = _compared(row, history, query, name, lost)
        score = score if query.metric == "score" else own_score
    reached = {key: row[key] for key in metrics.REACHED}
    if query.target is not None and (row["reached"] is None or own_target != query.target):
        reached = metrics.reach(history, task, query.target)
    if lost or query.target is None:
        reached = {}
    apart = {"partition_seed", "execution", "chunk", *json.loads(row["params"])}
    shared = {key: value for key, value in settings.items() if key not in apart}
    return {
        "compared": metric,
        "score": score,
        "lost": lost,
        "curve": () if lost else curve,
        "shared": dumps({"metric": settings.get("metric"), **shared}),
        "warm": row["warm_start"] is not None,
        "run_id": run_id(row),
        **dict.fromkeys(metrics.REACHED, nan),
        **reached,
    }


def _compared(
    row: Row, history: History, query: Query, name: str, lost: bool
) -> tuple[float, Curve]:
    """Return the score that is asked for, of a lost run what it counts with instead, and its course by the cost that is equal."""
    wanted = {name, *COSTS[query.at]}
    evaluations = [entry for entry in history if wanted & entry.keys()]
    needed = [] if lost else [name]
    for metric in [*needed, *([metrics.CLOCK] if query.at == "seconds" else [])]:
        if not any(metric in entry for entry in evaluations):
            hint = ": give the level +speed(sigma)" if metric == metrics.CLOCK else ""
            where = f"{row['dataset']}, {row['heterogeneity']}, suite {row['version']}"
            raise UserError(f"{metric} is not recorded in sweep {row['sweep']!r} ({where}){hint}")
    first = metrics.untrained(evaluations, name)
    values = [entry.get(name, first) for entry in evaluations]
    if query.metric == "best":
        values = list(accumulate(values, metrics.best_of(metrics.direction(row["metric"]))))
    costs = [metrics.cost_until(entry, query.at) for entry in evaluations]
    if lost:
        score = first
    elif query.metric in ("best", *AT_THE_END):
        score = values[-1]
    else:
        score = fmean(values[1:][-metrics.LAST :])
    return score, () if query.at == "rounds" else tuple(zip(costs, values, strict=True))
