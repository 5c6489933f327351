"""The audit of a leaderboard's rows, from the trials of their searches."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reports.leaderboard.audit import Audit, Tried, audit, combined, findings
from reports.leaderboard.board import Leaderboard, Row
from suite.results.remedies import remedy
from suite.results.tables import Key, Tables
from trials.algorithm import Range
from trials.run.trial_id import TrialId
from trials.scoring.metrics import TASKS

if TYPE_CHECKING:
    import pandas as pd


def audited(board: Leaderboard, tables: Tables, finals: Sequence[Mapping[str, Any]]) -> Leaderboard:
    """Return the leaderboard with an audit of each row whose search is in the tables; `finals` are the final runs of its rows."""
    ranges: dict[Key, Mapping[str, Range]] = {
        (name, entry.id): entry.space for name, of in tables.facts.items() for entry in of.entries
    }
    facts = {}
    for row in board.rows:
        key = row.sweep, row.entry_id
        ran = [final for final in finals if (final["sweep"], final["entry_id"]) == key]
        facts[key] = _audit(tables.searches.get(key), ran, ranges.get(key))
    mends = {}
    for name, sweep in tables.facts.items():
        rows = [row for row in board.rows if row.sweep == name]
        told = [(row.algorithm, facts[name, row.entry_id]) for row in rows]
        spaces = {row.algorithm: ranges.get((name, row.entry_id), {}) for row in rows}
        if told:
            mends[name] = remedy(sweep, told, spaces, tables.options)

    def with_audit(row: Row) -> Row:
        known, by = facts[row.sweep, row.entry_id], mends.get(row.sweep)
        if by is not None and known.trials:
            known = replace(known, findings=findings(known, by))
        return replace(row, audit=known if known.trials else None)

    return replace(board, rows=tuple(map(with_audit, board.rows)))


def _audit(
    trials: "pd.DataFrame | None",
    finals: Sequence[Mapping[str, Any]],
    ranges: Mapping[str, Range] | None,
) -> Audit:
    """Return the facts of an entry's searches, each of whose winners ran again in some of `finals`."""
    if trials is None:
        return combined([])
    searches = []
    for replicate, tried in trials.groupby("replicate"):
        ran = [final for final in finals if final["replicate"] == replicate]
        searched = tried[tried["kind"] == "search"]
        columns = (searched[name] for name in ("number", "status", "val_score"))
        searches.append(
            audit(
                [
                    Tried(int(number), status, None if value != value else float(value))
                    for number, status, value in zip(*columns, strict=True)
                ],
                TrialId.parse(ran[0]["source"]).index if ran else None,
                json.loads(ran[0]["params"]) if ran else {},
                ranges,
                [final["val_score"] for final in ran if final["val_score"] == final["val_score"]],
                TASKS[finals[0]["metric"]].sign,
            )
        )
    return combined(searches)
