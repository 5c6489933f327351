"""Constraints, confirmation and warm starts in real sweeps; killed ones
are in faults/test_search_kills.py.
"""

import shutil
from pathlib import Path

import pytest

from suite.configurations.configuration import read
from tests.support.commands import document, records, study_file, suite_here

BOUND = """
algorithms: [fedavg, safl_extended]
datasets: [digits]
models: [logreg]
heterogeneity: ["labels(2)"]
trials: 8
seeds: 2
constraints: {uploaded_bytes: {max: 40000}}
settings: {rounds: 6, clients: 4, participation: 1.0, execution: batched}
"""
CONFIRMED = """
algorithms: [fedavg]
datasets: [digits]
models: [logreg]
heterogeneity: [iid, dirichlet(0.3)]
trials: 5
seeds: 2
confirm: {best: 2, seeds: 1}
warm_start: nearest
settings: {rounds: 6, clients: 4, participation: 1.0, execution: batched}
"""


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep under a constraint."""
    folder = tmp_path_factory.mktemp("bound")
    path = study_file(folder, BOUND)
    done = suite_here("sweep", path, "--name", "bound", "--set", "max_concurrent=1", cwd=folder)
    (folder / "said").write_text(done.stderr)
    return folder


@pytest.fixture(scope="module")
def confirmed(bound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep that confirms beside it, warm-started from it."""
    folder = tmp_path_factory.mktemp("confirmed") / "runs"
    shutil.copytree(bound, folder.parent, dirs_exist_ok=True)
    args = ("--name", "confirmed", "--set", "max_concurrent=1")
    suite_here("sweep", study_file(folder.parent, CONFIRMED), *args, cwd=folder.parent)
    return folder.parent


def test_what_cannot_keep_a_constraint_is_said(bound: Path) -> None:
    # FedAvg always uploads: 6 rounds of 4 clients of 650 floats.
    assert 6 * 4 * 650 * 4 > 40000
    assert "no configuration keeps the constraints" in (bound / "said").read_text()


def test_nu_is_searched_under_a_constraint(bound: Path) -> None:
    runs = [r for r in records(bound, sweep="bound", kind="search") if "nu" in r.params]
    assert len({run.params["nu"] for run in runs}) > 4
    assert {run.tags["feasible"] for run in runs} == {True, False}
    final = records(bound, sweep="bound", kind="final", algorithm="safl_extended")[0]
    kept = {r.tags["trial_id"] for r in runs if r.tags["feasible"]}
    assert final.tags["source"] in kept


def test_the_best_few_are_confirmed_and_the_best_of_these_repeated(confirmed: Path) -> None:
    searched = records(confirmed, sweep="confirmed", kind="search", heterogeneity="iid")
    assert len(searched) == 5 + 2
    confirms = [r for r in searched if "-c" in r.tags["trial_id"]]
    assert len({r.tags["source"] for r in confirms}) == len(confirms) == 2
    assert {r.tags["seed"] for r in confirms} == {"1000000"}
    finals = records(confirmed, sweep="confirmed", kind="final", heterogeneity="iid")
    assert len({r.params["lr"] for r in finals}) == 1
    assert {r.tags["source"] for r in finals} <= {r.tags["source"] for r in confirms}
    tuned = [read(path) for path in (confirmed / "runs/confirmed/tuned").rglob("*.yaml")]
    assert [t.budget["trials"] for t in tuned] == [7, 7]


def test_a_warm_start_is_inside_the_budget_stated_and_ranked_apart(confirmed: Path) -> None:
    runs = records(confirmed, sweep="confirmed", kind="search", heterogeneity="iid")
    origins = {
        r.tags["trial_id"][-5:]: r.tags["origin"] for r in runs if "-c" not in r.tags["trial_id"]
    }
    assert [origins[f"s000{i}"] for i in range(5)] == ["default", "warm", *["sampled"] * 3]
    warm = next(r for r in runs if r.tags["origin"] == "warm" and "-c" not in r.tags["trial_id"])
    (tuned,) = (confirmed / "runs/bound/tuned").rglob("fedavg.yaml")
    assert float(warm.params["lr"]) == read(tuned).params["lr"]
    assert warm.tags["source"].startswith("digits · logreg · labels(2), tuned by bound: 0.")
    assert {r.tags["warm_start"].count("tuned by bound") for r in runs} == {1}
    board = document(suite_here("leaderboard", "--json", cwd=confirmed))
    assert {(row["sweep"], row["warm"]) for row in board["rows"]} == {
        ("bound", False),
        ("confirmed", True),
    }
    assert {row["rank"] for row in board["rows"] if row["warm"]} == {1}
