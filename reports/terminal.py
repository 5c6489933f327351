"""Tables for a terminal in which no number is ever cut.

Where a whole table has no room, its heads wrap, then its last columns are left out, and only then names fold. A line
names the columns left out.
"""

from collections.abc import Container, Iterable, Sequence
from itertools import product
from operator import attrgetter
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from reports.table import Column, ColumnKind, Table

COMFORT = 24
"""Characters that a column of words keeps, if it needs them, before another column is left out for it."""
FOLDED = 8
"""Characters that a name keeps on each of its lines."""


class _Widths(NamedTuple):
    """The widths that a column can have: with names `folded`, with its cells `whole`, with its head on one line too."""

    folded: int
    whole: int
    one_line: int


def fitted(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int,
    essential: int,
    title: str | None = None,
    styles: Iterable[str | None] = (),
    ends: Container[int] = (),
) -> tuple[RichTable, list[str]]:
    """Return a table of at most `width` characters, and the heads of the columns left out of it: the last ones,
    and none of the first `essential` ones while those fit with their names folded. Below the rows `ends` a line is
    drawn.
    """
    cells = zip(*rows, strict=True) if rows else [()] * len(columns)
    widths = _widths(list(map(_measured, columns, cells)), width, essential)
    shown = RichTable(title=title and Text(title, style="bold"), title_justify="left")
    for column, chars in zip(columns, widths, strict=False):
        side: JustifyMethod = "right" if column.kind is ColumnKind.NUMBER else "left"
        shown.add_column(Text(column.head), justify=side, width=chars, overflow="fold")
    lined = [*styles] or [None] * len(rows)
    for i, (row, style) in enumerate(zip(rows, lined, strict=True)):
        shown.add_row(*map(Text, row[: len(widths)]), style=style, end_section=i in ends)
    return shown, [column.head for column in columns[len(widths) :]]


def drawn(content: Table, width: int) -> tuple[RichTable, list[str]]:
    """Return `fitted` for a table, whose best rows are bold; its title is left to the caller."""
    essential = len(content.columns) if content.essential is None else content.essential
    rows, styles = [], []
    for line in content.lines:
        rows.append(line.texts)
        styles.append("bold" if line.best else None)
    return fitted(content.columns, rows, width, essential, styles=styles)


def left_out(heads: Iterable[str], elsewhere: str) -> list[Text]:
    """Return the line that says which columns a terminal has no room for, and which options show them; none
    where there is room for all.
    """
    names = ", ".join(dict.fromkeys(heads))
    text = f"This terminal is too narrow for: {names}. {elsewhere} shows all."
    return [Text(text, style="dim")] if names else []


def _measured(column: Column, cells: Sequence[str]) -> _Widths:
    text = "\n".join(cells)
    longest = max(map(cell_len, text.split("\n")))
    word = max(map(cell_len, text.split()), default=0)
    head = max(map(cell_len, column.head.split()), default=0)
    folded = whole = longest
    if column.kind is ColumnKind.NAME:
        folded = min(longest, FOLDED)
    elif column.kind is ColumnKind.WORDS:
        folded, whole = word, min(longest, max(word, COMFORT))
    return _Widths(max(folded, head), max(whole, head), max(longest, cell_len(column.head)))


def _widths(columns: Sequence[_Widths], width: int, essential: int) -> list[int]:
    """Return the widths of the first columns, of as many as there is room for."""
    # Columns go one by one, but names fold before an essential one goes.
    counts = [*product(range(len(columns), essential - 1, -1), ["whole"])]
    counts += product(range(min(essential, len(columns)), 0, -1), ["folded"])
    for count, least in counts:
        low = [*map(attrgetter(least), columns[:count])]
        # Each column has a line and two blanks beside its cells.
        room = width - 3 * count - 1
        if sum(low) <= room or (count, least) == (1, "folded"):
            break
    else:
        return []
    # What room remains is shared out: who needs least comes first, and leaves the rest to the others.
    spare = room - sum(low)
    short = sorted(range(count), key=lambda i: columns[i].one_line - low[i])
    for left, i in zip(range(count, 0, -1), short, strict=True):
        more = min(columns[i].one_line - low[i], max(0, spare) // left)
        low[i] += more
        spare -= more
    return low
