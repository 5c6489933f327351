"""Classes of one name from several files are told apart wherever people see them."""

from reports.charts.data import ReportData
from reports.leaderboard.names import classes_of_files
from reports.page.page import build
from reports.wording.formats import render
from tests.support.boards import board_of, runs

ONE, OTHER, SAME = "a/mine.py:Mine", "b/other.py:Mine", "c/mine.py:Mine"


def test_only_what_reads_alike_is_renamed():
    assert classes_of_files(["fedavg", ONE, "x.py:Yours"]) == {}
    assert classes_of_files([ONE, OTHER, SAME, ONE, "fedavg"]) == {
        ONE: f"{ONE} (mine.py)",
        OTHER: f"{OTHER} (other.py)",
        SAME: f"{SAME} (mine.py, 2)",
    }


def test_tables_and_charts_tell_them_apart():
    board = board_of(runs(ONE, [0.9, 0.8]), runs(OTHER, [0.7, 0.6]), runs("fedavg", [0.5, 0.4]))
    page, drawn = build(ReportData(board), ("svg",))
    for text in (render(board, "md"), page, *(file.decode() for file in drawn.values())):
        assert "Mine (mine.py)" in text
        assert "Mine (other.py)" in text
    assert [row.algorithm for row in board.rows] == [ONE, OTHER, "fedavg"]
    assert ONE in render(board, "csv")
