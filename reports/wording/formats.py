"""A leaderboard as text: tables for the terminal, CSV, Markdown, LaTeX."""

import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from reports.leaderboard import interim
from reports.leaderboard.board import Contest, Leaderboard, Row
from reports.leaderboard.names import as_shown
from reports.table import Table, markdown, plain, visible
from reports.terminal import drawn, left_out
from reports.wording import audits, tables
from reports.wording.words import (
    HEADS,
    head_of,
    legend,
    mean_text,
    params_text,
    setting_notes,
    short,
)
from trials.run.spec import Scenario

if TYPE_CHECKING:
    pass


def render(board: Leaderboard, form: str, columns: Collection[str] = ()) -> str:
    """Return a leaderboard as `csv`, `md` or `latex`. The former two have these `columns` beside the usual ones, all without
    any.
    """
    if form == "csv":
        return _csv(board, columns)
    board = as_shown(board, board)
    return latex(board) if form == "latex" else _markdown(board, columns or ["all"])


def _parts(board: Leaderboard, columns: Collection[str]) -> list[Table | str]:
    """Return the tables of a leaderboard, and what stands below those of scenarios that are not over."""
    standing = tables.interim_tables(board)
    return [
        *tables.board_tables(board, columns),
        *standing,
        *([interim.ABOUT] if standing else []),
        *(tables.across_table(*compared) for compared in tables.several(board).items()),
    ]


def table(
    board: Leaderboard,
    width: int,
    program: str = "suite",
    columns: Collection[str] = (),
    explain: bool = False,
) -> Group:
    """Return a leaderboard for a terminal of `width` characters, on which the suite is called as `program`: a table a
    group with the line that answers it, bold what may be the best, and last how it was made and which options say more,
    or what columns mean and how settings differ, to `explain`.
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
    parts += left_out(narrow, "--json")
    parts += [Text(f"Note: {note}") for note in board.notes]
    if board.rows or not board.interim:
        parts.append(Text(legend(board), style="dim"))
    if explain:
        parts += [Text(f"{head}: {meaning}", style="dim") for head, meaning in HEADS.items()]
        parts += [Text(f"Note: {note}") for note in setting_notes(board.rows)]
    elif board.rows:
        notes = len(setting_notes(board.rows))
        costly = len(audits.findings(board.rows))
        options = [f"--explain{_count(notes, 'note')}", f"--audit{_count(costly, 'finding')}"]
        more = f"More: {shlex.quote(program)} leaderboard {', '.join(options)}, --columns all"
        parts.append(Text(more, style="dim"))
    return Group(*parts)


def _count(number: int, what: str) -> str:
    return f" ({number} {what}{'s' * (number > 1)})" if number else ""


def audit_table(board: Leaderboard, width: int) -> Group:
    """Return how fair the searches were, row by row, and what was found amiss."""
    audited = audits.audit_table(as_shown(board, board))
    if audited is None:
        return Group(Text("No search trial of these rows is recorded: nothing to audit."))
    shown, dropped = drawn(audited, width)
    parts: list[Any] = [Text(audits.TITLE, style="bold"), shown, *left_out(dropped, "--json")]
    if costly := audits.findings(board.rows):
        parts += map(Text, (*costly, f"{audits.MENDS}."))
    return Group(*parts, Text(audits.ABOUT, style="dim"), Text())


def _csv(board: Leaderboard, columns: Collection[str]) -> str:
    """Return plain numbers, to the last bit: every field of the rows, or those of tables with these columns."""
    import pandas as pd

    names = [item.name for item in fields(Row)]
    if columns and board.rows:
        shown = tables.measures(board, board.rows, columns)
        names = [*Scenario._fields, *(measure.field for measure in shown)]
    own = {"params": lambda row: params_text(row.params), "audit": _found}
    cells: dict[str, list[Any]] = {}
    for name in names:
        value = own.get(name, attrgetter(name))
        cells[name] = [_cell(value(row)) for row in board.rows]
    content = pd.DataFrame(cells, dtype=object)
    return str(content.to_csv(index=False, lineterminator="\n"))


def _found(row: Row) -> str:
    findings = row.audit.findings if row.audit else ()
    return "; ".join(f"{finding.kind}: {finding.text}" for finding in findings)


FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the begin of a formula, or makes one of on a keyboard of wide letters."""


def _cell(value: Any) -> Any:
    """Return a value as a spreadsheet takes it: of several the texts, with a space between, and no text that it computes."""
    if isinstance(value, Mapping):
        value = " ".join(f"{key}={inner}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    if isinstance(value, str):
        value = visible(value)
        return f"'{value}" if value.lstrip().startswith(FORMULA) else value
    return value


def _markdown(board: Leaderboard, columns: Collection[str]) -> str:
    parts = []
    for part in _parts(board, columns):
        if isinstance(part, str):
            parts.append(part)
            continue
        parts += [f"**{plain(part.headline)}**", markdown(part)]
        parts += [plain(" ".join(part.said))] if part.said else []
    parts += [f"Note: {plain(note)}" for note in (*board.notes, *setting_notes(board.rows))]
    parts += [] if board.interim and not board.rows else [plain(legend(board))]
    return "\n\n".join(parts) + "\n"


def latex(board: Leaderboard) -> str:
    """Return a paper's table, with the rules of the package booktabs: methods in rows, scenarios in columns, below comments
    with what a caption has to say.

    Of a scenario the best is bold, with all that may be the best; where it stands alone, the second is underlined. Methods
    stand by their average rank, those later that are not ranked in all scenarios, references last.
    """
    import pandas as pd

    signs = "Bold: the best and what may be the best; a line: under the second, where the best stands alone"
    notes = ["needs \\usepackage{booktabs}", signs, legend(board), *board.notes]
    notes += setting_notes(board.rows)
    comments = "".join(f"% {' '.join(note.split())}\n" for note in notes)
    columns = {_heads(board, group): rows for group, rows in tables.groups(board).items()}
    if not columns:
        return comments
    cells = pd.DataFrame(
        "--", index=tables.names_of(board), columns=pd.MultiIndex.from_tuples(columns)
    )
    for head, rows in columns.items():
        for row in rows:
            cells.loc[row.algorithm, head] = _score(row, rows)
    cells.index = cells.index.map(short)
    style = cells.style.format_index(escape="latex", axis=0).format_index(escape="latex", axis=1)
    form = "l" + "r" * len(columns)
    return comments + str(style.to_latex(hrules=True, multicol_align="c", column_format=form))


def _heads(board: Leaderboard, group: Contest) -> tuple[str, str]:
    """Return what stands above a column: the data set, the model where several are shown and the metric, and the level, with
    the sweeps where several answer one question.
    """
    contests = tables.groups(board)
    asked = Counter((other.scenario, other.warm) for other in contests)
    dataset, model, level = group.scenario
    models = len({other.scenario.model for other in contests}) > 1
    above = [dataset, *([model] if models else []), head_of(contests[group][0].metric)]
    sweeps = f" ({group.sweeps})" if asked[group.scenario, group.warm] > 1 else ""
    return ", ".join(above), level + ", warm-started" * group.warm + sweeps


def _score(row: Row, rows: list[Row]) -> str:
    """Return a score with half its interval, marked by what is shown of it."""
    text = mean_text(row).replace("±", "$\\pm$")
    if tables.leads(row):
        return f"\\textbf{{{text}}}"
    if row.rank == 2 and sum(map(tables.leads, rows)) == 1:
        return f"\\underline{{{text}}}"
    return text
