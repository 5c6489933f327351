"""One table as Markdown and HTML: what others wrote is text in each of them."""

import re

from reports.document import Page, Section
from reports.page.page import show
from reports.table import Cell, Column, ColumnKind, Line, Table, markdown, without_empty

HOSTILE = "<script>a|b & 5 %_"
COLUMNS = (Column("name", ColumnKind.NAME), Column("score", better=-1), Column("none"))


def made() -> Table:
    lines = [Line([HOSTILE, Cell("0.5 ± 0.1", 0.5, look="best"), ""]), Line(["b", "0.25", ""])]
    return Table(COLUMNS, lines, notes=["5 %"])


def test_columns_in_which_nothing_stands_are_left_out():
    found = without_empty(made())
    assert [column.head for column in found.columns] == ["name", "score"]
    assert found.lines[1].texts == ["b", "0.25"]


def test_a_cell_of_markdown_is_one_cell_and_no_html():
    head, rule, first, second = markdown(without_empty(made())).splitlines()
    assert (head, rule) == ("| name | score |", "|---|---|")
    assert first == "| &lt;script>a\\|b & 5 %_ | 0.5 ± 0.1 |"
    assert second == "| b | 0.25 |"


def test_a_page_sorts_by_values_and_shows_text_as_text():
    text = show(Page("t", "t", [Section("s", "", [made()])]))
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    assert "<script>" not in body
    assert re.search(r'<th scope="row">&lt;script&gt;a\|b &amp; 5 %_</th>', body)
    assert '<td data-value="0.5"><span class="best">0.5 ± 0.1</span></td>' in body
    assert 'data-better="-1"' in text[: text.index("<tbody>")]
