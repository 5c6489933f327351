"""Results, from the MLflow store alone: leaderboards and tuned configurations."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import NoReturn

from reports.leaderboard import pareto
from reports.leaderboard.comparable import FinalRun
from reports.leaderboard.leaderboard import Leaderboard, Row, leaderboard
from reports.leaderboard.pareto import Front, Point
from suite.configurations import configuration as tuned
from suite.configurations.configuration import Tuned
from suite.search.samplers import searched_by
from suite.search.sweep_search import LAG
from suite.tracking.store import Record, Store, dumps
from trials import algorithms, datasets, heterogeneity, models
from trials.errors import UserError, unknown
from trials.metrics import (
    COSTS,
    COUNTED,
    LAST,
    REACHED,
    TASKS,
    cost_until,
    direction,
    reach,
    untrained,
)
from trials.outcome import Status
from trials.spec import TrialSpec

METRIC = {
    "score": "{}",
    "best": "best_{}",
    "worst_clients": "{}_worst10",
    "client_spread": "{}_spread",
    "loss": "loss",
    "top5": "top5_accuracy",
}
"""What `--metric` may ask for, as it is recorded for a task's metric, without `test_`: the mean of the
last three evaluations; the best over rounds; the worst 10 % of clients; the standard deviation over
clients; loss and top-5 accuracy, again means of the last three.
"""
AT_THE_END = ("worst_clients", "client_spread")
"""Recorded of the untrained and the final model only."""


@dataclass(frozen=True)
class Query:
    """Which final runs, compared by what. `where` are tags; `sweep` and `studies` may be given too."""

    sweep: str | None = None
    studies: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    metric: str = "score"
    target: float | None = None
    at: str = "rounds"

    @property
    def scope(self) -> dict[str, str]:
        """Tags that runs of any kind must have."""
        return {"sweep": self.sweep} if self.sweep else {}

    @property
    def tags(self) -> dict[str, str]:
        """Tags that final runs must have."""
        return {**self.where, **self.scope}

    def find(self, store: Store, kind: str, **where: str) -> list[Record]:
        """The runs of a kind that are asked for, oldest first."""
        found = store.find(kind=kind, **where)
        return [run for run in found if not self.studies or run.tags.get("study") in self.studies]


def published(store: Store, query: Query = Query()) -> dict[tuple[str, str], Record]:
    """The leaderboard's rows in the store by sweep and cell, of each the newest: a harvest removes the
    former ones once it has written all of its own.
    """
    found = query.find(store, "leaderboard", **query.scope)
    return {(run.tags.get("sweep", ""), run.tags.get("cell", run.run_id)): run for run in found}


def read_leaderboard(store: Store, query: Query = Query()) -> Leaderboard:
    """The leaderboard of a sweep, of studies, or of all that the store holds.

    `target` defaults to the one that the sweeps' studies gave. Raises `UserError` when there are no
    such final runs, or a metric was not recorded.
    """
    if query.at != "rounds" and query.metric in AT_THE_END:
        raise UserError(
            f"metric {query.metric} is recorded of the final model only, so it cannot be compared "
            f"at equal {query.at}"
        )
    finals = [r for r in query.find(store, "final", **query.tags) if r.finished]
    if not finals:
        _nothing(store, query)
    targets = {run.tags["target"] for run in finals if "target" in run.tags}
    target = query.target
    if target is None and len(targets) == 1:
        target = float(targets.pop())
    searches = query.find(store, "search", **query.scope)
    trials = Counter((run.tags["sweep"], run.tags["cell"]) for run in searches)
    cells = [run.tags["cell"] for run in query.find(store, "cell", **query.scope)]
    ways = {run.tags["sweep"]: searched(run) for run in query.find(store, "sweep", **query.scope)}
    sweeps = list(ways)

    def order(run: Record) -> tuple[int, int, int]:
        """As the study lists its cells; of equal ones the older sweep first."""
        cell, sweep = run.tags["cell"], run.tags["sweep"]
        place = cells.index(cell) if cell in cells else len(cells)
        return place, sweeps.index(sweep) if sweep in sweeps else -1, int(run.tags["seed"])

    pages = {place: run.page for place, run in published(store, query).items()}
    runs = [
        replace(
            _final_run(store, run, query.metric, target, query.at),
            page=pages.get((run.tags["sweep"], run.tags["cell"]), ""),
        )
        for run in sorted(finals, key=order)
    ]
    board = leaderboard(runs, trials, target, query.at)
    kept = {(row.sweep, row.cell) for row in board.rows}
    searches = [run for run in searches if (run.tags["sweep"], run.tags["cell"]) in kept]
    fronts = read_fronts(store, searches, finals, query)
    named = {row.sweep for row in board.rows}
    return replace(board, pareto=fronts, searched={k: v for k, v in ways.items() if k in named})


def searched(sweep: Record) -> str:
    """How a sweep found its configurations, in words."""
    study = json.loads(sweep.tags["study_json"])
    return searched_by(study["sampler"], study["scheduler"], study["trials"], LAG)


def _nothing(store: Store, query: Query) -> NoReturn:
    """Say why there are no final runs."""
    recorded = store.find(kind="sweep")
    for key, wanted in (("sweep", [query.sweep] if query.sweep else []), ("study", query.studies)):
        known = {run.tags[key] for run in recorded}
        for name in wanted:
            if name not in known:
                raise (
                    unknown(key, name, known) if known else UserError(f"{store.uri} holds no sweep")
                )
    everything = [r for r in Query(query.sweep, query.studies).find(store, "final") if r.finished]
    if not everything:
        raise UserError("there are no final runs yet: finish the sweep with --resume")
    for key, value in query.where.items():
        found = {run.tags[key] for run in everything if key in run.tags}
        if not found:
            raise unknown("tag", key, {tag for run in everything for tag in run.tags})
        if value not in found:
            raise unknown(f"{key} among the final runs", value, found)
    raise UserError("no final run has all of these tags")


def read_fronts(
    store: Store, searches: list[Record], finals: list[Record], query: Query
) -> tuple[Front, ...]:
    """The Pareto fronts of the cells that were searched with two objectives: of the search trials
    that ran to the end and keep the constraints.
    """
    cells: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for run in searches:
        done = run.tags["status"] == Status.FINISHED and run.tags.get("feasible") != "false"
        if "pareto" in run.tags and done:
            cells[run.tags["sweep"], run.tags["cell"]].append(run)
    knees = query.find(store, "pareto", **query.scope) if cells else []
    repeats = [*finals, *(run for run in knees if run.finished)]
    return tuple(_front(runs, repeats) for runs in cells.values())


def _front(runs: list[Record], repeats: list[Record]) -> Front:
    """Of one cell's search trials; `repeats` are runs of its points with fresh seeds, and others."""
    tags = runs[0].tags
    runs = sorted(runs, key=lambda run: run.tags["trial_id"])
    scores = [run.metrics["val_score"] for run in runs]
    costs = [run.metrics[tags["pareto"]] for run in runs]
    points = []
    for i in pareto.front(scores, costs, TASKS[tags["metric"]].sign > 0):
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
        run for run in store.find(kind="final", sweep=row.sweep, cell=row.cell) if run.finished
    ]
    finals.sort(key=lambda run: int(run.tags["seed"]))
    first = finals[0]
    spec = TrialSpec.model_validate_json(first.tags["spec"])
    searches = store.find(kind="search", sweep=row.sweep, cell=row.cell)
    confirming = sum("confirm" in run.tags for run in searches)
    source = next(run for run in searches if run.tags["trial_id"] == first.tags["source"])
    return Tuned(
        algorithm=spec.algorithm,
        dataset=spec.dataset,
        model=spec.model,
        heterogeneity=spec.heterogeneity,
        params=spec.params,
        settings=spec.settings,
        scores={
            f"val_{first.tags['metric']}": source.metrics.get("val_score"),
            f"test_{first.tags['metric']}": row.mean,
            "test_interval_95": [row.ci_low, row.ci_high],
            "test_by_seed": {int(r.tags["seed"]): r.metrics["test_score"] for r in finals},
        },
        budget={
            "trials": row.trials,
            **({"confirming": confirming} if confirming else {}),
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
    """Every tuned configuration: the store's leaderboard rows, then imported files."""
    recorded = published(store).values() if store else []
    found = [tuned.parse(run.tags["tuned"], f"run {run.run_id}") for run in recorded]
    return found + [tuned.read(path) for path in sorted((storage / "imported").rglob("*.yaml"))]


def select_tuned(
    found: list[Tuned],
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    level: str | None = None,
) -> list[Tuned]:
    """Those that match, best validation score first."""
    wanted = {
        "algorithm": algorithm and algorithms.canonical(algorithm),
        "dataset": dataset and datasets.canonical(dataset),
        "model": model and models.canonical(model),
        "heterogeneity": level and heterogeneity.parse(level).name,
    }
    matching = [t for t in found if all(v is None or getattr(t, k) == v for k, v in wanted.items())]
    return sorted(matching, key=lambda item: item.loss)


def spec_of(record: Record) -> TrialSpec:
    """The trial that a recorded run ran; raises `UserError` for a run that is none."""
    if "spec" not in record.tags:
        kind = record.tags.get("kind", "foreign")
        raise UserError(
            f"run {record.run_id} is a {kind} run: only search, final and run can be replayed"
        )
    return TrialSpec.model_validate_json(record.tags["spec"])


def _final_run(store: Store, run: Record, metric: str, target: float | None, at: str) -> FinalRun:
    tags, task = run.tags, run.tags["metric"]
    recorded = METRIC[metric].format(task)
    name = f"test_{task if metric == 'best' else recorded}"
    lost = run.lost(name)
    course = []
    if metric != "score" or at != "rounds":
        course = store.course(run, [name, *COSTS[at]])
    first = untrained(course, name)
    values = [entry.get(name, first) for entry in course]
    if metric == "best":
        values = list(accumulate(values, max if direction(task) == "maximize" else min))
    reached: Mapping[str, float] = {}
    if target is not None and not lost:
        reached = _reached(store, run, target)
    curve: tuple[tuple[float, float], ...] = ()
    if at != "rounds" and not lost:
        curve = tuple((cost_until(e, at), v) for e, v in zip(course, values, strict=True))
    spec = TrialSpec.model_validate_json(tags["spec"])
    params = json.loads(tags["params"])
    apart = {"partition_seed", "execution", "chunk", *(params.keys() - spec.params)}
    return FinalRun(
        sweep=tags["sweep"],
        study=tags["study"],
        cell=tags["cell"],
        algorithm=tags["algorithm"],
        paper=tags["paper"],
        dataset=tags["dataset"],
        model=tags["model"],
        heterogeneity=tags["heterogeneity"],
        metric=recorded,
        seed=int(tags["seed"]),
        diverged=lost,
        score=_score(run, metric, name, values, first if lost else None),
        spent={name: run.metrics.get(name, 0.0) for name in COUNTED},
        params=params,
        reached=reached,
        reference=tags.get("reference") == "true",
        outside=tags.get("outside", ""),
        curve=curve,
        worst=_over_clients(store, run, f"test_{task}_worst10", lost),
        spread=_over_clients(store, run, f"test_{task}_spread", lost),
        settings=dumps(spec.settings.model_dump(mode="json", exclude=apart)),
        split=tags["partition_fingerprint"],
        run_id=run.run_id,
        warm="warm_start" in tags,
    )


def _reached(store: Store, run: Record, target: float) -> Mapping[str, float]:
    """`REACHED` of a final run: as recorded for its study's target, of its course for another."""
    task = run.tags["metric"]
    if run.tags.get("reached") and float(run.tags["target"]) == target:
        return {key: run.metrics[key] for key in REACHED if key in run.metrics}
    names = [f"test_{task}", "client_steps", *COSTS["bytes"]]
    return reach(store.course(run, names), task, target)


def _over_clients(store: Store, run: Record, name: str, lost: bool) -> float | None:
    """As it ended; of a run that is lost, what the untrained model had."""
    if lost and name in run.metrics:
        return untrained(store.course(run, [name]), name)
    return run.metrics.get(name)


def _score(
    run: Record, metric: str, name: str, values: list[float], instead: float | None
) -> float:
    """What `--metric` asks for, recorded as `name`; of a run that is lost, what it counts with instead."""
    if metric == "score":
        return run.metrics["test_score"]
    if name not in {*run.metrics, *run.tags.get("not_finite", "").split()}:
        raise UserError(
            f"metric {metric} is not recorded in sweep {run.tags['sweep']!r} "
            f"({run.tags['dataset']}, suite {run.tags['version']})"
        )
    if instead is not None:
        return instead
    if metric in ("best", *AT_THE_END):
        return values[-1]
    return fmean(values[1:][-LAST:])
