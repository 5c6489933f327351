"""Results, from the MLflow store alone: leaderboards and tuned configurations."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from reports.leaderboard.board import Leaderboard
from reports.leaderboard.budget import Budgets, Tuning, budgets
from reports.leaderboard.comparable import FinalRun
from reports.leaderboard.interim import Ongoing, Standing
from reports.leaderboard.leaderboard import leaderboard
from suite.results.audits import audited
from suite.results.final_runs import final_run
from suite.results.interim import ongoing, standings
from suite.results.missing import lacking, missing
from suite.results.query import (
    AT_THE_END,
    EVERYTHING,
    METRIC,
    Held,
    Query,
    say_why_none,
)
from suite.results.searched import Key, Searched, chosen, of_replicates
from suite.studies.samplers import LAG, searched_by
from suite.tracking.reader import Reader, Together
from suite.tracking.record import Record
from trials.common.errors import UserError, unknown
from trials.run.outcome import Status
from trials.run.scenario import Scenario
from trials.run.trial_id import TrialId
from trials.scoring.metrics import COSTS, TASKS, direction


def read_leaderboard(store: Reader, query: Query = EVERYTHING) -> Leaderboard:
    """The leaderboard of a sweep, of studies, or of all that the store holds; scenarios whose final runs are
    not all there stand under `interim`.

    `target` defaults to the one that the sweeps' studies gave. Raises `UserError` when there are no
    such runs, or a metric was not recorded.
    """
    check(query)
    return board_of(store, query, Held.of(store, query))


def check(query: Query) -> None:
    """Raise `UserError` for a query that no record can answer."""
    for kind, name, known in (("metric", query.metric, METRIC), ("cost", query.at, COSTS)):
        if name not in known:
            raise unknown(kind, name, known)
    if query.at != "rounds" and query.metric in AT_THE_END:
        raise UserError(
            f"metric {query.metric} is recorded of the final model only, so it cannot be compared "
            f"at equal {query.at}"
        )


def board_of(store: Reader, query: Query, held: Held) -> Leaderboard:
    """The leaderboard of runs that are read; raises as `read_leaderboard` does."""
    open_scenarios = ongoing(store, query, held) if query.interim else set()
    standing = standings(open_scenarios, query, held)
    finals = [
        run
        for run in held.finals
        if run.finished and Ongoing(run.tags.sweep, run.tags.scenario) not in open_scenarios
    ]
    lost = missing(query, held, open_scenarios, store.options)
    if not finals and not standing:
        if lost:
            raise UserError("\n".join(("there is no row to show", *lost)))
        say_why_none(store, query)
    board = _ranked(store, query, replace(held, finals=finals), lacking(store, query, held))
    if not finals:
        board = _unranked(board, held, standing)
    cut = [f"{run.tags.sweep} was {run.tags.cut}." for run in held.sweeps if run.tags.cut]
    return replace(board, interim=standing, notes=(*cut, *board.notes, *lost))


def _unranked(board: Leaderboard, held: Held, standing: tuple[Standing, ...]) -> Leaderboard:
    """A leaderboard without rows, with what is known of those that will come."""
    metrics = list(dict.fromkeys(one.metric.removeprefix("val_") for one in standing if one.metric))
    return replace(
        board,
        study=", ".join(sorted({one.study for one in standing})),
        metric=", ".join(f"test_{name}" for name in metrics),
        direction=", ".join(map(direction, metrics)),
        searched={run.tags.sweep: searched(run) for run in held.sweeps},
    )


def _ranked(
    store: Reader, query: Query, held: Held, gone: Mapping[tuple[str, str], str]
) -> Leaderboard:
    """The rows of the final runs, all that is known of them, and of which some are `gone`."""
    targets = {run.tags.target for run in held.finals} - {None}
    target = query.target
    if target is None and len(targets) == 1:
        target = targets.pop()
    trials = _budgets(held.searches)
    entries = _scenarios(run.tags.entry_id for run in held.entries)
    sweeps = _scenarios(run.tags.sweep for run in held.sweeps)
    margins = {run.tags.study_json.get("margin") for run in held.sweeps}

    def order(run: Record) -> tuple[int, ...]:
        """The place of a final run: as the study lists its scenarios; of equal ones the older sweep
        first.
        """
        entry, sweep = run.tags.entry_id, run.tags.sweep
        of = run.tags.split or 0, run.tags.partition or 0, run.tags.tuning or 0
        return entries.get(entry, len(entries)), sweeps.get(sweep, -1), *of, run.tags.seed

    pages = {scenario: run.page for scenario, run in held.rows.items()}
    together = Together(store, held.finals)
    runs = [
        replace(
            final_run(together, run, query.metric, target, query.at),
            page=pages.get((run.tags.sweep, run.tags.entry_id), ""),
            selected=chosen(
                held.searches.get((run.tags.sweep, run.tags.entry_id), ()), run.tags.source
            ),
            lacking=gone.get((run.tags.sweep, run.tags.entry_id), ""),
        )
        for run in sorted(held.finals, key=order)
    ]
    margin = margins.pop() if len(margins) == 1 and query.metric in ("score", "best") else None
    board = leaderboard(runs, trials, target, query.at, margin)
    board = audited(board, held, store.options)
    named = {row.sweep for row in board.rows}
    ways = {run.tags.sweep: searched(run) for run in held.sweeps if run.tags.sweep in named}
    curves = _curves(board, held, runs) if (query.metric, query.at) == ("score", "rounds") else ()
    return replace(board, searched=ways, budgets=curves)


def _scenarios(names: Iterable[str]) -> dict[str, int]:
    """Where each of several names stands first."""
    return {name: scenario for scenario, name in enumerate(dict.fromkeys(names))}


def _curves(board: Leaderboard, held: Held, finals: Sequence[FinalRun]) -> tuple[Budgets, ...]:
    """What fewer trials would have chosen, scenario by scenario of each sweep, of the methods that are ranked."""
    found: dict[tuple[str, Scenario], dict[str, Tuning]] = {}
    by_id, tasks, signs = {run.run_id: run for run in finals}, held.tasks, dict[str, int]()
    winners = {run.run_id: TrialId.parse(run.tags.source) for run in held.finals}
    for row in board.rows:
        key = row.sweep, row.entry_id
        if row.rank is not None and held.searches.get(key):
            sign = signs[row.sweep] = TASKS[tasks[key]].sign
            repeats = [(by_id[run], winners[run]) for run in row.runs]
            tuning = _tuning(held.searches[key], repeats, sign)
            if all(tuning.trials.values()):  # of each replicate some are recorded
                found.setdefault((row.sweep, row.scenario), {})[row.algorithm] = tuning
    made = (budgets(sweep, scenario, of, signs[sweep]) for (sweep, scenario), of in found.items())
    return tuple(of for of in made if of is not None)


def _tuning(
    searched: Sequence[Searched], finals: Sequence[tuple[FinalRun, TrialId]], sign: int
) -> Tuning:
    """A method's searches and final runs, each with the trial that it repeats, by the scores that rank."""
    ended = (one for one in searched if not one.confirm and one.status != Status.FAILED)
    by = of_replicates(one for one in ended if one.test is not None)
    scores = {run.draw: sign * run.score for run, _ in finals}
    trials = {}
    for replicate, winner in {run.replicate: winner for run, winner in finals}.items():
        chosen = fmean(score for draw, score in scores.items() if draw[:-1] == replicate)
        trials[replicate] = [
            (math.inf, chosen) if one.number == winner.index else one.signed(sign)
            for one in by[winner.replicate]
        ]
    return Tuning(trials, scores)


def _budgets(searches: Mapping[Key, Sequence[Searched]]) -> dict[Key, int]:
    """The search trials of each entry in one of its replicates; the most, where they differ."""
    return {
        key: max(Counter(one.replicate for one in trials).values())
        for key, trials in searches.items()
        if trials
    }


def searched(sweep: Record) -> str:
    """The words for how a sweep found its configurations."""
    return searched_by(*sweep.tags.search, LAG)
