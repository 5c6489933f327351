"""The tables of a leaderboard, and the leaderboard as text: for a terminal, as CSV, Markdown and LaTeX."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress, groupby, starmap
from operator import attrgetter
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text

from reports.leaderboard.board import ABOUT, MARK, Contest, Leaderboard, Row
from reports.leaderboard.names import as_shown
from reports.leaderboard.statistics import DIFFERS, Across
from reports.table import (
    Cell,
    Column,
    ColumnKind,
    Line,
    Table,
    markdown,
    plain,
    table,
    visible,
)
from reports.terminal import drawn, left_out
from reports.wording import words
from trials.common.errors import unknown
from trials.run.spec import Scenario
from trials.scoring.metrics import direction, sign

USUAL = ("#", "algorithm", "behind the best", "MB", "tuned")
"""The default columns of a leaderboard, beside the score and the rounds to a target."""
WHOLE = {"worst 10 %", "spread", "k samples", "MB"}
"""Columns about whole runs and final models, which would mislead beside scores at equal bytes, steps or seconds."""


class Measure(NamedTuple):
    """A column of a leaderboard: the `field` of each row that it shows, and the function that returns the text of a row's cell."""

    field: str
    column: Column
    text: Callable[[Row], str]

    def cell(self, row: Row) -> Cell:
        """Return a row's cell in this column. It has a text and, if the row's field is a number, that number."""
        value = getattr(row, self.field)
        return Cell(self.text(row), value if isinstance(value, int | float) else None)


def measures(board: Leaderboard, rows: Sequence[Row], wanted: Collection[str]) -> list[Measure]:
    """Return the columns of a table of `rows`: the usual columns, and columns whose headings are in `wanted` (or "all"). Add a
    column of seeds if their number differs between rows or a run diverged. Leave out columns that mean nothing for this board.
    Raise `UserError` for an unknown heading.
    """
    score, better = words.head_of(rows[0].metric), sign(direction(rows[0].metric))
    target, aim = "", board.target
    if aim is not None:
        target = f"rounds to {aim:g}"
        if words.percent(rows[0].metric):
            target = f"rounds to {100 * aim:g} %"
    prose, name = ColumnKind.WORDS, ColumnKind.NAME
    every = [
        Measure("rank", Column("#", better=-1, look="rank"), words.rank_text),
        Measure(
            "algorithm",
            Column("algorithm", name, look="name"),
            lambda r: words.label(r) + " (own models)" * r.own_models,
        ),
        Measure("mean", Column(score, better=better), words.mean_text),
        Measure("behind", Column("behind the best", prose, -1), words.behind_text),
        Measure("rounds_to_target", Column(target, better=-1), words.to_target_text),
        Measure("seeds", Column("seeds", better=1), lambda r: str(r.seeds)),
        Measure("spread", Column("spread by"), words.spread_text),
        Measure(
            "worst_clients",
            Column("worst 10 %", better=better),
            lambda r: words.score_text(r.worst_clients, r),
        ),
        Measure(
            "client_spread",
            Column("spread", better=-1),
            lambda r: words.score_text(r.client_spread, r),
        ),
        Measure(
            "sample_gradients",
            Column("k samples", better=-1),
            lambda r: f"{r.sample_gradients / 1e3:,.0f}",
        ),
        Measure("sent_bytes", Column("MB", better=-1), lambda r: f"{r.sent_bytes / 1e6:,.2f}"),
        Measure("trials", Column("trials", better=1), lambda r: str(r.trials)),
        Measure(
            "params", Column("tuned", prose, look="params"), lambda r: words.params_text(r.params)
        ),
    ]
    heads = [measure.column.head for measure in every if measure.column.head]
    for head in wanted:
        if head not in ("all", *heads):
            raise unknown("column", head, heads)
    shown = set(heads if "all" in wanted else [*USUAL, score, target, *wanted])
    if len({(row.seeds, row.failed_seeds) for row in board.rows}) > 1 or rows[0].failed_seeds:
        shown.add("seeds")
    if board.at != "rounds":  # these columns are of whole runs, scores of a part
        shown -= {*WHOLE, target}
    if all(len(row.spread) < 2 for row in board.rows):
        shown.discard("spread by")
    return [measure for measure in every if measure.column.head in shown - {""}]


def groups(board: Leaderboard) -> dict[Contest, list[Row]]:
    """Return the rows of a leaderboard by the group in which they are ranked."""
    return {key: list(rows) for key, rows in groupby(board.rows, key=lambda row: row.group)}


