"""Tables that fit the width of a terminal without cutting any number.

A table that is too wide first wraps its column heads, then leaves out its last columns, and only then breaks names over
several lines. A line of text below lists the columns that were left out.
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
"""The width in characters that a column of words keeps, if its texts are that long, while other columns are left out."""
FOLDED = 8
"""The fewest characters of a name on one line."""


class _Widths(NamedTuple):
    """Three widths of a column: the least (`folded`), the least without broken names (`whole`), and without line breaks (`one_line`)."""

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
    """Return a table of at most `width` characters, and the headings of columns that do not fit. The last columns are left
    out first. To keep the first `essential` columns, long names in cells are wrapped over several lines.
    `styles` has the rows' Rich styles, and a rule follows each row whose index is in `ends`.
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
    """Return a Rich table of at most `width` characters, and the headings of omitted columns. Best rows are bold; the title is omitted."""
    essential = len(content.columns) if content.essential is None else content.essential
    rows, styles = [], []
    for line in content.lines:
        rows.append(line.texts)
        styles.append("bold" if line.best else None)
    return fitted(content.columns, rows, width, essential, styles=styles)


def left_out(heads: Iterable[str], elsewhere: str) -> list[Text]:
    """Return a line that names the omitted columns, and the command-line option `elsewhere` that shows them; [] if `heads` is empty."""
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
    """Return the widths of the leading columns that fit into `width` characters. The first `essential` columns are narrowed to fit."""
    # Columns are left out one by one; names are broken over lines before an essential column is left out.
    counts = [*product(range(len(columns), essential - 1, -1), ["whole"])]
    counts += product(range(min(essential, len(columns)), 0, -1), ["folded"])
    for count, least in counts:
        low = [*map(attrgetter(least), columns[:count])]
        # Each column takes three characters beside its text: a rule and two blanks.
        room = width - 3 * count - 1
        if sum(low) <= room or (count, least) == (1, "folded"):
            break
    else:
        return []
    # Share the remaining room: the columns that need least come first, so what they do not use goes to the others.
    spare = room - sum(low)
    by_need = sorted(range(count), key=lambda i: columns[i].one_line - low[i])
    for left, i in zip(range(count, 0, -1), by_need, strict=True):
        more = min(columns[i].one_line - low[i], max(0, spare) // left)
        low[i] += more
        spare -= more
    return low
