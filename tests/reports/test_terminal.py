"""What a terminal of any width shows of a table: each number whole, or not its column at all; and how little beside it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.leaderboard.audit import Audit, Finding
from reports.leaderboard.board import Leaderboard
from reports.table import Column, ColumnKind
from reports.terminal import fitted
from reports.wording.tables import audit_on_terminal
from reports.wording.words import HEADS, setting_notes
from tests.support.boards import LEVELS, A, B, C, board_of, printed, runs, shown
from trials.common.errors import UserError

WIDTHS = st.integers(40, 200)
NUMBERS = st.floats(-1e6, 1e6).map("{:.4f}".format)
NAMES = st.text("abcxyz_0123456789(,.+)", min_size=1, max_size=40)
SENTENCES = st.lists(st.text("abc=.0123", min_size=1, max_size=9), max_size=12).map(" ".join)
BEHIND = st.one_of(
    st.just("may be the best"), st.tuples(NUMBERS, NUMBERS).map("{0[0]} to {0[1]} points".format)
)
COLUMNS = (
    Column("#"),
    Column("algorithm", ColumnKind.NAME),
    Column("test accuracy"),
    Column("behind the best", ColumnKind.WORDS),
    Column("rounds to 90 %"),
    Column("worst 10 %"),
    Column("tuned", ColumnKind.WORDS),
)
ROWS = st.lists(
    st.tuples(st.integers(1, 99).map(str), NAMES, NUMBERS, BEHIND, NUMBERS, NUMBERS, SENTENCES),
    min_size=1,
    max_size=4,
)


def cells(lines: list[str]) -> list[list[str]]:
    """The body's rows, line by line."""
    return [[c.strip() for c in line.split("│")[1:-1]] for line in lines if line.startswith("│")]


@given(ROWS, WIDTHS)
def test_numbers_and_marks_are_whole_or_their_column_is_named_as_left_out(rows, width):
    table, dropped = fitted(COLUMNS, rows, width, 4)
    lines = printed(table)
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
        elif column.kind is ColumnKind.WORDS:
            assert " ".join(there).split() == " ".join(whole).split()
        else:
            assert "".join(there) == "".join(whole)


FINDINGS = (
    Finding("edge", "lr=0.1 at the high end of 0.0001..0.1"),
    Finding("few", "16 trials for 4 hyperparameters"),
)
AUDIT = Audit(3, 16, 0.06, (), 0.00231, 0.0047, 0.0118, 5, FINDINGS)
TOUGH = "participation is 0.33, its paper's 1.0: neighbours exchange models when both take part"


def audited(board: Leaderboard) -> Leaderboard:
    return replace(board, rows=tuple(replace(row, audit=AUDIT) for row in board.rows))


def noted() -> Leaderboard:
    """Two scenarios with a method outside and one away from its paper's setting, diverged runs, findings and a note."""
    found = []
    for level in LEVELS:
        at = {"heterogeneity": level}
        found += [runs("fedavg", A, **at), runs("fedprox", B, **at)]
        found.append([run | {"lost": run["seed"] < 3} for run in runs("safl", C, **at)])
        found.append(runs("folb", C, away="its paper's devices take unequal numbers", **at))
        found.append(runs("defed", C, reference=True, outside=TOUGH, **at))
    ways = {"night": "tpe (models from trial 9 on; budget 16)"}
    cut = ("night was cut short by its deadline.",)
    return replace(audited(board_of(*found, target=0.9)), notes=cut, searched=ways)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_beside_its_tables_a_leaderboard_is_twelve_lines_at_most(width):
    """They answer, and count what the options say of which nothing stands here."""
    beside = [line for line in shown(noted(), width) if line and line[0] not in "┏┃┡│└"]
    assert len(beside) <= 12
    assert max(map(len, shown(noted(), width))) <= width
    said = " ".join(line.strip() for line in beside)
    assert (said.count("fedavg, fedprox."), said.count("2 of safl.")) == (2, 2)
    assert said.count("defed (participation is 0.33, its paper's 1.0)") == 1
    assert "night was cut short" in said
    assert said.endswith("leaderboard --explain (2 notes), --audit (2 findings)")
    audit = [row for row in cells(printed(audit_on_terminal(noted(), width))) if "3 in 16" in row]
    assert len(audit) == len(noted().rows)
    whole = " ".join(line.strip() for line in shown(noted(), width, explain=True))
    notes = setting_notes(noted().rows)
    assert len(notes) == 2
    assert all(text in whole for text in [*notes, "tpe", *map(": ".join, HEADS.items())])


def test_columns_are_added_by_their_heads_and_none_is_of_another_moment():
    for columns, there in (
        (["trials"], {"trials"}),
        (["all"], {"trials", "worst 10 %"}),
        ([], set()),
    ):
        heads = {head.strip() for head in shown(noted(), 400, columns=columns)[2].split("┃")}
        assert {"trials", "worst 10 %"} & heads == there
    with pytest.raises(UserError):
        shown(noted(), 200, columns=["worst 10"])
    part = shown(replace(noted(), at="bytes"), 400, columns=["all"])[2]
    assert not [head for head in ("worst 10 %", "MB", "k samples", "rounds to") if head in part]