def scenario_text(group: Contest) -> str:
    """Return a group's scenario as text, followed by ", warm-started" for warm-started runs."""
    return f"{group.scenario}" + ", warm-started" * group.warm


def leads(row: Row) -> bool:
    """Return whether a row is ranked and may be the best of its group."""
    return row.rank is not None and bool(row.behind == 0 or row.within_noise)


def board_tables(board: Leaderboard, columns: Collection[str] = ()) -> list[Table]:
    """Return a table for each group of rows. `columns` has the headings of columns to show besides the usual columns."""
    tables = []
    for group, rows in groups(board).items():
        shown, lines = measures(board, rows, columns), []
        for row in rows:
            lines.append(Line([measure.cell(row) for measure in shown], leads(row)))
        title = scenario_text(group)
        if (budget := rows[0].budget) is not None:
            amount = {
                "bytes": f"{budget / 1e6:.2f} MB",
                "steps": f"{budget / 1e3:,.0f} k samples",
                "seconds": f"{budget:,.0f} simulated s",
            }[board.at]
            title += f", at {amount} of each run"
        said = [words.answer(rows), *_by_model(board, group)]
        heads = [measure.column for measure in shown]
        tables.append(Table(heads, lines, title, group.sweeps, said, essential=4))
    return tables


def _by_model(board: Leaderboard, group: Contest) -> list[str]:
    """Return a sentence (in a list) that names each model's best method and its score. Return [] unless `group` is the last of
    several groups that differ only in the model. Return [] if the board compares runs at equal steps, bytes or seconds.
    """
    best: dict[str, Row] = {}
    # Ranks are within a model, so rows of other models are found by replacing theirs.
    for row in board.rows:
        other = row.group._replace(scenario=row.scenario._replace(model=group.scenario.model))
        if other == group and row.rank == 1:
            best.setdefault(row.model, row)
    if board.at != "rounds" or len(best) < 2 or [*best][-1] != group.scenario.model:
        return []
    better = sign(direction(next(iter(best.values())).metric))
    order = sorted(best.values(), key=lambda row: better * row.mean, reverse=True)
    models = ", ".join(f"{row.model} {words.mean_text(row)} ({words.label(row)})" for row in order)
    return [f"By model, its best method: {models}."]


def interim_tables(board: Leaderboard) -> list[Table]:
    """Return a table for each unfinished scenario, with the interim ranks and scores of its methods."""
    tables = []
    for (sweep, place), members in groupby(board.interim, key=lambda standing: standing.group):
        rows, metric = [], ""
        for standing in members:
            metric = standing.metric
            cells = [
                "-" if standing.rank is None else str(standing.rank),
                words.short(standing.algorithm),
                words.number(standing.best, metric),
                f"{standing.trials}/{standing.planned}",
                f"{standing.finals}/{standing.seeds}",
                words.params_text(standing.params),
            ]
            rows.append(cells)
        heads = (
            Column("#"),
            Column("algorithm", ColumnKind.NAME),
            Column(f"best {words.head_of(metric)}".strip()),
            Column("trials"),
            Column("final runs"),
            Column("best so far", ColumnKind.WORDS),
        )
        title = f"{place} ({sweep}): {MARK}"
        tables.append(table(heads, rows, title=title, essential=3))
    return tables


def names_of(board: Leaderboard) -> list[str]:
    """Return all methods' names, sorted by number of ranked scenarios (most first), then by average rank, then by name."""
    # References have no rank and so come last.
    ranks: dict[str, list[int]] = {row.algorithm: [] for row in board.rows}
    for row in board.rows:
        ranks[row.algorithm] += [row.rank] if row.rank else []
    return sorted(ranks, key=lambda n: (-len(ranks[n]), fmean(ranks[n] or [0]), words.short(n)))


def overview(board: Leaderboard) -> Table:
    """Return the table of all scores, with methods in rows and scenarios in columns."""
    contests = groups(board)
    columns = [Column("algorithm", ColumnKind.NAME), *map(Column, told_apart([*contests]))]
    empty = [Cell("")] * len(contests)
    cells = {name: [Cell(words.short(name)), *empty] for name in names_of(board)}
    for place, rows in enumerate(contests.values(), 1):
        for row in rows:
            look = "best" if leads(row) else ""
            cells[row.algorithm][place] = Cell(words.mean_text(row), row.mean, look=look)
    return table(columns, cells.values())


