"""Leaderboards and the audits of their rows: a function of tables and of what is asked of them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from reports.leaderboard.audit import Audit, audit, combined, findings
from reports.leaderboard.board import Leaderboard
from reports.leaderboard.interim import Ongoing, Standing
from reports.leaderboard.leaderboard import COMPARED, leaderboard
from reports.wording.words import short
from suite.results.query import NONE_YET, Query, compared
from suite.results.table import CURVES, EntryFacts, TableFacts
from suite.results.tables import KEYS, Tables, each, records, within
from suite.studies.replicates import confirms_of, finals_of, replicates_of
from suite.studies.samplers import LAG, searched_by
from suite.tracking.schema.leaderboard_view import run_page
from trials.common.errors import UserError
from trials.federated_data import UNREACHED
from trials.run.outcome import Status, reason
from trials.scoring.metrics import COUNTED, TASKS, direction

if TYPE_CHECKING:
    import pandas as pd

IN_TURN = ["entry_id", "sweep", "split", "partition", "tuning", "seed"]


def read_leaderboard(tables: Tables, query: Query | None = None) -> Leaderboard:
    """Return the leaderboard of the sweeps that are asked for, all by default; `target` defaults to that of their studies. Scenarios whose
    final runs are not all there stand under `interim`. Raises `UserError` where there are no runs, or a metric was not recorded.
    """
    query = query or Query()
    return board_of(tables.of(query.sweep, query.studies), query)


def board_of(tables: Tables, query: Query) -> Leaderboard:
    """Return the leaderboard of all of these tables; raises as `read_leaderboard` does."""
    if not tables.tables:  # none of them can be read, which was said
        raise UserError(NONE_YET)
    entries, finals = query.rows(tables.entries), query.rows(tables.finals)
    going = entries[entries["going"] & query.interim]
    sound = finals[(finals["status"] != Status.FAILED) & ~within(finals, going)]
    standing = _standings(tables, going)
    notes = [_note(tables, finals, entry) for entry in each(without_row(tables, query))]
    if sound.empty and not standing:
        none = NONE_YET if tables.finals.empty else "no final run has all of these values"
        raise UserError("\n".join(["there is no row to show", *notes]) if notes else none)
    board = _ranked(tables, query, sound)
    if sound.empty:
        names = dict.fromkeys(row.metric.removeprefix("val_") for row in standing)
        board = replace(
            board,
            study=", ".join(sorted({row.study for row in standing})),
            metric=", ".join(f"test_{name}" for name in names),
            direction=", ".join(map(direction, names)),
        )
    shown = {row.sweep for row in board.rows or standing}
    ways = {name: searched(facts) for name, facts in tables.facts.items() if name in shown}
    cut = [f"{name} was {facts.cut}." for name, facts in tables.facts.items() if facts.cut]
    firsts = finals.drop_duplicates(["dataset", "heterogeneity"])
    unreached = [
        f"{run.dataset} · {run.heterogeneity}: {line}."
        for run in each(firsts)
        for line in str(run.data_note).splitlines()
        if line.startswith(UNREACHED)
    ]
    notes = [*cut, *board.notes, *notes, *unreached]
    return replace(board, interim=standing, notes=tuple(notes), searched=ways)


def without_row(tables: Tables, query: Query) -> pd.DataFrame:
    """Return the entries that are asked for and have no final run that came to its end, of scenarios that do not go on."""
    entries, finals = query.rows(tables.entries), query.rows(tables.finals)
    ended = finals[finals["status"] != Status.FAILED]
    return entries[~within(entries, ended) & ~(entries["going"] & query.interim)]


def _note(tables: Tables, finals: pd.DataFrame, entry: Any) -> str:
    """Say why an entry has no row."""
    ran = finals[(finals["sweep"] == entry.sweep) & (finals["entry_id"] == entry.entry_id)]
    tried = tables.searches.get((entry.sweep, entry.entry_id), ran)
    kind, runs = ("final runs", ran) if len(ran) else ("trials", tried)
    ends = Counter(runs["status"]).items()
    counts = ", ".join(f"{count} {end}" for end, count in ends) or "there are none"
    why = next((f" ({reason(error)})" for error in reversed([*runs["error"]]) if error), "")
    begin = f"{entry.entry.scenario}: {short(entry.algorithm)} has no row, since none of its {kind}"
    return f"{begin} in {entry.sweep} came to an end: {counts}{why}."


def searched(facts: TableFacts) -> str:
    """Return the words for how a sweep found its configurations."""
    return searched_by(facts.study["sampler"], facts.study["trials"], LAG)


def _ranked(tables: Tables, query: Query, finals: pd.DataFrame) -> Leaderboard:
    """Return the rows of final runs with their audits."""
    import pandas as pd

    studies = {name: facts.study for name, facts in tables.facts.items()}
    own: dict[str, Any] = {name: study.get("target") for name, study in studies.items()}
    targets = {own[sweep] for sweep in finals["sweep"]} - {None}
    if query.target is None and len(targets) == 1:
        query = replace(query, target=next(iter(targets)))
    # As studies list their scenarios, whichever trials ended first; of equal ones the older sweep is first.
    places = {"entry_id": tables.entries["entry_id"].unique().tolist(), "sweep": [*studies]}
    finals = finals.sort_values(
        IN_TURN, key=lambda c: c.map(places[c.name].index) if c.name in places else c
    )
    histories = tables.histories(CURVES[1:]) if query.needs_histories(targets) else {}
    pages = {}
    for entry in each(tables.entries):
        row = entry.entry.row
        page = run_page(entry.facts.experiment, row) if row else ""
        pages[entry.sweep, entry.entry_id] = {"page": page}
    rows = []
    for run in records(finals):
        history = histories.get((run["sweep"], run["trial_id"]), [])
        asked = compared(run, history, query, own[run["sweep"]])
        rows.append({**run, **asked, **pages[run["sweep"], run["entry_id"]]})
    runs = pd.DataFrame(rows, columns=[*finals, *COMPARED])
    runs = runs.fillna(dict.fromkeys(COUNTED, 0.0))
    margins = {study.get("margin") for study in studies.values()}
    margin = margins.pop() if len(margins) == 1 and query.metric in ("score", "best") else None
    trials = {
        key: int(tried.groupby("replicate").size().max()) for key, tried in tables.searches.items()
    }
    board = leaderboard(runs, trials, query.target, query.at, margin)
    return _audited(board, tables, finals)


def _standings(tables: Tables, entries: pd.DataFrame) -> tuple[Standing, ...]:
    """Return how entries of scenarios that go on stand, scenario after scenario in the order of the study, best first; those without
    a score and references last.
    """
    scores: dict[Ongoing, list[float]] = defaultdict(list)
    standings: list[tuple[Standing, float]] = []
    for row in each(entries):
        trials, study = tables.searches.get((row.sweep, row.entry_id)), row.facts.study
        params, best, score = {}, None, -inf
        if trials is not None:
            done = trials[(trials["status"] == Status.FINISHED) & (trials["kind"] == "search")]
            done = done[done["val_score"].notna()]
            signed = TASKS[row.metric].sign * done["val_score"]
            if len(done):  # of equal ones the first
                first = done.iloc[int(signed.argmax())]
                params, best = json.loads(first["params"]), float(first["val_score"])
                score = -inf if row.reference else signed.max()
        shared = {k: v for k, v in row._asdict().items() if k in Standing.__dataclass_fields__}
        search = {
            "metric": f"val_{row.metric}",
            "rank": None,
            "best": best,
            "trials": 0 if trials is None else len(trials),
            "planned": study["trials"] * replicates_of(study) + confirms_of(study),
            "seeds": finals_of(study),
            "params": params,
        }
        standing = Standing(**shared | search)
        scores[standing.group].append(score)
        standings.append((standing, score))
    order = [*scores]
    standings.sort(key=lambda pair: (order.index(pair[0].group), -pair[1]))
    return tuple(
        replace(row, rank=1 + sum(other > score for other in scores[row.group]))
        if score > -inf
        else row
        for row, score in standings
    )


def _audited(board: Leaderboard, tables: Tables, finals: pd.DataFrame) -> Leaderboard:
    """Return the leaderboard with an audit of each row whose search is in the tables; `finals` are the final runs of its rows."""
    entries = {(row.sweep, row.entry_id): row.entry for row in each(tables.entries)}
    ran = dict(iter(finals.groupby(KEYS)))
    rows = []
    for row in board.rows:
        key, facts = (row.sweep, row.entry_id), None
        if key in tables.searches:
            facts = _audit(tables.searches[key], ran[key], entries[key])
            facts = replace(facts, findings=findings(facts))
        rows.append(replace(row, audit=facts))
    return replace(board, rows=tuple(rows))


def _audit(trials: pd.DataFrame, finals: pd.DataFrame, entry: EntryFacts) -> Audit:
    """Return the facts of an entry's searches, each of whose winners ran again in some of `finals`."""
    sign, audits = TASKS[entry.metric].sign, []
    for replicate, own in trials[trials["kind"] == "search"].groupby("replicate"):
        ran = finals[finals["replicate"] == replicate]
        winner = int(ran["number"].iloc[0]) if len(ran) else None
        params = json.loads(ran["params"].iloc[0]) if len(ran) else {}
        scores = [*ran["val_score"].dropna()]
        audits.append(audit(own, winner, params, entry.space, scores, sign))
    return combined(audits)
