"""Names are shortened where people see them, and nowhere else."""

import pytest

from reports.leaderboard.board import Failure, ReportData, SweepFacts
from reports.leaderboard.names import classes_of_files, without_folders, without_paths
from reports.page.page import build
from reports.wording.tables import render
from tests.support.boards import board_of, runs

ONE, OTHER, SAME = "a/mine.py:Mine", "b/other.py:Mine", "c/mine.py:Mine"
FILE = "npz:/home/me/my.npz"


def test_only_what_reads_alike_is_renamed():
    assert classes_of_files(["fedavg", ONE, "x.py:Yours"]) == {}
    assert classes_of_files([ONE, OTHER, SAME, ONE, "fedavg"]) == {
        ONE: f"{ONE} (mine.py)",
        OTHER: f"{OTHER} (other.py)",
        SAME: f"{SAME} (mine.py, 2)",
    }


def test_tables_and_charts_tell_classes_of_one_name_apart():
    board = board_of(runs(ONE, [0.9, 0.8]), runs(OTHER, [0.7, 0.6]), runs("fedavg", [0.5, 0.4]))
    page, drawn = build(ReportData(board), ("svg",))
    for text in (render(board, "md"), page, *(file.decode() for file in drawn.values())):
        assert "Mine (mine.py)" in text
        assert "Mine (other.py)" in text
    assert [row.algorithm for row in board.rows] == [ONE, OTHER, "fedavg"]
    assert ONE in render(board, "csv")


def test_no_folder_of_a_publisher_s_disk_is_shown():
    board = board_of(runs("/home/me/a/mine.py:Mine", [0.9, 0.8], dataset=FILE))
    failure = Failure("Mine", "final", "failed", "no such file: /home/me/a/b.csv", "/#/runs/1")
    study = SweepFacts("s", "t", f"datasets: [{FILE}]", {"storage": "~/runs/x"}, "/#/runs/2")
    data = ReportData(board, failures=(failure,), sweeps=(study,), server="http://10.0.0.1:5000")
    page, _ = build(data, ())
    for text in ("home", "~/runs"):
        assert text not in page
    for text in ("npz:my.npz", "no such file: b.csv", "http://10.0.0.1:5000/#/runs/1", "Mine"):
        assert text in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "suite sweep /home/me/mine.yaml --storage /tmp/runs/a",
            "suite sweep mine.yaml --storage a",
        ),
        ("see https://a.org/b/c.html and 1/2 or and/or/both", ""),
        ("/#/experiments/1/runs/2", ""),
    ],
)
def test_folders_are_told_from_addresses(text, shown):
    assert without_paths({"a": [text]}) == {"a": [shown or text]}


def test_names_without_their_folders():
    assert without_folders(["digits", "dirichlet(0.3)", FILE]) == {FILE: "npz:my.npz"}
    assert without_folders(["/a b/m.py:Mine"]) == {"/a b/m.py:Mine": "m.py:Mine"}
    assert without_folders(["npz:/a/x.npz", "npz:/b/x.npz"]) == {}, "two of one name keep theirs"
