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
from trials.run.spec import Scenario, TrialSpec
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
    task, params, settings = row["metric"], json.loads(row["params"]), json.loads(row["settings"])
    named = {"score": task, "best": f"best_{task}", "loss": "loss", "top5": "top5_accuracy"}
    end = METRIC[query.metric].removeprefix("test_")
    metric = named.get(query.metric, f"{TASKS[task].pooled}_{end}")
    name = f"test_{task if query.metric == 'best' else metric}"
    lost = is_lost(row, name)
    score = row["test_score"]
    curve: tuple[tuple[float, float], ...] = ()
    if query.metric != "score" or query.at != "rounds":
        own_score, curve = _compared(row, history, query, name, lost)
        score = score if query.metric == "score" else own_score
    apart = {"partition_seed", "execution", "chunk", *params}
    return FinalRun(
        **{name: row[name] for name in ALIKE},
        scenario=Scenario(row["dataset"], row["model"], row["heterogeneity"]),
        metric=metric,
        diverged=lost,
        score=score,
        spent={name: number(row[name]) or 0.0 for name in COUNTED},
        params=params,
        reached={} if lost else _reached(row, history, query.target, own_target),
        curve=() if lost else curve,
        worst=number(row["worst_clients"]),
        spread=number(row["client_spread"]),
        settings=dumps({"metric": settings.get("metric")} | _without(settings, apart)),
        split=row["partition_fingerprint"],
        run_id=run_id(row),
        warm=row["warm_start"] is not None,
        split_index=row["split"],
        validated=None if number(row["val_score"]) is None else TASKS[task].sign * row["val_score"],
    )


ALIKE = (
    *("sweep", "study", "entry_id", "algorithm", "paper", "seed"),
    *("reference", "outside", "away", "partition", "tuning"),
)
"""What a final run has from its row as it is."""


def _compared(
    row: Row, history: History, query: Query, name: str, lost: bool
) -> tuple[float, tuple[tuple[float, float], ...]]:
    """Return the score that is asked for, and its course by cost, where runs are compared at an equal one; of a run that is lost what
    it counts with instead.
    """
    wanted = {name, *COSTS[query.at]}
    evaluations = [entry for entry in history if wanted & entry.keys()]
    if query.at == "seconds" and not any(CLOCK in entry for entry in evaluations):
        raise UserError(
            f"sweep {row['sweep']!r} records no simulated seconds under {row['heterogeneity']}: give the level "
            "+speed(sigma)"
        )
    if not lost and not any(name in entry for entry in evaluations):
        raise UserError(
            f"metric {query.metric} is not recorded in sweep {row['sweep']!r} "
            f"({row['dataset']}, suite {row['version']})"
        )
    first = untrained(evaluations, name)
    values = [entry.get(name, first) for entry in evaluations]
    if query.metric == "best":
        values = list(accumulate(values, best_of(direction(row["metric"]))))
    curve = [(cost_until(e, query.at), v) for e, v in zip(evaluations, values, strict=True)]
    if lost:
        score = first
    elif query.metric in ("best", *AT_THE_END):
        score = values[-1]
    else:
        score = fmean(values[1:][-LAST:])
    return score, () if query.at == "rounds" else tuple(curve)


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


def _without(settings: Mapping[str, Any], apart: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in apart}
