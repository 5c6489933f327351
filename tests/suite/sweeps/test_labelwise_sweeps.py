"""A sweep that is searched and ranked by a metric of all labels alike."""

import statistics
from pathlib import Path

import pytest

from tests.support.commands import curve, document, records, study_file, suite_here

STUDY = """
algorithms: [fedavg, fedprox]
datasets: [digits]
models: [logreg]
heterogeneity: ["labels(2)"]
trials: 2
seeds: 2
target: 0.2
settings: {rounds: 4, eval_every: 1, clients: 5, participation: 1.0, metric: macro_f1}
"""


def test_a_sweep_is_searched_and_ranked_by_macro_f1(tmp_path: Path) -> None:
    study_file(tmp_path, STUDY)
    suite_here("sweep", "small.yaml", "--name", "f", "--set", "max_concurrent=1", cwd=tmp_path)
    board = document(suite_here("leaderboard", "f", "--json", cwd=tmp_path))
    assert board["metric"] == "test_macro_f1"
    means = {}
    for kind, part in (("search", "val"), ("final", "test")):
        for run in records(tmp_path, kind=kind):
            assert run.tags["metric"] == "macro_f1"
            last = [v for at, v in curve(tmp_path, run, f"{part}_macro_f1") if at > 1]
            assert run.metrics[f"{part}_score"] == pytest.approx(statistics.fmean(last))
            if kind == "final":
                means.setdefault(run.tags["algorithm"], []).append(run.metrics["test_score"])
    rows = {row["algorithm"]: row for row in board["rows"]}
    for name, values in means.items():
        assert rows[name]["mean"] == pytest.approx(statistics.fmean(values))
        assert rows[name]["worst_clients"] is not None
    order = [row["mean"] for row in sorted(board["rows"], key=lambda row: row["rank"])]
    assert order == sorted(order, reverse=True)
    tuned = suite_here("tuned", "list", "--json", cwd=tmp_path)
    assert "val_macro_f1" in str(document(tuned))
    suite_here("report", "f", cwd=tmp_path)