def told_apart(contests: Sequence[Contest]) -> list[str]:
    """Return a short name for each contest (rows ranked together), made of the parts of the scenario that differ between
    contests. If only some contests are warm-started, their names say so. Names that are still equal are followed by the sweeps.
    """
    if not contests:
        return []
    _, scenarios, warm = zip(*contests, strict=True)
    apart = [len(set(parts)) > 1 for parts in zip(*scenarios, strict=True)]
    apart = apart if any(apart) else [False, False, True]
    names = []
    for group in contests:
        name = " · ".join(compress(group.scenario, apart))
        names.append(name + ", warm-started" * (group.warm and not all(warm)))
    alike = Counter(names)
    for i, group in enumerate(contests):
        names[i] += f" ({group.sweeps})" if alike[names[i]] > 1 else ""
    return names


def several(board: Leaderboard) -> dict[str, Across]:
    """Return, by metric, each comparison of methods over more than one family of data sets."""
    return {metric: across for metric, across in board.overall.items() if len(across.families) > 1}


def across_table(metric: str, across: Across) -> Table:
    """Return a table of methods' average ranks over families of data sets, with 95 % intervals and significant differences."""
    columns = (
        Column("algorithm", ColumnKind.NAME),
        Column("average rank", better=-1),
        Column("differs from (Wilcoxon-Holm)", ColumnKind.WORDS),
    )
    rows = []
    for i, (name, rank) in enumerate(zip(across.algorithms, across.ranks, strict=True)):
        low, high = across.rank_low[i], across.rank_high[i]
        others = [
            words.short(pair.second if pair.first == name else pair.first)
            for pair in across.pairs
            if name in (pair.first, pair.second) and pair.verdict == DIFFERS
        ]
        rows.append([words.short(name), f"{rank:.2f} [{low:.1f}, {high:.1f}]", ", ".join(others)])
    return table(
        columns, rows, title=words.overall_title(metric, across), said=[words.overall(across)]
    )


# As text


def render(board: Leaderboard, form: str, columns: Collection[str] = ()) -> str:
    """Return a leaderboard as text in the form `csv`, `md` or `latex`. `columns` has headings of columns to
    add to the usual columns. If it is empty, all columns are added. LaTeX ignores it.
    """
    if form == "csv":
        return _csv(board, columns)
    board = as_shown(board, board)
    return latex(board) if form == "latex" else _markdown(board, columns or ["all"])


def _parts(board: Leaderboard, columns: Collection[str]) -> list[Table | str]:
    """Return a leaderboard's tables in order. A string that explains interim ranks follows the tables of unfinished scenarios."""
    interim = interim_tables(board)
    return [
        *board_tables(board, columns),
        *interim,
        *([ABOUT] if interim else []),
        *starmap(across_table, several(board).items()),
    ]


def terminal(
    board: Leaderboard,
    width: int,
    columns: Collection[str] = (),
    explain: bool = False,
    command: str = "suite leaderboard",
) -> Group:
    """Return a leaderboard for a terminal of `width` characters. Rows that are ranked together share a table. Bold rows may be
    the best, and a sentence below each table names the best methods. At the end are notes on how the rows were made, and
    options of `command` that show more. `explain` shows explanations of columns and settings instead of these options.
    """
    board = as_shown(board, board)
    parts: list[Any] = []
    narrow: list[str] = []
    for part in _parts(board, columns):
        if isinstance(part, str):
            parts += [Text(part), Text()]
            continue
        shown, dropped = drawn(part, width)
        narrow += dropped
        parts += [Text(part.headline, style="bold"), shown, *map(Text, part.said), Text()]
    settings, costly = words.setting_notes(board.rows), words.findings(board.rows)
    about = left_out(narrow, "--json")
    if not explain:  # with it the notes on settings say the same at length
        about += map(Text, words.unranked(board.rows))
    about += map(Text, map("Note: {}".format, board.notes))
    if board.rows or not board.interim:
        about.append(Text(words.legend(board), style="dim"))
    if explain:
        about += map(Text, words.searches(board))
        for head, meaning in words.HEADS.items():
            about.append(Text(f"{head}: {meaning}", style="dim"))
        about += map(Text, map("Note: {}".format, settings))
    elif board.rows:
        options = f"--explain{_count(settings, 'note')}, --audit{_count(costly, 'finding')}"
        about.append(Text(f"More: {command} {options}", style="dim"))
    return Group(*parts, *about)


def _count(items: Sequence[str], what: str) -> str:
    return f" ({len(items)} {what}{'s' * (len(items) > 1)})" if items else ""


