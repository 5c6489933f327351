"""The audit of a leaderboard's rows, from the recorded search trials."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reports.leaderboard.audit import Audit, Tried, audit, combined, findings
from reports.leaderboard.board import Leaderboard, Row
from suite.results.query import Held
from suite.results.remedies import remedy
from suite.results.searched import Key, Searched, of_replicates
from suite.tracking.record import Record
from trials.algorithm import Range
from trials.run.trial_id import TrialId
from trials.scoring.metrics import TASKS


def audited(board: Leaderboard, held: Held, options: list[str]) -> Leaderboard:
    """The leaderboard with an audit of each row whose search is in the store, which commands are told of by
    these `options`.
    """
    tried = {key: of_replicates(trials) for key, trials in held.searches.items()}
    ran, tasks = _by_search(held.finals), held.tasks
    ranges = {(run.tags.sweep, run.tags.entry_id): run.tags.space for run in held.entries}
    facts: dict[Key, Audit] = {}
    for row in board.rows:
        key = row.sweep, row.entry_id
        known = tried.get(key, {})
        searches = [_search(known[of], ran[key][of], ranges.get(key), tasks[key]) for of in known]
        facts[key] = combined(searches)
    mends = {}
    for sweep in held.sweeps:
        name = sweep.tags.sweep
        rows = [row for row in board.rows if row.sweep == name]
        told = [(row.algorithm, facts[name, row.entry_id]) for row in rows]
        spaces = {row.algorithm: ranges.get((name, row.entry_id), {}) for row in rows}
        if told:
            mends[name] = remedy(sweep, told, spaces, options)

    def with_audit(row: Row) -> Row:
        known, by = facts[row.sweep, row.entry_id], mends.get(row.sweep)
        if by is not None and known.trials:
            known = replace(known, findings=findings(known, by))
        return replace(row, audit=known if known.trials else None)

    return replace(board, rows=tuple(map(with_audit, board.rows)))


def _by_search(runs: Sequence[Record]) -> dict[Key, dict[str, list[Record]]]:
    """The runs of each entry by the replicate that they are of."""
    found: dict[Key, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        of = TrialId.parse(run.tags.trial_id).replicate
        found[run.tags.sweep, run.tags.entry_id][of].append(run)
    return found


def _search(
    searches: Sequence[Searched],
    finals: Sequence[Record],
    ranges: Mapping[str, Range] | None,
    task: str,
) -> Audit:
    """The facts of one search, whose winner ran again in `finals`."""
    first = finals[0] if finals else None
    return audit(
        [Tried(one.number, one.status, one.value) for one in searches if not one.confirm],
        None if first is None else TrialId.parse(first.tags.source).index,
        {} if first is None else first.tags.params,
        ranges,
        [run.metrics["val_score"] for run in finals if "val_score" in run.metrics],
        TASKS[task].sign,
    )
