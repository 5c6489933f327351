"""A leaderboard as tables: its groups, how open scenarios stand, tests over data sets."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import compress, groupby
from statistics import fmean
from typing import NamedTuple

from reports.leaderboard import interim
from reports.leaderboard.board import Contest, Leaderboard, Row
from reports.leaderboard.statistics import DIFFERS, Across
from reports.table import Cell, Column, ColumnKind, Line, Table, table
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
    rank_text,
    score_text,
    short,
    spread_text,
    to_target_text,
)
from trials.common.errors import unknown
from trials.scoring.metrics import direction, sign

USUAL = ("#", "algorithm", "behind the best", "MB", "tuned")
"""The columns of a leaderboard beside the score and the rounds to a target, unless others are asked for."""
WHOLE = {"worst 10 %", "spread", "k samples", "MB"}
"""Columns about whole runs and final models, as rounds to a target are, which mislead where scores are of a part, at equal bytes or steps."""


class Measure(NamedTuple):
    """A column of a leaderboard: the row's field that it is about, by which it is sorted, and what it says of a row."""

    field: str
    column: Column
    text: Callable[[Row], str]

    def cell(self, row: Row) -> Cell:
        """Return the row's cell."""
        value = getattr(row, self.field)
        return Cell(self.text(row), value if isinstance(value, int | float) else None)


def measures(board: Leaderboard, rows: Sequence[Row], wanted: Collection[str]) -> list[Measure]:
    """Return the columns of a group of rows: the usual ones and those `wanted`, by their heads or "all". Seeds are
    among them where rows have unequal many. Raises `UserError` for a head that there is none of.
    """
    score, better = head_of(rows[0].metric), sign(direction(rows[0].metric))
    target = "" if board.target is None else f"rounds to {board.target:g}"
    words, name = ColumnKind.WORDS, ColumnKind.NAME
    every = [
        Measure("rank", Column("#", better=-1, look="rank"), rank_text),
        Measure("algorithm", Column("algorithm", name, look="name"), label),
        Measure("mean", Column(score, better=better), mean_text),
        Measure("behind", Column("behind the best", words, -1), behind_text),
        Measure("rounds_to_target", Column(target, better=-1), to_target_text),
        Measure("seeds", Column("seeds", better=1), lambda r: str(r.seeds)),
        Measure("spread", Column("spread by"), spread_text),
        Measure("worst_clients", Column("worst 10 %", better=better), _score("worst_clients")),
        Measure("client_spread", Column("spread", better=-1), _score("client_spread")),
        Measure(
            "sample_gradients",
            Column("k samples", better=-1),
            lambda r: f"{r.sample_gradients / 1e3:,.0f}",
        ),
        Measure("sent_bytes", Column("MB", better=-1), lambda r: f"{r.sent_bytes / 1e6:,.2f}"),
        Measure("trials", Column("trials", better=1), lambda r: str(r.trials)),
        Measure("params", Column("tuned", words, look="params"), lambda r: params_text(r.params)),
    ]
    heads = [measure.column.head for measure in every if measure.column.head]
    for head in wanted:
        if head not in ("all", *heads):
            raise unknown("column", head, heads)
    shown = set(heads if "all" in wanted else [*USUAL, score, target, *wanted])
    if len({(row.seeds, row.failed_seeds) for row in board.rows}) > 1 or rows[0].failed_seeds:
        shown.add("seeds")
    if board.at != "rounds":
        shown -= {*WHOLE, target}
    if all(len(row.spread) < 2 for row in board.rows):
        shown.discard("spread by")
    return [measure for measure in every if measure.column.head in shown - {""}]


def _score(field: str) -> Callable[[Row], str]:
    return lambda row: score_text(getattr(row, field), row)


def groups(board: Leaderboard) -> dict[Contest, list[Row]]:
    """Return the rows that are ranked together."""
    return {key: list(rows) for key, rows in groupby(board.rows, key=lambda row: row.group)}


def scenario_text(group: Contest) -> str:
    """Return the question that a group answers, in a line."""
    return f"{group.scenario}" + ", warm-started" * group.warm


def leads(row: Row) -> bool:
    """Return whether a row has the best score of its group, or may be the best."""
    return row.rank is not None and bool(row.behind == 0 or row.within_noise)


