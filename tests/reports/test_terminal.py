"""What a terminal of any width shows of a table: each number and each mark whole, or not its column at all."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from reports.leaderboard.audit import Audit
from reports.leaderboard.board import Leaderboard
from reports.table import Column, ColumnKind
from reports.terminal import fitted, left_out
from reports.wording.formats import audit_table
from tests.support.boards import LEVEL, A, B, board_of, runs, shown

WIDTHS = st.integers(40, 200)
NUMBERS = st.floats(-1e6, 1e6).map("{:.4f}".format)
NAMES = st.text("abcxyz_0123456789(,.+)", min_size=1, max_size=40)
SENTENCES = st.lists(st.text("abc=.0123", min_size=1, max_size=9), max_size=12).map(" ".join)
MARKED = st.tuples(NUMBERS, st.sampled_from(["", " ~", " ≈", " ✗ fedprox"])).map("".join)
COLUMNS = (
    Column("#"),
    Column("algorithm", ColumnKind.NAME),
    Column("test accuracy"),
    Column("behind the best", ColumnKind.MARKED),
    Column("rounds to 0.9"),
    Column("worst 10 %"),
    Column("tuned", ColumnKind.WORDS),
)
ROWS = st.lists(
    st.tuples(st.integers(1, 99).map(str), NAMES, NUMBERS, MARKED, NUMBERS, NUMBERS, SENTENCES),
    min_size=1,
    max_size=4,
)


def cells(lines: list[str]) -> list[list[str]]:
    """The body's scenarios, line by line."""
    return [[c.strip() for c in line.split("│")[1:-1]] for line in lines if line.startswith("│")]


@given(ROWS, WIDTHS)
def test_numbers_and_marks_are_whole_or_their_column_is_named_as_left_out(rows, width):
    table, dropped = fitted(COLUMNS, rows, width, 4)
    console = Console(width=400, color_system=None)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    kept = len(COLUMNS) - len(dropped)
    assert dropped == [column.head for column in COLUMNS[kept:]]
    columns = list(zip(*cells(lines), strict=True))
    assert len(columns) == kept
    for i, column in enumerate(COLUMNS[:kept]):
        there = [text for text in columns[i] if text]
        whole = [row[i] for row in rows]
        if column.kind is ColumnKind.NUMBER:
            assert there == whole
        elif column.kind is ColumnKind.MARKED:
            assert " ".join(there) == " ".join(whole)
            assert not [text for text in there if text in ("✗", "fedprox")]
        elif column.kind is ColumnKind.WORDS:
            assert " ".join(there).split() == " ".join(whole).split()
        else:
            assert "".join(there) == "".join(whole)


def test_the_last_columns_go_first_and_names_fold_only_then():
    row = ["1", "a_long_algorithm", "0.9522 ± 0.0071", "0.0185 ± 0.0212 ~", "12", "0.9", "lr=0.1"]
    assert fitted(COLUMNS, [row], 200, 4)[1] == []
    assert fitted(COLUMNS, [row], 70, 4)[1] == ["rounds to 0.9", "worst 10 %", "tuned"]
    table, dropped = fitted(COLUMNS, [row], 55, 4)
    assert dropped == ["rounds to 0.9", "worst 10 %", "tuned"]
    assert [column.width for column in table.columns][1] < len(row[1])
    assert "worst 10 %" in left_out(dropped, "--json")[0].plain
    assert left_out([], "--json") == []


def wide() -> Leaderboard:
    """Scores of many digits under long names, one of them beaten, two tied; and what was searched."""
    scores = {
        "adaptive_momentum": B,
        "fedprox_proximal": [b - 0.1 - a / 50 for a, b in zip(A, B, strict=True)],
        "c" * 18: B,
    }
    found = [runs(name, [1000 * s for s in of], heterogeneity=LEVEL) for name, of in scores.items()]
    board = board_of(*found, target=0.9)
    audit = Audit(3, 16, 0.06, (), 0.00231, 0.0047, 0.0118, 5)
    return replace(board, rows=tuple(replace(row, audit=audit) for row in board.rows))


@pytest.mark.parametrize("width", range(40, 201, 8))
def test_a_leaderboard_is_whole_at_every_width(width):
    board = wide()
    lines = shown(board, width)
    assert max(map(len, lines)) <= width
    body = cells(lines)
    assert [row[0] for row in body if row[0]] == ["1=", "1=", "3"]
    for row in board.rows:
        half = (row.ci_high - row.ci_low) / 2
        assert any(f"{row.mean:.4f} ± {half:.4f}" in line for line in lines)
    said = " ".join(line.strip() for line in lines)
    assert [row.beaten_by for row in board.rows] == [(), (), ("adaptive_momentum", "c" * 18)]
    if "too narrow for: behind the best" not in said:
        assert [line for line in lines if re.search(r"✗ (adaptive_momentum|c{18})", line)]
    console = Console(width=400, color_system=None)
    with console.capture() as capture:
        console.print(audit_table(board, width))
    rows = [row for row in cells(capture.get().splitlines()) if "3 in 16" in row]
    assert len(rows) == 3
    head = ["3 in 16", "6%", "0.0047", "0.0118", "5", "+0.0023"]
    assert all(row[1:] == head[: len(row) - 1] for row in rows)
