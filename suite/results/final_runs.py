"""A final run as leaderboards compare it, from its row of a table."""

import json
from collections.abc import Collection, Mapping
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


def curves_for(query: Query, targets: Collection[float]) -> list[str]:
    """Return the curves that final runs are compared by; none at equal rounds by their scores. `targets` are those of the studies, the
    numbers to which are in their rows.
    """
    columns = []
    if query.metric != "score" or query.at != "rounds":
        columns = [METRIC[query.metric], *(f"{cost}_curve" for cost in COSTS[query.at])]
    if query.target is not None and set(targets) != {query.target}:
        bytes_sent = (f"{cost}_curve" for cost in COSTS["bytes"])
        columns += ["test", "client_steps_curve", *bytes_sent]
    return list(dict.fromkeys(columns))


def is_lost(row: Row, metric: str) -> bool:
    """Return whether a metric has no mean over the last evaluations, or the run diverged."""
    return outcome.lost(metric, row["status"], (row["not_finite"] or "").split())


def final_run(row: Row, history: History, query: Query, own_target: float | None) -> FinalRun:
    """Return a row as `query` asks for it; `history` has its `curves_for` that, `own_target` is its study's."""
    task, metric, at = row["metric"], query.metric, query.at
    pooled = TASKS[task].pooled
    recorded = _recorded(metric, task, pooled)
    name = f"test_{task if metric == 'best' else recorded}"
    lost = is_lost(row, name)
    wanted = {name, *COSTS[at]}
    evaluations = [entry for entry in history if wanted & entry.keys()]
    if metric == "score" and at == "rounds":
        evaluations = []
    if at == "seconds" and not any(CLOCK in entry for entry in evaluations):
        raise UserError(
            f"sweep {row['sweep']!r} records no simulated seconds under {row['heterogeneity']}: give the level "
            "+speed(sigma)"
        )
    first = untrained(evaluations, name)
    values = [entry.get(name, first) for entry in evaluations]
    if metric == "best":
        values = list(accumulate(values, best_of(direction(task))))
    curve: tuple[tuple[float, float], ...] = ()
    if at != "rounds" and not lost:
        curve = tuple((cost_until(e, at), v) for e, v in zip(evaluations, values, strict=True))
    there = any(name in entry for entry in evaluations)
    params, settings = json.loads(row["params"]), json.loads(row["settings"])
    apart = {"partition_seed", "execution", "chunk", *params}
    return FinalRun(
        sweep=row["sweep"],
        study=row["study"],
        entry_id=row["entry_id"],
        algorithm=row["algorithm"],
        paper=row["paper"],
        scenario=Scenario(row["dataset"], row["model"], row["heterogeneity"]),
        metric=recorded,
        seed=row["seed"],
        diverged=lost,
        score=row["test_score"] if metric == "score" else _score(row, query, values, there, lost, first),
        spent={name: number(row[name]) or 0.0 for name in COUNTED},
        params=params,
        reached={} if lost else _reached(row, history, query.target, own_target),
        reference=row["reference"],
        outside=row["outside"],
        away=row["away"],
        curve=curve,
        worst=number(row["worst_clients"]),
        spread=number(row["client_spread"]),
        settings=dumps({"metric": settings.get("metric")} | _without(settings, apart)),
        split=row["partition_fingerprint"],
        run_id=run_id(row),
        warm=row["warm_start"] is not None,
        split_index=row["split"],
        partition=row["partition"],
        tuning=row["tuning"],
        validated=None if number(row["val_score"]) is None else TASKS[task].sign * row["val_score"],
    )  # fmt: skip


def run_id(row: Row) -> str:
    """Return the run of a row in MLflow; before it has one, a name of its own."""
    return row["run_id"] or f"{row['sweep']}/{row['trial_id']}"


def spec_of(row: Row) -> TrialSpec:
    """Return the trial that a row is of: all that it takes to run it again."""
    settings = Settings.model_validate(json.loads(row["settings"]))
    params = json.loads(row["params"])
    own = _without(params, Settings.model_fields)
    names = {name: row[name] for name in ("algorithm", *Scenario._fields)}
    return TrialSpec(params=own, settings=settings, seed=row["seed"], **names)


def number(value: Any) -> float | None:
    """Return a number of a row; None where there is none."""
    return None if value is None or value != value else float(value)


def _without(settings: Mapping[str, Any], apart: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in apart}


def _recorded(metric: str, task: str, pooled: str) -> str:
    """Return the name of the metric that is asked for, without `test_`."""
    named = {"score": task, "best": f"best_{task}"}
    whole = {"test_loss": "loss", "test_top5_accuracy": "top5_accuracy"}
    column = METRIC[metric]
    return named.get(metric) or whole.get(column) or f"{pooled}_{column.removeprefix('test_')}"


def _reached(
    row: Row, history: History, target: float | None, own_target: float | None
) -> Mapping[str, float]:
    """Return `REACHED` of a final run: as it was recorded for its study's target, of its history for another."""
    if target is None:
        return {}
    if row["reached"] is not None and own_target == target:
        known = {key: number(row[key]) for key in REACHED}
        return {key: value for key, value in known.items() if value is not None}
    return reach(history, row["metric"], target)


def _score(
    row: Row, query: Query, values: list[float], there: bool, lost: bool, first: float
) -> float:
    """Return what `--metric` asks for; of a run that is lost, what it counts with instead."""
    if not there and not lost:
        raise UserError(
            f"metric {query.metric} is not recorded in sweep {row['sweep']!r} "
            f"({row['dataset']}, suite {row['version']})"
        )
    if lost:
        return first
    if query.metric in ("best", *AT_THE_END):
        return values[-1]
    return fmean(values[1:][-LAST:])
