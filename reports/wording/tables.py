"""A leaderboard as tables: its groups, how open scenarios stand, the audit, tests over data sets."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby

from reports.leaderboard import interim
from reports.leaderboard.board import Contest, Leaderboard, Row
from reports.leaderboard.statistics import Across
from reports.table import Cell, Cells, Column, ColumnKind, Line, Table, table, without_empty
from reports.wording import audits
from reports.wording.words import (
    answer,
    behind_text,
    head_of,
    label,
    mean_text,
    number,
    overall,
    overall_title,
    params_text,
    percent,
    rank_text,
    score_text,
    short,
    spread_text,
    standings,
    to_target_text,
    total_bytes,
)
from trials.common.errors import unknown
from trials.scoring.metrics import direction, sign


@dataclass(frozen=True)
class Measure:
    """A column of a leaderboard: what it says of a row, and the number that a page sorts it by."""

    column: Column
    text: Callable[[Row], str]
    value: Callable[[Row], float | None] = lambda row: None

    def cell(self, row: Row) -> Cell:
        """The row's cell."""
        value = self.value(row)
        return Cell(self.text(row), "" if value is None else value)


USUAL = ("#", "algorithm", "behind the best", "MB", "tuned")
"""The columns of a leaderboard beside the score and the rounds to a target, unless others are asked for."""


def measures(board: Leaderboard, rows: Sequence[Row], wanted: Collection[str]) -> list[Measure]:
    """Return the columns of a group of rows: the usual ones and those `wanted`, by their heads or "all". Seeds are
    among them where rows have unequal many.
    """
    better = sign(direction(rows[0].metric))
    seeds = {(row.seeds, row.failed_seeds) for row in board.rows}
    always = ["seeds"] if len(seeds) > 1 or any(failed for _, failed in seeds) else []
    target = "" if board.target is None else f"rounds to {board.target:g}"
    score = head_of(rows[0].metric)
    every = [
        Measure(Column("#", better=-1, look="rank"), rank_text, lambda r: r.rank or 999),
        Measure(Column("algorithm", ColumnKind.NAME, look="name"), label),
        Measure(Column(score, better=better), mean_text, lambda r: r.mean),
        Measure(Column("behind the best", ColumnKind.WORDS, -1), behind_text, lambda r: r.behind),
        Measure(Column(target, better=-1), to_target_text, lambda r: r.rounds_to_target),
        Measure(
            Column("seeds", better=1), lambda r: str(r.seeds), lambda r: r.seeds - r.failed_seeds
        ),
        Measure(Column("spread by"), spread_text),
        Measure(
            Column("worst 10 %", better=better),
            lambda r: score_text(r.worst_clients, r),
            lambda r: r.worst_clients,
        ),
        Measure(
            Column("spread", better=-1),
            lambda r: score_text(r.client_spread, r),
            lambda r: r.client_spread,
        ),
        Measure(
            Column("k samples", better=-1),
            lambda r: f"{r.sample_gradients / 1e3:,.0f}",
            lambda r: r.sample_gradients,
        ),
        Measure(Column("MB", better=-1), lambda r: f"{total_bytes(r) / 1e6:,.2f}", total_bytes),
        Measure(Column("trials", better=1), lambda r: str(r.trials), lambda r: r.trials),
        Measure(Column("tuned", ColumnKind.WORDS, look="params"), lambda r: params_text(r.params)),
    ]
    heads = [measure.column.head for measure in every if measure.column.head]
    for name in wanted:
        if name not in ("all", *heads):
            raise unknown("column", name, heads)
    shown = set(heads if "all" in wanted else [*USUAL, score, target, *always, *wanted])
    shown -= {""}  # the rounds to no target
    if board.at != "rounds":  # what a run spends in all misleads at equal bytes or steps
        shown -= {"k samples", "MB"}
    if not any(len(row.spread) > 1 for row in board.rows):
        shown -= {"spread by"}
    return [measure for measure in every if measure.column.head in shown]


def groups(board: Leaderboard) -> dict[Contest, list[Row]]:
    """The rows that are ranked together."""
    return {key: list(rows) for key, rows in groupby(board.rows, key=lambda row: row.group)}


def scenario_text(group: Contest) -> str:
    """The question that a group answers, in a line."""
    return f"{group.scenario}" + (", warm-started" if group.warm else "")


def leads(row: Row) -> bool:
    """Return whether a row has the best score of its group, or may be the best."""
    return row.rank is not None and bool(row.behind == 0 or row.within_noise)


def board_tables(board: Leaderboard, columns: Collection[str] = ()) -> list[Table]:
    """Return a table for each group of rows that are ranked together, with these `columns` beside the usual ones."""
    found = []
    for group, rows in groups(board).items():
        shown = measures(board, rows, columns)
        lines = [Line([measure.cell(row) for measure in shown], leads(row)) for row in rows]
        title = scenario_text(group) + _budget(board, rows[0])
        said = [answer(rows), *_by_model(board, group)]
        heads = [measure.column for measure in shown]
        found.append(Table(heads, lines, title, group.sweeps, said, essential=4))
    return found


