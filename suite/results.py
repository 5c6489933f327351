"""Results, from the MLflow store alone: leaderboards and tuned configurations."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from reports import pareto
from reports.leaderboard import COSTS, COUNTED, METRICS, FinalRun, Leaderboard, Row, leaderboard
from reports.pareto import Front, Point
from suite import tuned
from suite.recording import Record, Store
from suite.tuned import Tuned
from trials import datasets, heterogeneity, models
from trials.errors import UserError, unknown
from trials.trial import TrialSpec


def read_leaderboard(
    store: Store,
    sweep: str | None = None,
    study: str | None = None,
    target: float | None = None,
    at: str = "rounds",
) -> Leaderboard:
    """The leaderboard of a sweep, a study, or all that the store holds, `at` equal rounds, steps or
    bytes.

    `target` defaults to the one that the sweep's study gave. Raises `UserError` when there are no
    final runs.
    """
    where = {k: v for k, v in (("sweep", sweep), ("study", study)) if v is not None}
    finals = [
        run for run in store.find(kind="final", **where) if run.tags["run_status"] == "FINISHED"
    ]
    if not finals:
        sweeps = {r.tags["sweep"] for r in store.find(kind="sweep")}
        if sweep and sweep not in sweeps:
            raise (
                unknown("sweep", sweep, sweeps)
                if sweeps
                else UserError(f"{store.uri} holds no sweep")
            )
        raise UserError("there are no final runs yet: finish the sweep with --resume")
    searches = store.find(kind="search", **where)
    trials = Counter((run.tags["sweep"], run.tags["cell"]) for run in searches)
    targets = {run.tags["target"] for run in finals if "target" in run.tags}
    if target is None and len(targets) == 1:
        target = float(targets.pop())
    order = {run.tags["cell"]: i for i, run in enumerate(store.find(kind="cell", **where))}
    finals.sort(key=lambda run: (order.get(run.tags["cell"], len(order)), int(run.tags["seed"])))
    board = leaderboard([_final_run(store, run, target, at) for run in finals], trials, target, at)
    return replace(board, pareto=read_fronts(store, searches, finals, where))


def read_fronts(
    store: Store, searches: list[Record], finals: list[Record], where: Mapping[str, str]
) -> tuple[Front, ...]:
    """The Pareto fronts of the cells that were searched with two objectives: of the search trials
    that ran to the end and keep the constraints.
    """
    cells: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for run in searches:
        done = run.tags["status"] == "finished" and run.tags.get("feasible") != "false"
        if "pareto" in run.tags and done:
            cells[run.tags["sweep"], run.tags["cell"]].append(run)
    knees = store.find(kind="pareto", **where) if cells else []
    repeats = [*finals, *(run for run in knees if run.tags["run_status"] == "FINISHED")]
    return tuple(_front(runs, repeats) for runs in cells.values())


def _front(runs: list[Record], repeats: list[Record]) -> Front:
    """Of one cell's search trials; `repeats` are runs of its points with fresh seeds, and others."""
    tags = runs[0].tags
    runs = sorted(runs, key=lambda run: run.tags["trial_id"])
    scores = [run.metrics["val_score"] for run in runs]
    costs = [run.metrics[tags["pareto"]] for run in runs]
    points = []
    for i in pareto.front(scores, costs, METRICS[tags["metric"]] == "maximize"):
        source = (tags["sweep"], runs[i].tags["trial_id"])
        again = [run for run in repeats if (run.tags["sweep"], run.tags["source"]) == source]
        roles = {"final": "best", "pareto": "knee"}
        points.append(
            Point(
                trial_id=source[1],
                params=json.loads(runs[i].tags["params"]),
                val_score=scores[i],
                cost=costs[i],
                role=roles[again[0].tags["kind"]] if again else "",
                repeated=tuple(run.metrics["test_score"] for run in again),
            )
        )
    names = {k: tags[k] for k in ("algorithm", "dataset", "model", "heterogeneity", "sweep")}
    return Front(**names, metric=tags["metric"], cost=tags["pareto"], points=tuple(points))


