"""Leaderboards: a function of tables and of what is asked of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from reports.leaderboard.board import Leaderboard
from reports.leaderboard.budget import Budgets, Tuning, budgets
from reports.leaderboard.comparable import FinalRun
from reports.leaderboard.interim import Ongoing, Standing, ranked
from reports.leaderboard.leaderboard import leaderboard
from reports.wording.words import short
from suite.results.audits import audited
from suite.results.final_runs import curves_for, final_run, number
from suite.results.query import EVERYTHING, Query, why_none
from suite.results.table import EntryFacts, TableFacts
from suite.results.tables import Key, Tables, records
from suite.studies.replicates import confirms_of, finals_of, replicates_of
from suite.studies.samplers import LAG, searched_by
from suite.tracking.schema.leaderboard_view import run_page
from trials.federated_data import UNREACHED
from trials.run.outcome import Status, reason
from trials.run.scenario import Scenario
from trials.run.trial_id import TrialId
from trials.scoring.metrics import TASKS, direction

if TYPE_CHECKING:
    import pandas as pd


def read_leaderboard(tables: Tables, query: Query = EVERYTHING) -> Leaderboard:
    """Return the leaderboard of a sweep, of studies, or of all sweeps that there are; scenarios whose final runs are not all
    there stand under `interim`.

    `target` defaults to the one that the sweeps' studies gave. Raises `UserError` where there are no such runs, or a metric was not
    recorded.
    """
    return board_of(tables.of(query.sweep, query.studies), query)


def board_of(tables: Tables, query: Query) -> Leaderboard:
    """Return the leaderboard of all of these tables; raises as `read_leaderboard` does."""
    going = _ongoing(tables) if query.interim else set()
    standing = _standings(tables, query, going)
    finals = query.rows(tables.finals)
    sound = [
        status != Status.FAILED and Ongoing(sweep, Scenario(*parts)) not in going
        for status, sweep, *parts in zip(*(finals[name] for name in SHOWN), strict=True)
    ]
    notes = [_note(tables, finals, *each) for each in without_finals(tables, query, going)]
    if not any(sound) and not standing:
        why = why_none(tables.finals, query)
        if notes:
            why.args = ("\n".join(("there is no row to show", *notes)),)
        raise why
    board = _ranked(tables, query, finals.loc[sound])
    if not any(sound):
        board = _unranked(board, tables, standing)
    cut = [f"{name} was {of.cut}." for name, of in tables.facts.items() if of.cut]
    return replace(board, interim=standing, notes=(*cut, *board.notes, *notes, *_unreached(finals)))


def _unreached(finals: pd.DataFrame) -> list[str]:
    """Say of each data set and level which samples reach nobody, by its first run."""
    told: dict[tuple[str, str], list[str]] = {}
    columns = ("dataset", "heterogeneity", "data_note")
    for dataset, level, note in zip(*(finals[name] for name in columns), strict=True):
        lines = [line for line in str(note).splitlines() if line.startswith(UNREACHED)]
        told.setdefault((dataset, level), [f"{dataset} · {level}: {line}." for line in lines])
    return [line for lines in told.values() for line in lines]


SHOWN = ("status", "sweep", "dataset", "model", "heterogeneity")


def entries_of(tables: Tables) -> list[tuple[TableFacts, EntryFacts]]:
    """Return all entries, each with its sweep, in the order of their studies."""
    return [(facts, entry) for facts in tables.facts.values() for entry in facts.entries]


def _unranked(board: Leaderboard, tables: Tables, standing: tuple[Standing, ...]) -> Leaderboard:
    """Return a leaderboard without rows, with what is known of those that will come."""
    metrics = list(dict.fromkeys(one.metric.removeprefix("val_") for one in standing if one.metric))
    return replace(
        board,
        study=", ".join(sorted({one.study for one in standing})),
        metric=", ".join(f"test_{name}" for name in metrics),
        direction=", ".join(map(direction, metrics)),
        searched={name: searched(of) for name, of in tables.facts.items()},
    )


def _ranked(tables: Tables, query: Query, finals: pd.DataFrame) -> Leaderboard:
    """Return the rows of final runs, and all that is known of them."""
    facts = tables.facts
    own: dict[str, Any] = {name: of.study.get("target") for name, of in facts.items()}
    targets = {own[sweep] for sweep in finals["sweep"] if own[sweep] is not None}
    if query.target is None and len(targets) == 1:
        query = replace(query, target=next(iter(targets)))
    known = entries_of(tables)
    pages = {(of.name, e.id): run_page(of.experiment, e.row) for of, e in known if e.row}
    entries = _places(entry.id for _, entry in known)
    sweeps = _places(facts)
    columns = curves_for(query, targets)
    histories = tables.histories(columns) if columns else {}

    def order(row: Mapping[str, Any]) -> tuple[int, ...]:
        """Place a final run as the study lists its scenarios; of equal ones the older sweep first."""
        of = row["split"], row["partition"], row["tuning"], row["seed"]
        return entries[row["entry_id"]], sweeps[row["sweep"]], *of

    rows = sorted(records(finals), key=order)
    runs, winners = [], {}
    for row in rows:
        key, winner = (row["sweep"], row["entry_id"]), TrialId.parse(row["source"])
        history = histories.get((row["sweep"], row["trial_id"]), [])
        run = final_run(row, history, query, own[row["sweep"]])
        selected = _chosen(tables.searches.get(key), winner)
        runs.append(replace(run, page=pages.get(key, ""), selected=selected))
        winners[run.run_id] = winner
    margins = {of.study.get("margin") for of in facts.values()}
    margin = margins.pop() if len(margins) == 1 and query.metric in ("score", "best") else None
    board = leaderboard(runs, _budgets(tables.searches), query.target, query.at, margin)
    board = audited(board, tables, rows)
    named = {row.sweep for row in board.rows}
    ways = {name: searched(of) for name, of in facts.items() if name in named}
    plain = (query.metric, query.at) == ("score", "rounds")
    curves = _curves(board, tables, {run.run_id: run for run in runs}, winners) if plain else ()
    return replace(board, searched=ways, budgets=curves)


def _places(names: Iterable[str]) -> dict[str, int]:
    """Return where each of several names stands first."""
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _curves(
    board: Leaderboard,
    tables: Tables,
    finals: Mapping[str, FinalRun],
    winners: Mapping[str, TrialId],
) -> tuple[Budgets, ...]:
    """Return what fewer trials would have chosen, scenario by scenario of each sweep, of the methods that are ranked."""
    found: dict[tuple[str, Scenario], dict[str, Tuning]] = {}
    metrics = {(of.name, entry.id): entry.metric for of, entry in entries_of(tables)}
    signs: dict[str, int] = {}
    for row in board.rows:
        key = row.sweep, row.entry_id
        if row.rank is not None and key in tables.searches:
            sign = signs[row.sweep] = TASKS[metrics[key]].sign
            repeats = [(finals[run], winners[run]) for run in row.runs]
            tuning = _tuning(tables.searches[key], repeats, sign)
            if all(tuning.trials.values()):  # of each replicate some are recorded
                found.setdefault((row.sweep, row.scenario), {})[row.algorithm] = tuning
    drawn = (budgets(sweep, scenario, of, signs[sweep]) for (sweep, scenario), of in found.items())
    return tuple(of for of in drawn if of is not None)


def _tuning(trials: pd.DataFrame, finals: Sequence[tuple[FinalRun, TrialId]], sign: int) -> Tuning:
    """Return a method's searches and final runs, each with the trial that it repeats, by the scores that rank."""
    ended = trials[(trials["kind"] == "search") & (trials["status"] != "failed")]
    by = dict(iter(ended[ended["test_score"].notna()].groupby("replicate")))
    scores = {run.draw: sign * run.score for run, _ in finals}
    points = {}
    for replicate, winner in {run.replicate: winner for run, winner in finals}.items():
        chosen = fmean(score for draw, score in scores.items() if draw[:-1] == replicate)
        there = by.get(winner.replicate, ended.iloc[:0])
        points[replicate] = [
            (math.inf, chosen) if trial.number == winner.index else _signed(trial, sign)
            for trial in there.itertuples()
        ]
    return Tuning(points, scores)


