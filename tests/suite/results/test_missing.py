"""Algorithms whose trials or final runs all failed: no row, and a word on why."""

from pathlib import Path
from unittest.mock import patch

import pytest

import suite
from suite.results.leaderboards import Query, read_leaderboard
from suite.results.report import read
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.sweeps.tables import open_tables
from tests.support import foreign
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialResult
from trials.run.spec import TrialSpec

ERROR = 'Traceback:\n  File "mine.py", line 3, in round\n    raise\nValueError: not so\nnor so\n'


def sweep(folder: Path, broken: tuple[str, ...], seeds: tuple[int, ...]) -> None:
    """FedAvg and FedProx, where the trials of the `broken` with these seeds fail."""
    real = foreign.outcome

    def outcome(spec: TrialSpec) -> TrialResult:
        if spec.algorithm in broken and spec.seed in seeds:
            return TrialResult(Status.FAILED, error=ERROR)
        return real(spec)

    with patch.object(foreign, "outcome", outcome):
        foreign.swept(folder, algorithms=["fedavg", "fedprox"], retries=0)


@pytest.mark.parametrize(("seeds", "count"), [((0, 1), 2), ((1,), 1)])
def test_a_leaderboard_names_them_and_a_report_has_their_failures(
    tmp_path: Path, seeds: tuple[int, ...], count: int
) -> None:
    """All its search trials, or its final run."""
    sweep(tmp_path, ("fedprox",), seeds)
    tables = open_tables(tmp_path / "runs")
    board = read_leaderboard(tables)
    failures = read(tables, Query(), "").failures
    assert [row.algorithm for row in board.rows] == ["fedavg"]
    (note,) = board.notes
    assert "fedprox has no row" in note
    assert "ValueError: not so" in note
    assert [failure.error for failure in failures] == ["ValueError: not so"] * count


def test_where_no_row_is_left_a_leaderboard_says_why(tmp_path: Path) -> None:
    sweep(tmp_path, ("fedavg", "fedprox"), (0, 1))
    for ask in (suite.leaderboard, suite.report):
        with pytest.raises(UserError, match=r"fedavg has no row.*\n.*fedprox has no row"):
            ask("s", storage=tmp_path / "runs")


def test_what_other_sweeps_have_does_not_count(tmp_path: Path) -> None:
    """A sweep that was ended before its first final run, beside one that has some."""
    foreign.swept(tmp_path)
    foreign.play(Sweep("t", foreign.little(), SweepPaths(tmp_path / "runs", "t")), most=1)
    with pytest.raises(UserError, match="no final runs yet"):
        suite.leaderboard("t", where={"algorithm": "folb"}, storage=tmp_path / "runs")
