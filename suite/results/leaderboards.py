"""Leaderboards: a function of tables and of what is asked of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reports.leaderboard.board import Leaderboard
from reports.leaderboard.interim import Standing, ranked
from reports.leaderboard.leaderboard import leaderboard
from reports.wording.words import short
from suite.results.audits import audited
from suite.results.final_runs import curves_for, final_run
from suite.results.query import EVERYTHING, Query
from suite.results.table import TableFacts
from suite.results.tables import Tables, each, records, within
from suite.studies.replicates import confirms_of, finals_of, replicates_of
from suite.studies.samplers import LAG, searched_by
from suite.tracking.schema.leaderboard_view import run_page
from trials.federated_data import UNREACHED
from trials.run.outcome import Status, reason
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
    entries, finals = query.rows(tables.entries), query.rows(tables.finals)
    going = entries[entries["going"] & query.interim]
    sound = finals[(finals["status"] != Status.FAILED) & ~within(finals, going)]
    standing = _standings(tables, going)
    notes = [_note(tables, finals, entry) for entry in each(without_row(tables, query))]
    if sound.empty and not standing:
        why = query.why_none(tables.finals)
        if notes:
            why.args = ("\n".join(("there is no row to show", *notes)),)
        raise why
    board = _ranked(tables, query, sound)
    if sound.empty:
        metrics = dict.fromkeys(row.metric.removeprefix("val_") for row in standing if row.metric)
        board = replace(
            board,
            study=", ".join(sorted({row.study for row in standing})),
            metric=", ".join(f"test_{name}" for name in metrics),
            direction=", ".join(map(direction, metrics)),
            searched={name: searched(facts) for name, facts in tables.facts.items()},
        )
    cut = [f"{name} was {facts.cut}." for name, facts in tables.facts.items() if facts.cut]
    return replace(board, interim=standing, notes=(*cut, *board.notes, *notes, *_unreached(finals)))


def _unreached(finals: pd.DataFrame) -> list[str]:
    """Say of each data set and level which samples reach nobody, by its first run."""
    told: dict[tuple[str, str], list[str]] = {}
    columns = ("dataset", "heterogeneity", "data_note")
    for dataset, level, note in zip(*(finals[name] for name in columns), strict=True):
        lines = [line for line in str(note).splitlines() if line.startswith(UNREACHED)]
        told.setdefault((dataset, level), [f"{dataset} · {level}: {line}." for line in lines])
    return [line for lines in told.values() for line in lines]


def without_row(tables: Tables, query: Query) -> pd.DataFrame:
    """Return the entries that are asked for and have no final run that came to its end, but for those of scenarios that still go on."""
    entries, finals = query.rows(tables.entries), query.rows(tables.finals)
    ended = finals[finals["status"] != Status.FAILED]
    return entries[~within(entries, ended) & ~(entries["going"] & query.interim)]


def _note(tables: Tables, finals: pd.DataFrame, entry: Any) -> str:
    """Say why an entry has no row."""
    ran = finals[(finals["sweep"] == entry.sweep) & (finals["entry_id"] == entry.entry_id)]
    tried = tables.searches.get((entry.sweep, entry.entry_id), ran)
    kind, runs = ("final runs", ran) if len(ran) else ("trials", tried)
    ends = Counter(runs["status"])
    counts = ", ".join(f"{count} {end}" for end, count in ends.items()) or "there are none"
    why = next((reason(error) for error in reversed([*runs["error"]]) if error), "")
    begin = f"{entry.entry.scenario}: {short(entry.algorithm)} has no row, since none of its {kind}"
    return f"{begin} in {entry.sweep} came to an end: {counts}{f' ({why})' if why else ''}."


def searched(facts: TableFacts) -> str:
    """Return the words for how a sweep found its configurations."""
    return searched_by(facts.study["sampler"], facts.study["trials"], LAG)


def _ranked(tables: Tables, query: Query, finals: pd.DataFrame) -> Leaderboard:
    """Return the rows of final runs, and all that is known of them."""
    facts, entries = tables.facts, tables.entries
    own: dict[str, Any] = {name: known.study.get("target") for name, known in facts.items()}
    targets = {own[sweep] for sweep in finals["sweep"] if own[sweep] is not None}
    if query.target is None and len(targets) == 1:
        query = replace(query, target=next(iter(targets)))
    # As studies list their scenarios, whichever trials ended first; of equal ones the older sweep is first.
    place = {"entry_id": entries["entry_id"].unique().tolist(), "sweep": [*facts]}
    finals = finals.sort_values(
        ["entry_id", "sweep", "split", "partition", "tuning", "seed"],
        key=lambda column: column.map(place[column.name].index) if column.name in place else column,
    )
    rows = records(finals)
    columns = curves_for(query, targets)
    histories = tables.histories(columns) if columns else {}
    pages = {
        (row.sweep, row.entry_id): run_page(row.facts.experiment, row.entry.row)
        for row in each(entries)
        if row.entry.row
    }
    runs = [
        replace(
            final_run(
                row, histories.get((row["sweep"], row["trial_id"]), []), query, own[row["sweep"]]
            ),
            page=pages.get((row["sweep"], row["entry_id"]), ""),
        )
        for row in rows
    ]
    margins = {known.study.get("margin") for known in facts.values()}
    margin = margins.pop() if len(margins) == 1 and query.metric in ("score", "best") else None
    trials = {
        key: int(tried.groupby("replicate").size().max()) for key, tried in tables.searches.items()
    }
    board = leaderboard(runs, trials, query.target, query.at, margin)
    board = audited(board, tables, finals)
    ways = {name: searched(facts[name]) for name in facts if name in {r.sweep for r in board.rows}}
    return replace(board, searched=ways)


def _standings(tables: Tables, entries: pd.DataFrame) -> tuple[Standing, ...]:
    """Return how entries of scenarios that go on stand, in the order of the study."""
    standings = []
    for row in each(entries):
        trials = tables.searches.get((row.sweep, row.entry_id))
        best = None if trials is None else _best(trials, TASKS[row.metric].sign)
        study = row.facts.study
        standings.append(
            Standing(
                algorithm=row.algorithm,
                **row.entry.scenario.names(),
                metric="" if trials is None else f"val_{row.metric}",
                rank=None,
                best=None if best is None else float(best["val_score"]),
                trials=0 if trials is None else len(trials),
                planned=study["trials"] * replicates_of(study) + confirms_of(study),
                finals=row.finals,
                seeds=finals_of(study),
                params={} if best is None else json.loads(best["params"]),
                reference=row.reference,
                sweep=row.sweep,
                study=row.study,
                entry_id=row.entry_id,
            )
        )
    return ranked(standings)


def _best(trials: pd.DataFrame, sign: int) -> Any:
    """Return the best of the search trials that ran to their end; of equal ones the first."""
    done = trials[(trials["status"] == Status.FINISHED) & (trials["kind"] == "search")]
    done = done[done["val_score"].notna()].sort_values("trial_id")
    return None if done.empty else done.iloc[int((sign * done["val_score"]).argmax())]
