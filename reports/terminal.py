"""Tables for a terminal in which no number is ever cut.

Where there is not the room for a whole table its heads wrap, then its last columns are left out, and only then
names fold; what is left out is said.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from reports.table import Column, ColumnKind, Table

COMFORT = 24
"""Characters that a column of words has, where it needs as many, before another one is left out for it."""
FOLDED = 8
"""Characters that a name keeps on each of its lines."""


@dataclass(frozen=True)
class _Measured:
    """How wide a column can be: with names `folded`, with its cells `whole`, with its head on one line too."""

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
    """A table of at most `width` characters, and the heads of the columns left out of it: the last ones,
    and none of the first `essential` ones while those fit with their names folded. Below the rows `ends` a line is
    drawn.
    """
    widths = _widths(
        [_measured(c, [row[i] for row in rows]) for i, c in enumerate(columns)], width, essential
    )
    shown = RichTable(title=title and Text(title, style="bold"), title_justify="left")
    for column, chars in zip(columns, widths, strict=False):
        number = column.kind is ColumnKind.NUMBER
        head = "\n".join(ColumnKind.WORDS.lines(column.shown, chars))
        shown.add_column(Text(head), justify="right" if number else "left", width=chars)
    kinds = [column.kind for column in columns]
    lined = [*styles] or [None] * len(rows)
    for i, (row, style) in enumerate(zip(rows, lined, strict=True)):
        cells = zip(kinds, row, widths, strict=False)
        texts = [Text("\n".join(kind.lines(text, chars))) for kind, text, chars in cells]
        shown.add_row(*texts, style=style, end_section=i in ends)
    return shown, [column.head for column in columns[len(widths) :]]


def drawn(found: Table, width: int) -> tuple[RichTable, list[str]]:
    """`fitted` for a table, whose best rows are bold; its title is left to the caller."""
    essential = len(found.columns) if found.essential is None else found.essential
    styles = ["bold" if line.best else None for line in found.lines]
    rows = [line.texts for line in found.lines]
    return fitted(found.columns, rows, width, essential, styles=styles)


def left_out(heads: Iterable[str], elsewhere: str) -> list[Text]:
    """The line that says which columns a terminal has no room for, and which options show them; none
    where there is room for all.
    """
    names = ", ".join(dict.fromkeys(heads))
    said = f"This terminal is too narrow for: {names}. {elsewhere} shows all."
    return [Text(said, style="dim")] if names else []


def _measured(column: Column, cells: Sequence[str]) -> _Measured:
    lines = [line for cell in cells for line in cell.split("\n")]
    pieces = max((cell_len(p.rstrip()) for l in lines for p in column.kind.pieces(l)), default=0)
    longest = max(map(cell_len, lines), default=0)
    head = max(map(cell_len, column.shown.split(" ")), default=0)
    folded = min(pieces, FOLDED) if column.kind is ColumnKind.NAME else pieces
    whole = min(longest, max(pieces, COMFORT)) if column.kind is ColumnKind.WORDS else longest
    return _Measured(max(folded, head), max(whole, head), max(longest, cell_len(column.head)))


def _widths(columns: Sequence[_Measured], width: int, essential: int) -> list[int]:
    """The widths of as many of the first columns as there is room for."""
    for count in range(len(columns), essential - 1, -1):
        low = [column.whole for column in columns[:count]]
        if sum(low) <= _room(width, count):
            return _spread(low, [c.one_line for c in columns], _room(width, count))
    for count in range(min(essential, len(columns)), 0, -1):
        low = [column.folded for column in columns[:count]]
        if sum(low) <= _room(width, count) or count == 1:
            return _spread(low, [c.one_line for c in columns], _room(width, count))
    return []


def _room(width: int, count: int) -> int:
    """What is left beside the lines between columns and the space around their cells."""
    return width - 3 * count - 1


def _spread(low: Sequence[int], high: Sequence[int], room: int) -> list[int]:
    """Widths from `low` up to `high`, what room remains shared out evenly."""
    widths, spare = list(low), room - sum(low)
    short = sorted(range(len(low)), key=lambda i: high[i] - low[i])
    for left, i in zip(range(len(short), 0, -1), short, strict=True):
        more = min(high[i] - low[i], max(0, spare) // left)
        widths[i] += more
        spare -= more
    return widths