def _signed(trial: Any, sign: int) -> tuple[float, float]:
    """Return a search trial's scores with the sign that more is better: on validation, minus infinite where it cannot be chosen, and
    on test data.
    """
    able = can_be_chosen(trial.status, trial.feasible) and trial.val_score == trial.val_score
    return sign * trial.val_score if able else -math.inf, sign * trial.test_score


def can_be_chosen(status: str, feasible: object) -> bool:
    """Return whether final runs may repeat a search trial."""
    return status == Status.FINISHED and (feasible is None or bool(feasible))


def _chosen(trials: pd.DataFrame | None, source: TrialId) -> float | None:
    """Return the validation score of a search trial, which final runs repeat."""
    if trials is None:
        return None
    same = (trials["number"] == source.index) & (trials["replicate"] == source.replicate)
    found = trials.loc[same & (trials["kind"] == "search"), "val_score"]
    return number(found.iloc[0]) if len(found) else None


def _budgets(searches: Mapping[Key, pd.DataFrame]) -> dict[Key, int]:
    """Return the search trials of each entry in one of its replicates; the most, where they differ."""
    return {key: int(trials.groupby("replicate").size().max()) for key, trials in searches.items()}


def searched(facts: TableFacts) -> str:
    """Return the words for how a sweep found its configurations."""
    return searched_by(facts.study["sampler"], facts.study["trials"], LAG)


