"""A recorded final run as leaderboards compare it."""

from collections.abc import Mapping
from itertools import accumulate
from statistics import fmean

from reports.leaderboard.comparable import FinalRun
from suite.results.query import AT_THE_END, METRIC
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.schema.forms import dumps
from trials.common.errors import UserError
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


def final_run(store: Reader, run: Record, metric: str, target: float | None, at: str) -> FinalRun:
    """A recorded final run as `--metric`, `--target` and `--at` ask for it."""
    tags, task = run.tags, run.tags.metric
    pooled = TASKS[task].pooled
    recorded = METRIC[metric].format(task if metric in ("score", "best") else pooled)
    name = f"test_{task if metric == 'best' else recorded}"
    lost = run.lost(name)
    evaluations = []
    if metric != "score" or at != "rounds":
        evaluations = store.curve(run, [name, *COSTS[at]])
    if at == "seconds" and not any(CLOCK in entry for entry in evaluations):
        raise UserError(
            f"sweep {tags.sweep!r} records no simulated seconds under {tags.heterogeneity}: give the level "
            "+speed(sigma)"
        )
    first = untrained(evaluations, name)
    values = [entry.get(name, first) for entry in evaluations]
    if metric == "best":
        values = list(accumulate(values, best_of(direction(task))))
    reached: Mapping[str, float] = {}
    if target is not None and not lost:
        reached = reached_of(store, run, target)
    curve: tuple[tuple[float, float], ...] = ()
    if at != "rounds" and not lost:
        curve = tuple((cost_until(e, at), v) for e, v in zip(evaluations, values, strict=True))
    spec, params, validated = tags.spec, tags.params, run.metrics.get("val_score")
    apart = {"partition_seed", "execution", "chunk", *(params.keys() - spec.params)}
    return FinalRun(
        sweep=tags.sweep,
        study=tags.study,
        entry_id=tags.entry_id,
        algorithm=tags.algorithm,
        paper=tags.paper,
        scenario=tags.scenario,
        metric=recorded,
        seed=tags.seed,
        diverged=lost,
        score=_score(run, metric, name, values, first if lost else None),
        spent={name: run.metrics.get(name, 0.0) for name in COUNTED},
        params=params,
        reached=reached,
        reference=tags.reference,
        outside=tags.outside or "",
        away=tags.away or "",
        curve=curve,
        worst=_over_clients(store, run, f"test_{pooled}_worst10", lost),
        spread=_over_clients(store, run, f"test_{pooled}_spread", lost),
        settings=dumps(
            {"metric": spec.settings.metric} | spec.settings.model_dump(mode="json", exclude=apart)
        ),
        split=tags.partition_fingerprint,
        run_id=run.run_id,
        warm=tags.warm_start is not None,
        split_index=tags.split or 0,
        partition=tags.partition or 0,
        tuning=tags.tuning or 0,
        validated=None if validated is None else TASKS[task].sign * validated,
    )


def reached_of(store: Reader, run: Record, target: float) -> Mapping[str, float]:
    """`REACHED` of a final run: as recorded for its study's target, of its course for another."""
    task = run.tags.metric
    if run.tags.reached is not None and run.tags.target == target:
        return {key: run.metrics[key] for key in REACHED if key in run.metrics}
    names = [f"test_{task}", "client_steps", *COSTS["bytes"]]
    return reach(store.curve(run, names), task, target)


def _over_clients(store: Reader, run: Record, name: str, lost: bool) -> float | None:
    """A metric over clients as the run ended; of a run that is lost, the untrained model's."""
    if lost and name in run.metrics:
        return untrained(store.curve(run, [name]), name)
    return run.metrics.get(name)


def _score(
    run: Record, metric: str, name: str, values: list[float], instead: float | None
) -> float:
    """What `--metric` asks for, recorded as `name`; of a run that is lost, what it counts with instead."""
    if metric == "score":
        return run.metrics["test_score"]
    if name not in {*run.metrics, *(run.tags.not_finite or ())}:
        raise UserError(
            f"metric {metric} is not recorded in sweep {run.tags.sweep!r} "
            f"({run.tags.dataset}, suite {run.tags.version})"
        )
    if instead is not None:
        return instead
    if metric in ("best", *AT_THE_END):
        return values[-1]
    return fmean(values[1:][-LAST:])