def _by_model(board: Leaderboard, group: Contest) -> list[str]:
    """Say below the last of several models' tables which model suits: the best row of each, since ranks are within a model.

    At equal bytes or steps each model has a budget of its own, so nothing is said.
    """
    best: dict[str, Row] = {}
    for row in board.rows:
        other = row.group._replace(scenario=row.scenario._replace(model=group.scenario.model))
        if other == group and row.rank == 1:
            best.setdefault(row.model, row)
    if board.at != "rounds" or len(best) < 2 or [*best][-1] != group.scenario.model:
        return []
    better = sign(direction(next(iter(best.values())).metric))
    order = sorted(best.values(), key=lambda row: better * row.mean, reverse=True)
    told = ", ".join(f"{row.model} {mean_text(row)} ({short(row.algorithm)})" for row in order)
    return [f"By model, its best method: {told}."]


def _budget(board: Leaderboard, row: Row) -> str:
    """The amount that a group is compared at, in words; "" where whole runs are."""
    if row.budget is None:
        return ""
    amount = {
        "bytes": f"{row.budget / 1e6:.2f} MB",
        "steps": f"{row.budget / 1e3:,.0f} k samples",
        "seconds": f"{row.budget:,.0f} simulated s",
    }[board.at]
    return f", at {amount} of each run"


def interim_tables(board: Leaderboard) -> list[Table]:
    """Return how the scenarios stand that are not over, a table each."""
    made = []
    for (sweep, place), group in groupby(board.interim, key=lambda one: one.group):
        ongoing = list(group)
        heads = (
            Column("#"),
            Column("algorithm", ColumnKind.NAME),
            Column("best val" + " %" * percent(ongoing[0].metric)),
            Column("trials"),
            Column("final runs"),
            Column("best so far", ColumnKind.WORDS),
        )
        title = f"{place} ({sweep}): {interim.MARK}"
        made.append(table(heads, map(_interim, ongoing), title=title, essential=3))
    return made


def _interim(one: interim.Standing) -> list[str]:
    """The line of an algorithm in a scenario that is not over."""
    rank, counts = one.rank, ((one.trials, one.planned), (one.finals, one.seeds))
    done = [f"{count}/{of}" for count, of in counts]
    name, best = short(one.algorithm), number(one.best, one.metric)
    return ["-" if rank is None else str(rank), name, best, *done, params_text(one.params)]


def audit_table(board: Leaderboard) -> Table | None:
    """How fair the searches were, a line for each audited row; None where no row is."""
    rows = [row for row in board.rows if row.audit is not None]
    if not rows:
        return None
    made = table(audits.HEAD, audits.facts(rows), essential=2)
    return without_empty(made)


def several(board: Leaderboard) -> dict[str, Across]:
    """Comparisons over more than one data set, by what is compared."""
    return {metric: found for metric, found in board.overall.items() if len(found.families) > 1}


def across_table(metric: str, found: Across) -> Table:
    """Each algorithm's average rank over data sets, and what the tests say."""
    columns = (
        Column("algorithm", ColumnKind.NAME),
        Column("average rank", better=-1),
        Column("differs from (Wilcoxon-Holm)", ColumnKind.WORDS),
    )
    title = overall_title(metric, found)
    return table(columns, standings(found), title=title, said=[" ".join(overall(found))])


def pairs_table(found: Across) -> Table:
    """Every pair of algorithms with its tests."""
    heads = {
        "ranks apart": (1, "rank_difference"),
        "Wilcoxon p": (-1, "wilcoxon"),
        "Holm p": (-1, "holm"),
        "least p possible": (-1, "smallest"),
        "Nemenyi p": (-1, "nemenyi"),
    }
    columns = [
        Column("better", ColumnKind.NAME),
        Column("worse", ColumnKind.WORDS),
        *(Column(head, better=better) for head, (better, _) in heads.items()),
        Column("verdict", ColumnKind.WORDS),
    ]
    rows: list[Cells] = []
    for pair in found.pairs:
        values = [getattr(pair, key) for _, key in heads.values()]
        texts = [f"{values[0]:.2f}", *(f"{value:.2g}" for value in values[1:])]
        numbers = map(Cell, texts, values)
        rows.append([short(pair.first), short(pair.second), *numbers, pair.verdict])
    return table(columns, rows)


UNORDERED = {"params", "runs", "page", "audit", "chosen", "spread", "by_replicate", "beaten_by"}
SORTABLE = [item.name for item in fields(Row) if item.name not in UNORDERED]
"""What rows can be ordered by."""


def ordered(board: Leaderboard, field: str, down: bool) -> Leaderboard:
    """The same rows, those of each group in the order of a field; without a value last."""
    rows: list[Row] = []
    for _, members in groupby(board.rows, key=lambda row: row.group):
        found = list(members)
        known = [row for row in found if getattr(row, field) is not None]
        known.sort(key=lambda row: getattr(row, field), reverse=down)
        rows += [*known, *(row for row in found if getattr(row, field) is None)]
    return replace(board, rows=tuple(rows))
