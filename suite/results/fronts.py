"""Pareto fronts of recorded search trials."""

from collections import defaultdict

from reports.leaderboard import pareto
from reports.leaderboard.pareto import Front, Point
from suite.results.query import Query
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.schema.tags import RunKind
from trials.run.outcome import Status
from trials.scoring.metrics import TASKS


def read_fronts(
    store: Reader, searches: list[Record], finals: list[Record], query: Query
) -> tuple[Front, ...]:
    """The Pareto fronts of the entries that were searched with two objectives: of the search trials
    that ran to the end and keep the constraints.
    """
    entries: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for run in searches:
        done = run.tags.status == Status.FINISHED and run.tags.feasible is not False
        if run.tags.pareto and done:
            entries[run.tags.sweep, run.tags.entry_id].append(run)
    knees = query.find(store, RunKind.PARETO, **query.scope) if entries else []
    repeats = [*finals, *(run for run in knees if run.finished)]
    return tuple(front_of(runs, repeats) for runs in entries.values())


def front_of(runs: list[Record], repeats: list[Record]) -> Front:
    """The front of one entry's search trials; `repeats` are runs of its points with fresh seeds, and others."""
    tags = runs[0].tags
    cost = str(tags.pareto)
    runs = sorted(runs, key=lambda run: run.tags.trial_id)
    scores = [run.metrics["val_score"] for run in runs]
    costs = [run.metrics[cost] for run in runs]
    points = []
    for i in pareto.front(scores, costs, TASKS[tags.metric].sign > 0):
        source = (tags.sweep, runs[i].tags.trial_id)
        again = [run for run in repeats if (run.tags.sweep, run.tags.source) == source]
        roles = {RunKind.FINAL: "best", RunKind.PARETO: "knee"}
        points.append(
            Point(
                trial_id=source[1],
                params=runs[i].tags.params,
                val_score=scores[i],
                cost=costs[i],
                role=roles[again[0].tags.kind] if again else "",
                repeated=tuple(run.metrics["test_score"] for run in again),
            )
        )
    return Front(
        algorithm=tags.algorithm,
        **tags.scenario.names(),
        sweep=tags.sweep,
        metric=tags.metric,
        cost=cost,
        points=tuple(points),
    )
