"""Nothing that is suggested, stopped or chosen depends on test data: sweeps with other test data make
the same choices. Real trials, driven in this process without Ray.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports.leaderboard.board import Leaderboard
from suite.configurations.configuration import Tuned, read
from suite.execution.cluster import Resources
from suite.results.leaderboards import Query, read_leaderboard
from suite.studies.entries import load_data
from suite.sweeps import sweep
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Result, Sweep
from suite.sweeps.tables import open_tables
from tests.support.searches import a_study
from tests.support.simulations import finish, partitioned, settings, simulation
from trials.algorithms import ALGORITHMS
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.scoring.metrics import REGRESSION

pytestmark = pytest.mark.usefixtures("in_this_process")
WIDE = {"lr": {"default": 0.1, "low": 0.001, "high": 300.0, "log": True}}
STUDIES: dict[str, dict[str, Any]] = {
    "tpe": {"sampler": "tpe", "trials": 8},
    "asha": {"sampler": "random", "scheduler": "asha"},
    "confirmed under a constraint": {
        "constraints": {"client_steps": {"max": 50}},
        "confirm": {"best": 3, "seeds": 1},
    },
}
COMMON: dict[str, Any] = {
    "trials": 6,
    "seeds": 1,
    "search": WIDE,
    "settings": {"rounds": 6, "clients": 4, "eval_every": 1, "execution": "batched"},
}


def spoiled(dataset: Dataset) -> Dataset:
    """The same training data; every test row so large that losses overflow where weights are large,
    every test label another one.
    """
    x, y, test = np.array(dataset.x), dataset.y.copy(), dataset.test
    x[test] *= 1e37
    y[test] = -y[test] if dataset.classes == 1 else (y[test] + 1) % dataset.classes
    return dataclasses.replace(dataset, x=x, y=y)


def load_spoiled(*args: Any) -> dict[str, Dataset]:
    """As `load_data`, with the test data spoiled."""
    return {key: spoiled(dataset) for key, dataset in load_data(*args).items()}


def swept(storage: Path, name: str, **given: Any) -> Result:
    study = a_study(**{**COMMON, **given})
    return Sweep("study", study, SweepPaths(storage, name)).run(Resources(max_concurrent=1))


def told(storage: Path, name: str) -> tuple[Any, Any]:
    """What was asked, and what the search was told of how it ended."""
    state = SweepPaths(storage, name).state()
    return state.requests, state.ended


def chosen(storage: Path, name: str) -> list[tuple[Any, ...]]:
    """What the tuned files say, but for test scores and what names runs."""
    found: list[Tuned] = [read(p) for p in sorted((storage / name / "tuned").rglob("*.yaml"))]
    assert found
    return [
        (
            *(t.path, t.params, t.settings, t.budget, t.provenance["search_trial"]),
            {k: v for k, v in t.scores.items() if k.startswith("val_")},
        )
        for t in found
    ]


def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *studies: dict[str, Any]
) -> tuple[Leaderboard, Leaderboard]:
    """Sweep the studies one after the other in one storage, then in another where test data are
    spoiled; asserts that all choices are the same. The leaderboards of the first study.
    """
    storages, boards = (tmp_path / "as_is", tmp_path / "spoiled"), []
    for storage in storages:
        found = [swept(storage, str(i), **given).leaderboard for i, given in enumerate(studies)]
        boards.append(found[0])
        monkeypatch.setattr(sweep, "load_data", load_spoiled)
    for i in range(len(studies)):
        sound, other = (told(storage, str(i)) for storage in storages)
        assert sound == other
        sound, other = (chosen(storage, str(i)) for storage in storages)
        assert sound == other
    assert boards[0] is not None
    assert boards[1] is not None
    return boards[0], boards[1]


def means(board: Leaderboard) -> list[float]:
    return [row.mean for row in board.rows]


@pytest.mark.parametrize("case", STUDIES)
def test_other_test_data_change_no_choice(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_is, other = both(tmp_path, monkeypatch, STUDIES[case])
    assert means(as_is) != means(other), "they are other test data"


@pytest.mark.slow("four sweeps of real trials")
def test_a_warm_start_from_a_regression_and_its_lost_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no test error is finite, not even the untrained model's, final runs count with the worst
    finite one, and are shown as lost; what was chosen is tuned, exported and started from all the same.
    """
    first = {"datasets": ["sine"], "models": ["mlp(8)"], "seeds": 2, "seed": 1}
    warm = {**first, "models": ["mlp(9)"], "trials": 3, "warm_start": "nearest"}
    as_is, _ = both(tmp_path, monkeypatch, first, warm)
    assert as_is.rows[0].failed_seeds == 0
    assert as_is.rows[0].mean < 10
    tables = open_tables(tmp_path / "spoiled", names=["0"])
    for metric, at in [("score", "rounds"), ("best", "rounds"), ("loss", "steps")]:
        (row,) = read_leaderboard(tables, Query(metric=metric, at=at)).rows
        assert (row.failed_seeds, row.mean) == (2, REGRESSION.worst), metric


def with_rows(data: FederatedData, ids: Any, value: float) -> FederatedData:
    """The same data with these rows of another value."""
    x = np.array(data.dataset.x)
    x[ids] = value
    return dataclasses.replace(data, dataset=dataclasses.replace(data.dataset, x=x))


@pytest.mark.parametrize("algorithm", ["fedavg", "defed"])
@pytest.mark.parametrize("validated", [True, False])
def test_divergence_is_decided_by_validation_and_training(algorithm: str, validated: bool) -> None:
    data = partitioned([9, 6, 8])
    held_out = data.test[:3]
    data = dataclasses.replace(data, test=data.test[3:], val=held_out if validated else data.val)
    made = ALGORITHMS[algorithm]()
    blind = finish(simulation(made, with_rows(data, data.test, np.nan), settings()))
    assert math.isnan(blind.history[-1]["test_loss"])
    assert (blind.diverged, blind.fed.round) == (False, 5)
    seen = finish(simulation(made, with_rows(data, held_out, np.nan), settings()))
    assert seen.diverged == validated
    assert seen.fed.round == (0 if validated else 5)
