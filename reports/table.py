"""Tables and documents as data: terminals, Markdown and pages draw the same ones, each in its own way.

`reports.terminal` draws a table on a terminal, `markdown` here writes it as text, and the macro `table` of
`reports/templates/macros.html` puts it on a page. In texts `x` is code and **x** is bold.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that move a cursor or reverse the order of letters, except tabs and ends of lines."""


def visible(text: str) -> str:
    """Return text without `UNSEEN` signs, which can make a name look like another."""
    return UNSEEN.sub("", text)


class ColumnKind(Enum):
    """The content of a column: numbers, which are never broken, words, or a name, which may be broken anywhere."""

    NUMBER = auto()
    WORDS = auto()
    NAME = auto()


@dataclass(frozen=True)
class Column:
    """A column of a table. Numbers stand at the right, the rest at the left. `better` is 1 where a larger value is
    better and -1 where a smaller one is: a page sorts by it, best first. `look` is a class of the style sheet.
    """

    head: str
    kind: ColumnKind = ColumnKind.NUMBER
    better: int = 0
    look: str = ""


@dataclass(frozen=True)
class Cell:
    """A text of a table with what a page adds: the `value` that it sorts by, an address, the block of code that opens
    below it, a drawing, and a class of the style sheet.
    """

    text: str
    value: Any = None
    href: str = ""
    code: str = ""
    drawing: Mapping[str, Any] | None = None
    look: str = ""


Cells = Sequence[str | Cell]


@dataclass(frozen=True)
class Line:
    """A row of a table. `best` rows stand out; a page's filter searches `words`."""

    cells: Cells
    best: bool = False
    words: str = ""

    @property
    def full(self) -> list[Cell]:
        """Return the row's cells, also of plain texts."""
        return [cell if isinstance(cell, Cell) else Cell(cell) for cell in self.cells]

    @property
    def texts(self) -> list[str]:
        """Return the texts of the row's cells."""
        return [cell.text for cell in self.full]


@dataclass(frozen=True)
class Table:
    """A table with its title, a `small` addition to the title, text that is `said` above, and `notes` below. The first
    `essential` columns stay on the narrowest terminal (default: all). A page sorts a `sortable` one.
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
    kind = "table"

    @property
    def headline(self) -> str:
        """Return the title with its addition, as text."""
        return f"{self.title} ({self.small})" if self.small else self.title

    @property
    def header(self) -> int:
        """Return the place of the column that names the rows: the first name."""
        kinds = [column.kind for column in self.columns]
        return kinds.index(ColumnKind.NAME) if ColumnKind.NAME in kinds else 0


def table(columns: Sequence[Column | str], rows: Iterable[Cells], **more: Any) -> Table:
    """Return a table of plain rows. A column given only by its head holds names if it is the first, else words."""
    heads = []
    for place, column in enumerate(columns):
        kind = ColumnKind.WORDS if place else ColumnKind.NAME
        heads.append(Column(column, kind) if isinstance(column, str) else column)
    lines = [Line(row, words=" ".join(Line(row).texts)) for row in rows]
    return Table(heads, lines, **more)


def plain(text: str) -> str:
    """Return text that Markdown shows as it is: within one cell of a table, without HTML."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text.replace("|", "\\|").replace("\n", " "))


def frame(records: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
    """Return a data frame with a row per record. A mapping in a record becomes columns `params.lr`, `params.mu`, ...;
    missing values are NaN.
    """
    import pandas as pd  # half a second, for those who ask for a table

    return pd.json_normalize(list(map(dict, records)), max_level=1)


@dataclass(frozen=True)
class Heading:
    """A heading, of Markdown alone."""

    text: str
    level: int = 3


@dataclass(frozen=True)
class Text:
    """A paragraph; `look` is a class of the style sheet."""

    text: str
    look: str = ""
    kind = "text"


@dataclass(frozen=True)
class Items:
    """A list below its title, of Markdown alone."""

    texts: Sequence[str]
    title: str = ""


@dataclass(frozen=True)
class CodeBlock:
    """Commands, or a file, of Markdown alone."""

    text: str


Block = Heading | Text | Items | CodeBlock | Table


def markdown(blocks: Iterable[Block]) -> str:
    """Return blocks as Markdown, a blank line between them."""
    parts: list[str] = []
    for block in blocks:
        match block:
            case Heading():
                parts.append(f"{'#' * block.level} {block.text}")
            case Text():
                parts.append(block.text)
            case Items():
                parts += [f"{block.title}:"] if block.title else []
                parts.append("\n".join(map("- {}".format, block.texts)))
            case CodeBlock():
                parts.append(f"```\n{block.text}\n```")
            case Table():
                rows = [
                    map(attrgetter("head"), block.columns),
                    *map(attrgetter("texts"), block.lines),
                ]
                lines = [f"| {' | '.join(map(plain, row))} |" for row in rows]
                lines.insert(1, "|" + "---|" * len(block.columns))
                parts.append("\n".join(lines))
    return "\n\n".join(filter(None, parts))
