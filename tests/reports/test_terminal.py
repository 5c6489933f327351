"""What a terminal of any width shows of a table: each number whole, or not its column at all; and how little beside it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.leaderboard.audit import Audit, Finding
from reports.leaderboard.board import Leaderboard
from reports.table import Column, ColumnKind
from reports.terminal import fitted, left_out
from reports.wording.formats import audit_table
from reports.wording.words import HEADS, behind_text, setting_notes
from tests.support.boards import LEVEL, LEVELS, A, B, C, board_of, printed, runs, shown
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
    Column("rounds to 0.9"),
    Column("worst 10 %"),
    Column("tuned", ColumnKind.WORDS),
)
ROWS = st.lists(
    st.tuples(st.integers(1, 99).map(str), NAMES, NUMBERS, BEHIND, NUMBERS, NUMBERS, SENTENCES),
    min_size=1,
    max_size=4,
)


def cells(lines: list[str]) -> list[list[str]]:
    """The body's scenarios, line by line."""
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


def test_the_last_columns_go_first_and_names_fold_only_then():
    row = ["1", "a_long_algorithm", "0.9522 ± 0.0071", "0.2 to 2.1 points", "12", "0.9", "lr=0.1"]
    assert fitted(COLUMNS, [row], 200, 4)[1] == []
    assert fitted(COLUMNS, [row], 70, 4)[1] == ["rounds to 0.9", "worst 10 %", "tuned"]
    table, dropped = fitted(COLUMNS, [row], 55, 4)
    assert dropped == ["rounds to 0.9", "worst 10 %", "tuned"]
    assert [column.width for column in table.columns][1] < len(row[1])
    assert "worst 10 %" in left_out(dropped, "--json")[0].plain
    assert left_out([], "--json") == []


def wide() -> Leaderboard:
    """Scores of many digits under long names, one of them behind, two tied; and what was searched."""
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
        assert any(f"{100 * row.mean:.1f} ± {100 * half:.1f}" in line for line in lines)
    said = " ".join(line.strip() for line in lines)
    if "too narrow for: behind the best" not in said:
        behind = [text for row in body for text in row[3:4] if text]
        assert " ".join(behind) == " ".join(map(behind_text, board.rows))
    rows = [row for row in cells(printed(audit_table(board, width))) if "3 in 16" in row]
    assert len(rows) == 3
    head = ["3 in 16", "6%", "0.5", "1.2", "5", "+0.2"]
    assert all(row[1:] == head[: len(row) - 1] for row in rows)


FINDINGS = (
    Finding("edge", "lr=0.1 at the high end of 0.0001..0.1", "suite sweep quick --name wider"),
    Finding("few", "16 trials for 4 hyperparameters", "suite sweep quick --resume --trials 40"),
)
TOUGH = "participation is 0.33, its paper's 1.0: neighbours exchange models when both take part"


def noted() -> Leaderboard:
    """Two scenarios with a method outside and one away from its paper's setting, diverged runs, findings and a note."""
    found = []
    for level in LEVELS:
        at = {"heterogeneity": level}
        found += [runs(name, of, **at) for name, of in (("fedavg", A), ("fedprox", B))]
        found.append([replace(run, diverged=run.seed < 3) for run in runs("safl", C, **at)])
        found.append(
            runs("folb", C, away="its paper's devices take unequal numbers of steps", **at)
        )
        found.append(runs("defed", C, reference=True, outside=TOUGH, **at))
    board = board_of(*found, target=0.9)
    audit = Audit(3, 16, 0.06, (), 0.00231, 0.0047, 0.0118, 5, FINDINGS)
    return replace(
        board,
        rows=tuple(replace(row, audit=audit) for row in board.rows),
        notes=("night was cut short by its deadline.",),
        searched={"night": "tpe (models from trial 9 on; budget 16)"},
    )


@pytest.mark.parametrize("width", [80, 120, 200])
def test_beside_its_tables_a_leaderboard_is_twelve_lines_at_most(width):
    """They answer, and count what the options say of which nothing stands here."""
    beside = [line for line in shown(noted(), width) if line and line[0] not in "┏┃┡│└"]
    assert len(beside) <= 12
    said = " ".join(line.strip() for line in beside)
    answer = (
        "As configured here 2 of 4 may be the best: fedavg, fedprox. Runs that diverged: 2 of safl. "
        "Not ranked: defed (participation is 0.33, its paper's 1.0)."
    )
    assert said.count(answer) == 2
    assert "Note: night was cut short by its deadline." in said
    assert "±: 95 % over 5 seeds." in said
    options = "--explain (2 notes), --audit (2 findings), --columns all"
    assert said.endswith(f"More: suite leaderboard {options}")


def test_explain_says_each_note_on_settings_and_what_columns_mean():
    said = " ".join(line.strip() for line in shown(noted(), 120, explain=True))
    notes = setting_notes(noted().rows)
    assert ["defed" in note or "folb" in note for note in notes] == [True, True]
    for text in (
        *(f"Note: {note}" for note in notes),
        *(": ".join(head) for head in HEADS.items()),
    ):
        assert text in said


def test_columns_are_added_by_their_heads_and_an_unknown_head_is_refused():
    for columns, there in (
        (["trials"], {"trials"}),
        (["all"], {"trials", "worst 10 %"}),
        ([], set()),
    ):
        head = shown(noted(), 400, columns=columns)[2]
        heads = {text.strip().replace("\N{NO-BREAK SPACE}", " ") for text in head.split("┃")}
        assert {"trials", "worst 10 %"} & heads == there
    with pytest.raises(UserError, match=r"unknown column 'worst 10'\. Did you mean 'worst 10 %'\?"):
        shown(noted(), 200, columns=["worst 10"])