def board_tables(board: Leaderboard, columns: Collection[str] = ()) -> list[Table]:
    """Return a table for each group of rows that are ranked together, with these `columns` beside the usual ones."""
    tables = []
    for group, rows in groups(board).items():
        shown = measures(board, rows, columns)
        lines = [Line([measure.cell(row) for measure in shown], leads(row)) for row in rows]
        title = scenario_text(group) + _budget(board, rows[0])
        said = [answer(rows), *_by_model(board, group)]
        heads = [measure.column for measure in shown]
        tables.append(Table(heads, lines, title, group.sweeps, said, essential=4))
    return tables


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
    models = ", ".join(f"{row.model} {mean_text(row)} ({label(row)})" for row in order)
    return [f"By model, its best method: {models}."]


def _budget(board: Leaderboard, row: Row) -> str:
    """Return the amount that a group is compared at, in words; "" where whole runs are."""
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
    tables = []
    for (sweep, place), members in groupby(board.interim, key=lambda standing: standing.group):
        standings = list(members)
        heads = (
            Column("#"),
            Column("algorithm", ColumnKind.NAME),
            Column(f"best {head_of(standings[0].metric)}".strip()),
            Column("trials"),
            Column("final runs"),
            Column("best so far", ColumnKind.WORDS),
        )
        title = f"{place} ({sweep}): {interim.MARK}"
        tables.append(table(heads, map(_interim, standings), title=title, essential=3))
    return tables


def _interim(standing: interim.Standing) -> list[str]:
    return [
        "-" if standing.rank is None else str(standing.rank),
        short(standing.algorithm),
        number(standing.best, standing.metric),
        f"{standing.trials}/{standing.planned}",
        f"{standing.finals}/{standing.seeds}",
        params_text(standing.params),
    ]


def names_of(board: Leaderboard) -> list[str]:
    """Return the methods, those first that are ranked in the most scenarios, of these the least average rank."""
    ranks: dict[str, list[int]] = {row.algorithm: [] for row in board.rows}
    for row in board.rows:
        ranks[row.algorithm] += [row.rank] if row.rank else []
    return sorted(ranks, key=lambda n: (-len(ranks[n]), fmean(ranks[n] or [0]), short(n)))


def overview(board: Leaderboard) -> Table:
    """Return the scores of methods, a row each, in scenarios, a column each."""
    contests = groups(board)
    columns = [Column("algorithm", ColumnKind.NAME), *map(Column, told_apart([*contests]))]
    empty = [Cell("")] * len(contests)
    cells = {name: [Cell(short(name)), *empty] for name in names_of(board)}
    for place, rows in enumerate(contests.values(), 1):
        for row in rows:
            look = "best" if leads(row) else ""
            cells[row.algorithm][place] = Cell(mean_text(row), row.mean, look=look)
    return table(columns, cells.values())


def told_apart(contests: Sequence[Contest]) -> list[str]:
    """Return each question by that in which they differ: parts of its place, whether it is warm-started, its sweeps."""
    places = zip(*(group.scenario for group in contests), strict=True)
    apart = [len(set(parts)) > 1 for parts in places]
    apart = apart if any(apart) else [False, False, True]
    warm = len({group.warm for group in contests}) > 1
    names = []
    for group in contests:
        name = " · ".join(compress(group.scenario, apart))
        names.append(name + ", warm-started" * (warm and group.warm))
    alike = Counter(names)
    return [
        f"{name} ({group.sweeps})" if alike[name] > 1 else name
        for name, group in zip(names, contests, strict=True)
    ]


def several(board: Leaderboard) -> dict[str, Across]:
    """Return comparisons over more than one family of data sets, by what is compared."""
    return {metric: across for metric, across in board.overall.items() if len(across.families) > 1}


def across_table(metric: str, across: Across) -> Table:
    """Return each algorithm's average rank over data sets with its interval, and what it is shown to differ from."""
    columns = (
        Column("algorithm", ColumnKind.NAME),
        Column("average rank", better=-1),
        Column("differs from (Wilcoxon-Holm)", ColumnKind.WORDS),
    )
    rows = []
    for i, (name, rank) in enumerate(zip(across.algorithms, across.ranks, strict=True)):
        low, high = across.rank_low[i], across.rank_high[i]
        others = [
            short(pair.second if pair.first == name else pair.first)
            for pair in across.pairs
            if name in (pair.first, pair.second) and pair.verdict == DIFFERS
        ]
        rows.append([short(name), f"{rank:.2f} [{low:.1f}, {high:.1f}]", ", ".join(others)])
    return table(columns, rows, title=overall_title(metric, across), said=[overall(across)])
