"""Constraints, confirmation and warm starts of whole sweeps; killed ones are in faults/test_search_kills.py."""

from pathlib import Path
from typing import Any

import pytest

from suite.configurations.configuration import read
from suite.results.leaderboards import read_leaderboard
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.sweeps.tables import open_tables
from tests.support.commands import records
from tests.support.foreign import little, play

SETTINGS = {"rounds": 6, "clients": 4, "participation": 1.0, "execution": "batched"}
BOUND: dict[str, Any] = {
    "algorithms": ["fedavg", "safl_extended"],
    "heterogeneity": ["labels(2)"],
    "trials": 8,
    "seeds": 2,
    "constraints": {"uploaded_bytes": {"max": 40000}},
    "settings": SETTINGS,
}
CONFIRMED: dict[str, Any] = {
    "heterogeneity": ["iid", "dirichlet(0.3)"],
    "trials": 5,
    "seeds": 2,
    "confirm": {"best": 2, "seeds": 1},
    "warm_start": "nearest",
    "settings": SETTINGS,
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep under a constraint, and one that confirms, warm-started from it."""
    folder = tmp_path_factory.mktemp("swept")
    for name, study in (("bound", BOUND), ("confirmed", CONFIRMED)):
        sweep = Sweep(name, little(**study), SweepPaths(folder / "runs", name))
        play(sweep)
        (folder / f"{name}.unmet").write_text("\n".join(sweep.search.unmet))
    return folder


def test_what_cannot_keep_a_constraint_is_said(swept: Path) -> None:
    # FedAvg always uploads: 6 rounds of 4 clients of 650 floats.
    assert 6 * 4 * 650 * 4 > 40000
    (line,) = (swept / "bound.unmet").read_text().splitlines()
    assert line.startswith("fedavg")


def test_nu_is_searched_under_a_constraint(swept: Path) -> None:
    runs = [r for r in records(swept, sweep="bound", kind="search") if "nu" in r.params]
    assert {run.tags["feasible"] for run in runs} == {True, False}
    final = records(swept, sweep="bound", kind="final", algorithm="safl_extended")[0]
    assert final.tags["source"] in {r.tags["trial_id"] for r in runs if r.tags["feasible"]}


def test_the_best_few_are_confirmed_and_the_best_of_these_repeated(swept: Path) -> None:
    searched = records(swept, sweep="confirmed", kind="search", heterogeneity="iid")
    assert len(searched) == 5 + 2
    confirms = [r for r in searched if "-c" in r.tags["trial_id"]]
    assert len({r.tags["source"] for r in confirms}) == len(confirms) == 2
    assert {r.tags["seed"] for r in confirms} == {"1000000"}
    finals = records(swept, sweep="confirmed", kind="final", heterogeneity="iid")
    assert len({r.params["lr"] for r in finals}) == 1
    assert {r.tags["source"] for r in finals} <= {r.tags["source"] for r in confirms}
    tuned = [read(path) for path in (swept / "runs/confirmed/tuned").rglob("*.yaml")]
    assert [t.budget["trials"] for t in tuned] == [7, 7]


def test_a_warm_start_is_inside_the_budget_stated_and_ranked_apart(swept: Path) -> None:
    runs = records(swept, sweep="confirmed", kind="search", heterogeneity="iid")
    searched = [run for run in runs if "-c" not in run.tags["trial_id"]]
    origins = {run.tags["trial_id"][-1]: run for run in searched}
    assert [origins[str(i)].tags["origin"] for i in range(5)] == [
        *("default", "warm"),
        *["sampled"] * 3,
    ]
    warm = origins["1"]
    (tuned,) = (swept / "runs/bound/tuned").rglob("fedavg.yaml")
    assert float(warm.params["lr"]) == read(tuned).params["lr"]
    assert "tuned by bound" in warm.tags["source"]
    assert {r.tags["warm_start"].count("tuned by bound") for r in runs} == {1}
    rows = read_leaderboard(open_tables(swept / "runs")).rows
    assert {(row.sweep, row.warm) for row in rows} == {("bound", False), ("confirmed", True)}
    assert {row.rank for row in rows if row.warm} == {1}
