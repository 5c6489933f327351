"""Tables as data: what terminals, Markdown and pages draw, each in its own way.

`reports.terminal` draws a table on a terminal, `markdown` here writes it as text, and the macro `table` of
`reports/templates/macros.html` puts it on a page.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from rich.cells import cell_len, chop_cells

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What moves a cursor, and what turns the order of letters around; tabs and ends of lines stay."""


def visible(text: str) -> str:
    """Return text from anywhere without `UNSEEN` signs, by which a name can look like another."""
    return UNSEEN.sub("", text)


class ColumnKind(Enum):
    """What a column holds: where its texts may break. A name may break anywhere, rather after these."""

    NUMBER = r"(?!)"
    WORDS = r"(?<= )"
    NAME = r"(?<=[\s_,+:/(=])"

    def pieces(self, text: str) -> list[str]:
        """The text, cut where it may break."""
        return re.split(self.value, text)

    def lines(self, text: str, width: int) -> list[str]:
        """The text in lines of this width at most."""
        found: list[str] = []
        for given in text.split("\n"):
            line = ""
            for piece in self.pieces(given):
                if cell_len((line + piece).rstrip()) <= width:
                    line += piece
                    continue
                *whole, line = (
                    [line, *chop_cells(piece, width)] if line else chop_cells(piece, width)
                )
                found += whole
            found.append(line)
        return [line.rstrip() for line in found]


@dataclass(frozen=True)
class Column:
    """A column of a table. Numbers stand at the right, the rest at the left. `better` is 1 where a larger value is
    better and -1 where a smaller one is: a page sorts by it, best first. `look` is a class of the style
    sheet.
    """

    head: str
    kind: ColumnKind = ColumnKind.NUMBER
    better: int = 0
    look: str = ""

    @property
    def shown(self) -> str:
        """The head, whose numbers keep their unit on the line."""
        return self.head.replace(" %", "\N{NO-BREAK SPACE}%")


@dataclass(frozen=True)
class Cell:
    """A text of a table with what a page adds: the `value` that it sorts by, an address and its tooltip, the block of
    code that opens below it, a drawing, and a class of the style sheet.
    """

    text: str
    value: Any = None
    href: str = ""
    about: str = ""
    code: str = ""
    drawing: Mapping[str, Any] | None = None
    look: str = ""


Cells = Sequence[str | Cell]


@dataclass(frozen=True)
class Line:
    """A row of a table: `best` ones stand out, `found` is what a page's filter looks through."""

    cells: Cells
    best: bool = False
    found: str = ""

    @property
    def full(self) -> list[Cell]:
        """The row's cells, plain texts among them."""
        return [cell if isinstance(cell, Cell) else Cell(cell) for cell in self.cells]

    @property
    def texts(self) -> list[str]:
        """The texts of the row's cells."""
        return [cell.text for cell in self.full]


@dataclass(frozen=True)
class Table:
    """A table with its title, a `small` addition to that, what is `said` of it, and `notes` below. The first
    `essential` columns stay on the narrowest terminal (default: all). A page sorts a `sortable` one of more than
    one row.
    """

    columns: Sequence[Column]
    lines: Sequence[Line]
    title: str = ""
    small: str = ""
    said: Sequence[str] = ()
    notes: Sequence[str] = ()
    essential: int | None = None
    look: str = ""
    sortable: bool = True

    @property
    def kind(self) -> str:
        """Which block of a page it is."""
        return "table"

    @property
    def headline(self) -> str:
        """The title with its addition, as text."""
        return f"{self.title} ({self.small})" if self.small else self.title

    @property
    def header(self) -> int:
        """The column that names the rows: the first name."""
        kinds = [column.kind for column in self.columns]
        return kinds.index(ColumnKind.NAME) if ColumnKind.NAME in kinds else 0


def table(columns: Sequence[Column | str], rows: Iterable[Cells], **given: Any) -> Table:
    """A table of plain rows. Of columns that are given by their heads the first is a name, the others are words."""
    kinds = [ColumnKind.NAME] + [ColumnKind.WORDS] * (len(columns) - 1)
    made = [
        Column(column, kind) if isinstance(column, str) else column
        for column, kind in zip(columns, kinds, strict=True)
    ]
    lines = [Line(row) for row in rows]
    lines = [Line(line.cells, found=" ".join(line.texts)) for line in lines]
    return Table(made, lines, **given)


def without_empty(found: Table) -> Table:
    """The table without columns in which nothing stands, but for the first."""
    kept = [
        i
        for i in range(len(found.columns))
        if not i or any(line.full[i].text for line in found.lines)
    ]
    lines = [replace(line, cells=[line.cells[i] for i in kept]) for line in found.lines]
    return replace(found, columns=[found.columns[i] for i in kept], lines=lines)


def plain(text: str) -> str:
    """Text that Markdown shows as it is: in one cell of a table, and no HTML."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text.replace("|", "\\|").replace("\n", " "))


def markdown(found: Table) -> str:
    """The rows of a table in Markdown."""
    rows = [[column.head for column in found.columns], *(line.texts for line in found.lines)]
    lines = ["| " + " | ".join(map(plain, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(found.columns), *lines[1:]])