def _ongoing(tables: Tables) -> set[Ongoing]:
    """Return the scenarios in which an entry lacks final runs, of sweeps that have not ended."""
    there = Counter(zip(tables.finals["sweep"], tables.finals["entry_id"], strict=True))
    return {
        Ongoing(of.name, entry.scenario)
        for of, entry in entries_of(tables)
        if of.ended is None and there[of.name, entry.id] < finals_of(of.study)
    }


def _standings(tables: Tables, query: Query, going: Collection[Ongoing]) -> tuple[Standing, ...]:
    """Return how the entries of these scenarios stand that are asked for, in the order of the study."""
    there = Counter(zip(tables.finals["sweep"], tables.finals["entry_id"], strict=True))
    found = []
    for of, entry in entries_of(tables):
        key = of.name, entry.id
        if not _asked(query, entry) or Ongoing(of.name, entry.scenario) not in going:
            continue
        trials = tables.searches.get(key)
        best = None if trials is None else _best(trials, TASKS[entry.metric].sign)
        found.append(
            Standing(
                algorithm=entry.algorithm,
                **entry.scenario.names(),
                metric="" if trials is None else f"val_{entry.metric}",
                rank=None,
                best=None if best is None else float(best["val_score"]),
                trials=0 if trials is None else len(trials),
                planned=of.study["trials"] * replicates_of(of.study) + confirms_of(of.study),
                finals=there[key],
                seeds=finals_of(of.study),
                params={} if best is None else json.loads(best["params"]),
                reference=entry.reference,
                sweep=of.name,
                study=of.study_name,
                entry_id=entry.id,
            )
        )
    order = list(dict.fromkeys(one.group for one in found))
    return ranked(sorted(found, key=lambda one: order.index(one.group)))


def _best(trials: pd.DataFrame, sign: int) -> Any:
    """Return the best of the search trials that ran to their end; of equal ones the first."""
    done = trials[(trials["status"] == "finished") & (trials["kind"] == "search")]
    done = done[done["val_score"].notna()].sort_values("trial_id")
    return None if done.empty else done.iloc[int((sign * done["val_score"]).argmax())]


def _asked(query: Query, entry: EntryFacts) -> bool:
    return query.asks_for(entry.model_dump(include={"algorithm", *Scenario._fields, "metric"}))


def without_finals(
    tables: Tables, query: Query, going: Collection[Ongoing] = ()
) -> list[tuple[TableFacts, EntryFacts]]:
    """Return the entries that are asked for and have no final run that came to its end, but for those of scenarios that still go on."""
    finals = query.rows(tables.finals)
    finals = finals[finals["status"] != "failed"]
    there = set(zip(finals["sweep"], finals["entry_id"], strict=True))
    return [
        (of, entry)
        for of, entry in entries_of(tables)
        if _asked(query, entry)
        and (of.name, entry.id) not in there
        and Ongoing(of.name, entry.scenario) not in going
    ]


def _note(tables: Tables, finals: pd.DataFrame, of: TableFacts, entry: EntryFacts) -> str:
    """Say why an entry has no row."""
    ran = finals[(finals["sweep"] == of.name) & (finals["entry_id"] == entry.id)]
    tried = tables.searches.get((of.name, entry.id), ran.iloc[:0])
    kind, runs = ("final runs", ran) if len(ran) else ("trials", tried)
    ends = Counter(runs["status"])
    counts = ", ".join(f"{count} {end}" for end, count in ends.items()) or "there are none"
    why = next((reason(error) for error in reversed([*runs["error"]]) if error), "")
    begin = f"{entry.scenario}: {short(entry.algorithm)} has no row, since none of its"
    end = f" ({why})." if why else "."
    return f"{begin} {kind} in {of.name} came to an end: {counts}{end}"
