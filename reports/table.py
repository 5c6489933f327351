"""Tables and documents as plain data, which terminals, Markdown and HTML pages all draw.

`reports.terminal` draws a table on a terminal, `markdown` here writes it as text, and the macro `table` of
`reports/templates/macros.html` puts it on a page. Within a text `x` is code and **x** is bold.
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
"""Invisible characters that move a cursor or reverse the order of letters; tabs and line breaks are not among them."""


def visible(text: str) -> str:
    """Return the text without invisible characters, which can make two different names look equal."""
    return UNSEEN.sub("", text)


class ColumnKind(Enum):
    """The kind of a column: numbers (never broken over lines), words (broken between words), names (broken anywhere)."""

    NUMBER = auto()
    WORDS = auto()
    NAME = auto()


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers are aligned to the right, words and names to the left. When a page sorts by the column
    the best value comes first: the largest if `better` is 1, the smallest if it is -1. `look` is a CSS class.
    """

    head: str
    kind: ColumnKind = ColumnKind.NUMBER
    better: int = 0
    look: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table. Only pages use more than its text: the `value` to sort by, the address of a link (`href`), and code
    that opens below the text. `drawing` has the numbers of a small picture of an interval; `look` is a CSS class.
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
    """A row of a table. Rows that are `best` are highlighted; the filter of a page searches the text `words`."""

    cells: Cells
    best: bool = False
    words: str = ""

    @property
    def full(self) -> list[Cell]:
        """Return the row's cells. Each plain string becomes a `Cell` with this text."""
        return [cell if isinstance(cell, Cell) else Cell(cell) for cell in self.cells]

    @property
    def texts(self) -> list[str]:
        """Return the texts of the row's cells."""
        return [cell.text for cell in self.full]


@dataclass(frozen=True)
class Table:
    """A table with its title, a `small` addition to the title, and `notes` below it. The sentences `said` stand above the
    table on a page, and below it in text. A narrow terminal leaves out the last columns; the first `essential` ones (default:
    all) stay as long as they fit. Readers of a page can sort the rows by a column if the table is `sortable`.
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
        """Return the title, with the `small` addition in brackets if there is one."""
        return f"{self.title} ({self.small})" if self.small else self.title

    @property
    def header(self) -> int:
        """Return the index of the column with the row headers. This is the first column of names, or 0 if no column holds names."""
        kinds = [column.kind for column in self.columns]
        return kinds.index(ColumnKind.NAME) if ColumnKind.NAME in kinds else 0


def table(columns: Sequence[Column | str], rows: Iterable[Cells], **more: Any) -> Table:
    """Return a table with these rows. A string in `columns` is the heading of a column of names (first column) or words (other columns)."""
    heads = []
    for i, column in enumerate(columns):
        kind = ColumnKind.WORDS if i else ColumnKind.NAME
        heads.append(Column(column, kind) if isinstance(column, str) else column)
    lines = [Line(row, words=" ".join(Line(row).texts)) for row in rows]
    return Table(heads, lines, **more)


def plain(text: str) -> str:
    """Return a text for a cell of a Markdown table: on one line, with `|` and HTML tags escaped."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text.replace("|", "\\|").replace("\n", " "))


def frame(records: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
    """Return a data frame with one row per record. A mapping in a record, such as `params`, becomes the columns `params.lr`,
    `params.mu`, ...; missing values are NaN.
    """
    import pandas as pd  # here, since importing it takes half a second

    return pd.json_normalize(list(map(dict, records)), max_level=1)


@dataclass(frozen=True)
class Heading:
    """A heading. Only Markdown shows it; pages do not."""

    text: str
    level: int = 3


@dataclass(frozen=True)
class Text:
    """A paragraph, with an optional CSS class (`look`)."""

    text: str
    look: str = ""
    kind = "text"


@dataclass(frozen=True)
class Items:
    """A bulleted list with an optional title; only Markdown has it."""

    texts: Sequence[str]
    title: str = ""


@dataclass(frozen=True)
class CodeBlock:
    """A block of commands, or the text of a file; only Markdown has it."""

    text: str


Block = Heading | Text | Items | CodeBlock | Table


def markdown(blocks: Iterable[Block]) -> str:
    """Return blocks (headings, paragraphs, lists, code, tables) as Markdown text, separated by blank lines."""
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