def tuned_of(store: Store, row: Row) -> Tuned:
    """The tuned configuration behind a leaderboard row."""
    finals = [
        run
        for run in store.find(kind="final", sweep=row.sweep, cell=row.cell)
        if run.tags["run_status"] == "FINISHED"
    ]
    finals.sort(key=lambda run: int(run.tags["seed"]))
    first = finals[0]
    spec = TrialSpec.model_validate_json(first.tags["spec"])
    (searched,) = store.find(kind="search", sweep=row.sweep, trial_id=first.tags["source"])[:1]
    return Tuned(
        algorithm=spec.algorithm,
        dataset=spec.dataset,
        model=spec.model,
        heterogeneity=spec.heterogeneity,
        params=spec.params,
        settings=spec.settings,
        scores={
            f"val_{first.tags['metric']}": searched.metrics.get("val_score"),
            f"test_{first.tags['metric']}": row.mean,
            "test_interval_95": [row.ci_low, row.ci_high],
            "test_by_seed": {int(r.tags["seed"]): r.metrics["test_score"] for r in finals},
        },
        budget={
            "trials": row.trials,
            "rounds": spec.settings.rounds,
            "sampler": first.tags["sampler"],
            "scheduler": first.tags["scheduler"],
        },
        provenance={
            "study": row.study,
            "sweep": row.sweep,
            "origin": first.tags["origin"],
            **{key: first.tags[key] for key in ("warm_start", "joint") if key in first.tags},
            "search_trial": first.tags["source"],
            "suite_version": first.tags["version"],
            "partition_fingerprint": first.tags["partition_fingerprint"],
            "date": tuned.today(),
            "runs": [run.run_id for run in finals],
        },
    )


def list_tuned(store: Store | None, storage: Path) -> list[Tuned]:
    """Every tuned configuration: the store's leaderboard runs, then imported files."""
    recorded = store.find(kind="leaderboard") if store else []
    found = [tuned.parse(run.tags["tuned"], f"run {run.run_id}") for run in recorded]
    return found + [tuned.read(path) for path in sorted((storage / "imported").rglob("*.yaml"))]


def select_tuned(
    found: list[Tuned],
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    level: str | None = None,
) -> list[Tuned]:
    """Those that match, best test score first."""
    wanted = {
        "algorithm": algorithm,
        "dataset": dataset and datasets.canonical(dataset),
        "model": model and models.canonical(model),
        "heterogeneity": level and heterogeneity.parse(level).name,
    }
    matching = [t for t in found if all(v is None or getattr(t, k) == v for k, v in wanted.items())]
    return sorted(matching, key=_test_score)


def spec_of(record: Record) -> TrialSpec:
    """The trial that a recorded run ran; raises `UserError` for a run that is none."""
    if "spec" not in record.tags:
        kind = record.tags.get("kind", "foreign")
        raise UserError(
            f"run {record.run_id} is a {kind} run: only search, final and run can be replayed"
        )
    return TrialSpec.model_validate_json(record.tags["spec"])


def _test_score(found: Tuned) -> float:
    """Less is better."""
    for metric, direction in METRICS.items():
        score = found.scores.get(f"test_{metric}")
        if isinstance(score, float):
            return -score if direction == "maximize" else score
    return float("inf")


def _final_run(store: Store, run: Record, target: float | None, at: str) -> FinalRun:
    tags = run.tags
    metric = tags["metric"]
    reached = None
    scores: list[tuple[int, float]] = []
    if (target is not None or at != "rounds") and tags["status"] == "finished":
        scores = store.history(run.run_id, f"test_{metric}")
    if target is not None:
        sign = 1 if METRICS[metric] == "maximize" else -1
        hit = (r for r, value in scores if r > 0 and sign * value >= sign * target)
        reached = next(hit, None)
    spent = [dict(store.history(run.run_id, name)) for name in COSTS[at]] if scores else []
    curve = tuple((sum(cost.get(r, 0.0) for cost in spent), value) for r, value in scores)
    return FinalRun(
        sweep=tags["sweep"],
        study=tags["study"],
        cell=tags["cell"],
        algorithm=tags["algorithm"],
        paper=tags["paper"],
        dataset=tags["dataset"],
        model=tags["model"],
        heterogeneity=tags["heterogeneity"],
        metric=metric,
        seed=int(tags["seed"]),
        diverged=tags["status"] == "diverged",
        score=run.metrics["test_score"],
        spent={name: run.metrics.get(name, 0.0) for name in COUNTED},
        params=json.loads(tags["params"]),
        reached=reached,
        reference=tags.get("reference") == "true",
        curve=curve,
        warm="warm_start" in tags,
    )
