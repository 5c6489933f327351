"""A final run as leaderboards compare it, from its row of a table."""

import json
from collections.abc import Collection
from itertools import accumulate
from statistics import fmean
from typing import Any

from reports.leaderboard.comparable import FinalRun
from suite.results.query import AT_THE_END, METRIC, Query
from suite.results.tables import History, Row
from suite.tracking.schema.tags import dumps
from trials.common.errors import UserError
from trials.run import outcome
from trials.run.scenario import Scenario
from trials.run.spec import TrialSpec
from trials.scoring.metrics import (
    CLOCK,
    COSTS,
    COUNTED,
    LAST,
    REACHED,
    TASKS,
    best_of,
    cost_until,
    direction,
    reach,
    untrained,
)
from trials.settings import Settings

AS_IT_IS = (
    *("sweep", "study", "entry_id", "algorithm", "paper", "seed"),
    *("reference", "outside", "away", "partition", "tuning"),
)
"""What a final run has from its row."""


def needs_histories(query: Query, targets: Collection[float]) -> bool:
    """Return whether more is asked for than rows have: scores at equal rounds, and the costs until the `targets` of their studies."""
    other_target = query.target is not None and set(targets) != {query.target}
    return query.metric != "score" or query.at != "rounds" or other_target


def is_lost(row: Row, metric: str) -> bool:
    """Return whether a metric has no mean over the last evaluations, or the run diverged."""
    return outcome.lost(metric, row["status"], (row["not_finite"] or "").split())


def final_run(
    row: Row, history: History, query: Query, own_target: float | None, page: str
) -> FinalRun:
    """Return a row as `query` asks for it; `history` is there where that `needs_histories`, `own_target` is its study's, and `page`
    where MLflow shows its leaderboard row.
    """
    task, params, settings = row["metric"], json.loads(row["params"]), json.loads(row["settings"])
    named = {"score": task, "best": f"best_{task}", "loss": "loss", "top5": "top5_accuracy"}
    end = METRIC[query.metric].removeprefix("test_")
    metric = named.get(query.metric, f"{TASKS[task].pooled}_{end}")
    name = f"test_{task if query.metric == 'best' else metric}"
    lost, score, curve = is_lost(row, name), row["test_score"], Curve()
    if query.metric != "score" or query.at != "rounds":
        own_score, curve = _compared(row, history, query, name, lost)
        score = score if query.metric == "score" else own_score
    recorded = {key: number(row[key]) for key in REACHED}
    reached = {key: value for key, value in recorded.items() if value is not None}
    if query.target is not None and (row["reached"] is None or own_target != query.target):
        reached = reach(history, task, query.target)
    shared = _without(settings, {"partition_seed", "execution", "chunk", *params})
    validated = number(row["val_score"])
    return FinalRun(
        **{name: row[name] for name in AS_IT_IS},
        scenario=Scenario(row["dataset"], row["model"], row["heterogeneity"]),
        metric=metric,
        diverged=lost,
        score=score,
        spent={name: number(row[name]) or 0.0 for name in COUNTED},
        params=params,
        reached={} if lost or query.target is None else reached,
        curve=() if lost else curve,
        worst=number(row["worst_clients"]),
        spread=number(row["client_spread"]),
        settings=dumps({"metric": settings.get("metric"), **shared}),
        split=row["partition_fingerprint"],
        run_id=run_id(row),
        page=page,
        warm=row["warm_start"] is not None,
        split_index=row["split"],
        validated=None if validated is None else TASKS[task].sign * validated,
    )


Curve = tuple[tuple[float, float], ...]


def _compared(
    row: Row, history: History, query: Query, name: str, lost: bool
) -> tuple[float, Curve]:
    """Return the score that is asked for, and its course by cost, where runs are compared at an equal one; of a run that is lost what
    it counts with instead.
    """
    wanted = {name, *COSTS[query.at]}
    evaluations = [entry for entry in history if wanted & entry.keys()]
    needed = [] if lost else [name]
    for metric in [*needed, *([CLOCK] if query.at == "seconds" else [])]:
        if not any(metric in entry for entry in evaluations):
            hint = ": give the level +speed(sigma)" if metric == CLOCK else ""
            where = f"{row['dataset']}, {row['heterogeneity']}, suite {row['version']}"
            raise UserError(f"{metric} is not recorded in sweep {row['sweep']!r} ({where}){hint}")
    first = untrained(evaluations, name)
    values = [entry.get(name, first) for entry in evaluations]
    if query.metric == "best":
        values = list(accumulate(values, best_of(direction(row["metric"]))))
    costs = [cost_until(entry, query.at) for entry in evaluations]
    if lost:
        score = first
    elif query.metric in ("best", *AT_THE_END):
        score = values[-1]
    else:
        score = fmean(values[1:][-LAST:])
    return score, () if query.at == "rounds" else tuple(zip(costs, values, strict=True))


def run_id(row: Row) -> str:
    """Return the run of a row in MLflow; before it has one, a name of its own."""
    return row["run_id"] or f"{row['sweep']}/{row['trial_id']}"


def spec_of(row: Row) -> TrialSpec:
    """Return the trial that a row is of: all that it takes to run it again."""
    settings = Settings.model_validate(json.loads(row["settings"]))
    own = _without(json.loads(row["params"]), Settings.model_fields)
    names = {name: row[name] for name in ("algorithm", *Scenario._fields)}
    return TrialSpec(params=own, settings=settings, seed=row["seed"], **names)


def number(value: Any) -> float | None:
    """Return a number of a row; None where there is none."""
    return None if value is None or value != value else float(value)


def _without(settings: dict[str, Any], apart: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in apart}
