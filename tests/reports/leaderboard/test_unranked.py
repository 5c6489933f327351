"""Rows that have no rank: references, and those outside their paper's setting."""

import csv
import io

import pytest

from reports.page.page import leaderboard_page
from reports.wording.formats import render
from reports.wording.words import setting_notes
from tests.support.boards import LEVEL, A, B, board_of, runs, shown


def test_references_have_no_rank_and_stand_below():
    upper = [s + 0.05 for s in A]
    board = board_of(runs("all", upper, reference=True), runs("b", B), runs("a", A))
    assert [(row.algorithm, row.rank) for row in board.rows] == [("a", 1), ("b", 2), ("all", None)]
    reference = board.rows[-1]
    assert reference.behind == pytest.approx(-0.05)
    alone = board_of(runs("a", A), runs("b", B))
    assert (board.rows[1].behind_low, board.rows[1].behind_high) == (
        alone.rows[1].behind_low,
        alone.rows[1].behind_high,
    )
    shown = render(board, "md")
    assert "| - | all |" in shown
    assert "| - | all | 96.0 ± 2.0 | -5.0 points |" in shown
    assert "As configured here no method is told apart from the best." in shown
    assert "Nothing is ranked." in render(board_of(runs("all", A, reference=True)), "md")


OUTSIDE = "participation is 0.2, its paper's 1.0: few are awake_"


def test_a_row_outside_its_paper_s_setting_has_no_rank_and_a_note_that_says_why():
    upper = [s + 0.05 for s in A]
    found = runs("gossip", upper, reference=True, outside=OUTSIDE)
    board = board_of(found, runs("b", B), runs("a", A), runs("all", upper, reference=True))
    ranks = [(row.algorithm, row.rank, row.outside) for row in board.rows]
    assert ranks[:2] == [("a", 1, ""), ("b", 2, "")]
    assert set(ranks[2:]) == {("all", None, ""), ("gossip", None, OUTSIDE)}
    note = f"gossip is outside its paper's setting and not ranked: {OUTSIDE}."
    assert setting_notes(board.rows) == [note]
    assert board.differences == board_of(runs("b", B), runs("a", A)).differences
    markdown = render(board, "md")
    for text in (
        "| - | gossip |",
        "| - | all |",
        f"Note: {note}",
        "Not ranked: gossip (participation is 0.2, its paper's 1.0).",
    ):
        assert text in markdown
    assert f"Note: {note}" not in " ".join(shown(board, 200))
    assert f"Note: {note}" in " ".join(shown(board, 200, explain=True))
    assert f">{note.replace(chr(39), '&#39;')}<" in leaderboard_page(board)
    (row,) = [r for r in csv.DictReader(io.StringIO(render(board, "csv"))) if r["outside"]]
    assert (row["algorithm"], row["rank"], row["outside"]) == ("gossip", "", OUTSIDE)
    latex = render(board, "latex")
    assert latex.count("{") == latex.count("}")
    below = latex[latex.index("b & ") :].partition("\\midrule")[2]
    for name in ("gossip", "all"):
        assert f"{name} & 96.00 $\\pm$ 1.96 \\\\" in below
    assert "gossip is outside" in below
    assert "awake\\_" in latex


def test_a_row_away_from_its_papers_setting_keeps_its_rank_and_has_a_note():
    board = board_of(
        runs("a", A),
        runs("folb", B, away="steps are equal"),
        runs("c", B, reference=True, away="x"),
    )
    assert [(row.algorithm, row.rank, row.away) for row in board.rows] == [
        *(("a", 1, ""), ("folb", 2, "steps are equal"), ("c", None, ""))
    ]
    note = "folb is ranked away from its paper's setting: steps are equal."
    assert setting_notes(board.rows) == [note]
    markdown = render(board, "md")
    assert "| 2 | folb |" in markdown
    assert f"Note: {note}" in markdown
    assert setting_notes(board_of(runs("a", A), runs("folb", B)).rows) == []


def test_one_reason_is_given_once_over_cells_and_a_sweep_that_grew_keeps_its_row_unranked():
    old, new = runs("gossip", A[:2]), runs("gossip", A, reference=True, outside=OUTSIDE)[2:]
    other = runs("gossip", A, heterogeneity=LEVEL, reference=True, outside=OUTSIDE)
    board = board_of(old + new, runs("b", B), other)
    assert [row.rank for row in board.rows if row.algorithm == "gossip"] == [None, None]
    assert len(setting_notes(board.rows)) == 1
