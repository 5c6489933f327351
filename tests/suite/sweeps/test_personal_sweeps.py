"""Sweeps that search and rank by what clients' own models score on clients' own data."""

import statistics
from pathlib import Path

import pytest

from tests.support.commands import (
    curve,
    document,
    histories,
    records,
    study_file,
    suite_here,
)

STUDY = """
algorithms: [fedavg, local_only]
datasets: [digits]
models: [logreg]
heterogeneity: ["labels(2)"]
trials: 2
seeds: 2
target: 0.3
settings: {rounds: 4, eval_every: 1, clients: 5, participation: 1.0, metric: personal}
"""
SWEEP = ("sweep", "small.yaml", "--name", "own", "--set", "max_concurrent=1")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("personal")
    study_file(folder, STUDY)
    suite_here(*SWEEP, cwd=folder)
    return folder


def test_clients_own_models_are_ranked_above_the_server_s(swept: Path) -> None:
    board = document(suite_here("leaderboard", "own", "--json", cwd=swept))
    assert board["metric"] == "test_accuracy_personal"
    assert [(row["rank"], row["algorithm"]) for row in board["rows"]] == [
        (1, "local_only"),
        (2, "fedavg"),
    ]
    for row in board["rows"]:
        finals = records(swept, kind="final", algorithm=row["algorithm"])
        means = [
            statistics.fmean(v for at, v in curve(swept, run, "test_accuracy_personal") if at > 1)
            for run in finals
        ]
        assert row["mean"] == pytest.approx(statistics.fmean(means))
        assert row["worst_clients"] is not None
        firsts = [
            next(at for at, v in curve(swept, run, "test_accuracy_personal") if at and v >= 0.3)
            for run in finals
        ]
        assert row["rounds_to_target"] == statistics.fmean(firsts)


def test_the_search_sees_the_mean_over_clients_on_validation_data(swept: Path) -> None:
    for run in records(swept, kind="search"):
        found = [v for at, v in curve(swept, run, "val_accuracy_personal") if at > 1]
        assert run.metrics["val_score"] == pytest.approx(statistics.fmean(found))
        assert run.tags["metric"] == "accuracy_personal"


def test_a_resumed_sweep_equals_an_uninterrupted_one(swept: Path, tmp_path: Path) -> None:
    study_file(tmp_path, STUDY)
    suite_here(*SWEEP, "--trials", 1, cwd=tmp_path)
    suite_here(*SWEEP, "--trials", 2, "--resume", cwd=tmp_path)
    assert histories(tmp_path) == histories(swept)
