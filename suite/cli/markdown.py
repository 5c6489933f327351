"""Pages in Markdown on a terminal, whose tables are whole; elsewhere as they are written."""

import sys

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement

from reports.terminal import Column, ColumnKind, fitted, left_out
from suite.console import UNBOUNDED, out


class _Whole(TableElement):
    """A table that is cut nowhere."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The columns there is room for, and which ones there is none for."""
        if self.header is None or self.header.row is None:
            return
        heads = [cell.content.plain for cell in self.header.row.cells]
        rows = (
            [[cell.content.plain for cell in row.cells] for row in self.body.rows]
            if self.body
            else []
        )
        columns = [
            Column(head, ColumnKind.WORDS if i else ColumnKind.NAME) for i, head in enumerate(heads)
        ]
        shown, dropped = fitted(columns, rows, options.max_width, 1)
        yield shown
        yield from left_out(dropped, "--json")


class _Page(Markdown):
    elements = {**Markdown.elements, "table_open": _Whole}


def show_page(page: str) -> None:
    """Print a page in Markdown."""
    to = out()
    if to.width == UNBOUNDED:
        sys.stdout.write(f"{page}\n")
    else:
        to.print(_Page(page))
