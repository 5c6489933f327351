"""Sweeps that search and rank by what clients' own models score on clients' own data."""

import statistics
from pathlib import Path
from typing import Any

import pytest

from suite.execution import driver
from suite.execution.cluster import Resources
from suite.results.leaderboards import read_leaderboard
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.sweeps.tables import open_tables
from tests.support.commands import curve, records
from tests.support.foreign import little

STUDY: dict[str, Any] = {
    "algorithms": ["fedavg", "local_only"],
    "heterogeneity": ["labels(2)"],
    "seeds": 2,
    "target": 0.3,
    "settings": {
        "rounds": 4,
        "eval_every": 1,
        "clients": 5,
        "participation": 1.0,
        "metric": "personal",
    },
}


def sweep(folder: Path, trials: int, resume: bool = False) -> None:
    study, place = little(**STUDY, trials=trials), SweepPaths(folder / "runs", "own")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(driver, "drive", driver.in_process)
        Sweep("s", study, place, resume=resume).run(Resources(max_concurrent=1))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("personal")
    sweep(folder, trials=2)
    return folder


def test_clients_own_models_are_ranked_above_the_server_s(swept: Path) -> None:
    board = read_leaderboard(open_tables(swept / "runs", names=["own"]))
    assert board.metric == "test_accuracy_personal"
    ranks = [(row.rank, row.algorithm) for row in board.rows]
    assert ranks == [(1, "local_only"), (2, "fedavg")]
    for row in board.rows:
        finals = records(swept, kind="final", algorithm=row.algorithm)
        curves = [curve(swept, run, "test_accuracy_personal") for run in finals]
        means = [statistics.fmean(value for at, value in points if at > 1) for points in curves]
        assert row.mean == pytest.approx(statistics.fmean(means))
        firsts = [next(at for at, v in points if at and v >= 0.3) for points in curves]
        assert row.rounds_to_target == statistics.fmean(firsts)
        worst = [curve(swept, run, "test_accuracy_worst10") for run in finals]
        means = [statistics.fmean(value for at, value in points if at > 1) for points in worst]
        assert row.worst_clients == pytest.approx(statistics.fmean(means)), (
            "of the same evaluations"
        )
        assert row.own_models == (row.algorithm == "local_only")
        assert row.test_samples == 360


def test_the_search_sees_the_mean_over_clients_on_validation_data(swept: Path) -> None:
    for run in records(swept, kind="search"):
        points = [v for at, v in curve(swept, run, "val_accuracy_personal") if at > 1]
        assert run.metrics["val_score"] == pytest.approx(statistics.fmean(points))
        assert run.tags["metric"] == "accuracy_personal"