def audit_on_terminal(board: Leaderboard, width: int) -> Group:
    """Return the search audit for a terminal of `width` characters: a table, the findings, and an explanation of the columns."""
    audited = words.audit_table(as_shown(board, board))
    if audited is None:
        return Group(Text("No search trial of these rows is recorded: nothing to audit."))
    shown, dropped = drawn(audited, width)
    parts: list[Any] = [Text(words.AUDIT_TITLE, style="bold"), shown, *left_out(dropped, "--json")]
    if costly := words.findings(board.rows):
        parts += map(Text, (*costly, f"{words.MENDS}."))
    return Group(*parts, Text(words.AUDIT_ABOUT, style="dim"), Text())


def _csv(board: Leaderboard, columns: Collection[str]) -> str:
    """Return the board as CSV with full precision: all fields if `columns` is empty, else the usual columns and `columns`."""
    import pandas as pd

    names = [*Row.__dataclass_fields__]
    if columns and board.rows:
        shown = measures(board, board.rows, columns)
        names = [*Scenario._fields, *map(attrgetter("field"), shown)]
    cells: dict[str, list[Any]] = {name: [] for name in names}
    for row in board.rows:
        for name in names:
            value = getattr(row, name)
            if name == "params":
                value = words.params_text(value)
            elif name == "audit":
                kinds = map(attrgetter("kind", "text"), value.findings if value else ())
                value = "; ".join(starmap("{}: {}".format, kinds))
            if isinstance(value, Mapping):
                value = " ".join(starmap("{}={}".format, value.items()))
            elif isinstance(value, list | tuple):
                value = " ".join(map(str, value))
            if isinstance(value, str):
                value = visible(value)
                # An apostrophe in front keeps spreadsheets from running text as a formula.
                value = "'" * value.lstrip().startswith(FORMULA) + value
            cells[name].append(value)
    # With dtype object, whole numbers stay whole in a column with missing values.
    content = pd.DataFrame(cells, dtype=object)
    return str(content.to_csv(index=False, lineterminator="\n"))


FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""Characters with which spreadsheets begin a formula, and the full-width forms of these characters."""


def _markdown(board: Leaderboard, columns: Collection[str]) -> str:
    parts = []
    for part in _parts(board, columns):
        if isinstance(part, str):
            parts.append(part)
            continue
        parts += [f"**{plain(part.headline)}**", markdown([part])]
        parts += [plain(" ".join(part.said))] if part.said else []
    parts += map("Note: {}".format, map(plain, (*board.notes, *words.setting_notes(board.rows))))
    if board.rows or not board.interim:
        parts.append(plain(" ".join([words.legend(board), *words.searches(board)])))
    return "\n\n".join(parts) + "\n"


def latex(board: Leaderboard) -> str:
    """Return a LaTeX table (booktabs) with methods in rows and scenarios in columns. Comments above the table hold notes for
    a caption. In each scenario, all methods that may be the best are bold. If there is only one such method, the second is
    underlined. Methods are sorted by number of ranked scenarios, then by average rank; references come last.
    """
    import pandas as pd

    signs = "Bold: the best, and what may be the best; underlined: the second, if only one may be the best"
    notes = ["needs \\usepackage{booktabs}", signs, words.legend(board), *words.searches(board)]
    notes += (*board.notes, *words.setting_notes(board.rows))
    comments = "".join(f"% {' '.join(note.split())}\n" for note in notes)
    contests, columns = groups(board), dict[tuple[str, str], list[Row]]()
    if not contests:
        return comments
    alike = Counter(group._replace(sweeps="") for group in contests)
    models = {group.scenario.model for group in contests}
    for group, rows in contests.items():
        dataset, model, level = group.scenario
        above = [dataset, *([model] if len(models) > 1 else []), words.head_of(rows[0].metric)]
        # Two sweeps of the same scenario are distinguished by their names.
        sweeps = f" ({group.sweeps})" if alike[group._replace(sweeps="")] > 1 else ""
        below = level + ", warm-started" * group.warm + sweeps
        columns[", ".join(above), below] = rows
    index, heads = names_of(board), pd.MultiIndex.from_tuples(columns)
    cells = pd.DataFrame("--", index=index, columns=heads)
    for head, rows in columns.items():
        for row in rows:
            text = words.mean_text(row).replace("±", "$\\pm$")
            if leads(row):
                text = f"\\textbf{{{text}}}"
            elif row.rank == 2 and sum(map(leads, rows)) == 1:
                text = f"\\underline{{{text}}}"
            cells.loc[row.algorithm, head] = text
    cells.index = cells.index.map(words.short)
    style = cells.style.format_index(escape="latex", axis=0).format_index(escape="latex", axis=1)
    form = "l" + "r" * len(columns)
    return comments + str(style.to_latex(hrules=True, multicol_align="c", column_format=form))
