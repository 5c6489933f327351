"""Results, from the MLflow store alone: leaderboards and tuned configurations."""

from collections import Counter
from dataclasses import replace

from reports.leaderboard.budget import Budgets, Trial, budgets
from reports.leaderboard.leaderboard import Leaderboard, leaderboard
from suite.results.final_runs import final_run
from suite.results.fronts import read_fronts
from suite.results.query import AT_THE_END, EVERYTHING, METRIC, Query, published, say_why_none
from suite.studies.modelling import LAG, searched_by
from suite.tracking.store import Record, Store
from suite.tracking.tags import RunKind
from trials.errors import UserError, unknown
from trials.metrics import COSTS, TASKS
from trials.outcome import Status
from trials.place import Place


def read_leaderboard(store: Store, query: Query = EVERYTHING) -> Leaderboard:
    """The leaderboard of a sweep, of studies, or of all that the store holds.

    `target` defaults to the one that the sweeps' studies gave. Raises `UserError` when there are no
    such final runs, or a metric was not recorded.
    """
    for kind, name, known in (("metric", query.metric, METRIC), ("cost", query.at, COSTS)):
        if name not in known:
            raise unknown(kind, name, known)
    if query.at != "rounds" and query.metric in AT_THE_END:
        raise UserError(
            f"metric {query.metric} is recorded of the final model only, so it cannot be compared "
            f"at equal {query.at}"
        )
    finals = [r for r in query.find(store, RunKind.FINAL, **query.tags) if r.finished]
    if not finals:
        say_why_none(store, query)
    targets = {run.tags.target for run in finals} - {None}
    target = query.target
    if target is None and len(targets) == 1:
        target = targets.pop()
    searches = query.find(store, RunKind.SEARCH, **query.scope)
    trials = _budgets(searches)
    selected = {
        (run.tags.sweep, run.tags.trial_id): run.metrics.get("val_score") for run in searches
    }
    entries = [run.tags.cell for run in query.find(store, RunKind.CELL, **query.scope)]
    begun = {run.tags.sweep: run for run in query.find(store, RunKind.SWEEP, **query.scope)}
    ways = {sweep: searched(run) for sweep, run in begun.items()}
    sweeps = list(ways)
    margins = {run.tags.study_json.get("margin") for run in begun.values()}

    def order(run: Record) -> tuple[int, ...]:
        """The place of a final run: as the study lists its cells; of equal ones the older sweep
        first.
        """
        entry, sweep = run.tags.cell, run.tags.sweep
        place = entries.index(entry) if entry in entries else len(entries)
        of = run.tags.split or 0, run.tags.deal or 0, run.tags.tuning or 0
        return place, sweeps.index(sweep) if sweep in sweeps else -1, *of, run.tags.seed

    pages = {place: run.page for place, run in published(store, query).items()}
    runs = [
        replace(
            final_run(store, run, query.metric, target, query.at),
            page=pages.get((run.tags.sweep, run.tags.cell), ""),
            selected=selected.get((run.tags.sweep, run.tags.source)),
        )
        for run in sorted(finals, key=order)
    ]
    margin = margins.pop() if len(margins) == 1 and query.metric in ("score", "best") else None
    board = leaderboard(runs, trials, target, query.at, margin)
    kept = {(row.sweep, row.cell) for row in board.rows}
    searches = [run for run in searches if (run.tags.sweep, run.tags.cell) in kept]
    fronts = read_fronts(store, searches, finals, query)
    curves = _curves(board, searches) if (query.metric, query.at) == ("score", "rounds") else ()
    named = {row.sweep for row in board.rows}
    ways = {sweep: way for sweep, way in ways.items() if sweep in named}
    return replace(board, pareto=fronts, searched=ways, budgets=curves)


def _curves(board: Leaderboard, searches: list[Record]) -> tuple[Budgets, ...]:
    """What fewer trials would have chosen, cell by cell of each sweep, of the methods that are ranked."""
    ranked = {(row.sweep, row.cell): row for row in board.rows if row.rank is not None}
    found: dict[tuple[str, Place], dict[str, dict[tuple[int | None, ...], list[Trial]]]] = {}
    signs: dict[str, int] = {}
    for run in searches:
        tags, row = run.tags, ranked.get((run.tags.sweep, run.tags.cell))
        scores = (run.metrics.get("val_score"), run.metrics.get(f"test_{tags.metric}"))
        if row is None or tags.confirm or tags.status != Status.FINISHED or None in scores:
            continue
        sign = signs[tags.sweep] = TASKS[tags.metric].sign
        of = found.setdefault((tags.sweep, row.place), {}).setdefault(row.algorithm, {})
        trial = tuple(sign * score for score in scores if score is not None)
        of.setdefault((tags.split, tags.deal, tags.tuning), []).append((trial[0], trial[1]))
    made = (
        budgets(sweep, place, {a: list(t.values()) for a, t in of.items()}, signs[sweep])
        for (sweep, place), of in found.items()
    )
    return tuple(of for of in made if of is not None)


def _budgets(searches: list[Record]) -> dict[tuple[str, str], int]:
    """The search trials of each (sweep, cell) in one of its replicates; the most, where they differ."""
    counts = Counter(
        (run.tags.sweep, run.tags.cell, run.tags.split, run.tags.deal, run.tags.tuning)
        for run in searches
    )
    found: dict[tuple[str, str], int] = {}
    for (sweep, cell, *_), count in counts.items():
        found[sweep, cell] = max(count, found.get((sweep, cell), 0))
    return found


def searched(sweep: Record) -> str:
    """The words for how a sweep found its configurations."""
    study = sweep.tags.study_json
    return searched_by(study["sampler"], study["scheduler"], study["trials"], LAG)
