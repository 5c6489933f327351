"""The audit of a leaderboard's rows, from the recorded search trials."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from reports.leaderboard.audit import Audit, Tried, audit, findings
from reports.leaderboard.leaderboard import Leaderboard, Row
from suite.results.mends import mend
from suite.results.query import Held
from suite.tracking.store import Record
from trials.metrics import TASKS
from trials.trial_id import TrialId

Key = tuple[str, str]
"""Sweep and entry."""


def audited(board: Leaderboard, held: Held, options: list[str]) -> Leaderboard:
    """The leaderboard with an audit of each row whose search is in the store, which commands are told of by
    these `options`.
    """
    tried, ran = _by_entry(held.searches), _by_entry(held.finals)
    ranges = {(run.tags.sweep, run.tags.cell): run.tags.space for run in held.entries}
    facts: dict[Key, Audit] = {}
    for row in board.rows:
        key = row.sweep, row.cell
        trials = [_tried(run) for run in tried[key] if not run.tags.confirm]
        seeds = [run.metrics["val_score"] for run in ran[key] if "val_score" in run.metrics]
        winner = next((TrialId.parse(run.tags.source).index for run in ran[key]), None)
        sign = TASKS[ran[key][0].tags.metric].sign if ran[key] else 1
        facts[key] = audit(trials, winner, row.params, ranges.get(key), seeds, sign)
    mends = {}
    for sweep in held.sweeps:
        name = sweep.tags.sweep
        rows = [row for row in board.rows if row.sweep == name]
        told = [(row.algorithm, facts[name, row.cell]) for row in rows]
        spaces = {row.algorithm: ranges.get((name, row.cell)) or {} for row in rows}
        if told:
            mends[name] = mend(sweep, told, spaces, options)

    def with_audit(row: Row) -> Row:
        known, by = facts[row.sweep, row.cell], mends.get(row.sweep)
        if by is not None and known.trials:
            known = replace(known, findings=findings(known, by))
        return replace(row, audit=known if known.trials else None)

    return replace(board, rows=tuple(map(with_audit, board.rows)))


def _by_entry(runs: Sequence[Record]) -> dict[Key, list[Record]]:
    found: dict[Key, list[Record]] = defaultdict(list)
    for run in runs:
        found[run.tags.sweep, run.tags.cell].append(run)
    return found


def _tried(run: Record) -> Tried:
    return Tried(
        TrialId.parse(run.tags.trial_id).index, run.tags.status, run.metrics.get("val_score")
    )
