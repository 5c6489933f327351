"""Companions of algorithms, from tables of trials that are made up: how accuracy depends on mu is known."""

import json

import numpy as np
import pandas as pd
import pytest

from suite.configurations.companions import Companions, measure, recorded, starts
from suite.yaml_files import parse_mapping
from tests.support.commands import suite_here
from tests.support.searches import entries_of
from trials.common.errors import UserError


def trials(dataset: str, best: float, count: int = 60) -> pd.DataFrame:
    """Trials of FedProx: 0.9 at mu = best and the data set's best rate, 0.1 less for each decade of mu."""
    draws = np.random.default_rng(0).uniform(size=(count, 2))
    mus, rates = 1e-4 * 1e4 ** draws[:, 0], 1e-3 * 1e3 ** draws[:, 1]
    scores = 0.9 - 0.1 * abs(np.log10(mus / best)) - 0.05 * abs(np.log10(rates / 0.1))
    pairs = zip(rates, mus, strict=True)  # and a setting that was searched, too
    params = [json.dumps({"lr": lr, "mu": mu, "batch_size": 10}) for lr, mu in pairs]
    return pd.DataFrame(
        {
            "algorithm": "fedprox", "dataset": dataset, "model": "logreg", "heterogeneity": "iid",
            "kind": "search", "metric": "accuracy", "status": "finished", "val_score": scores,
            "params": params,
        }
    )  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    """Two families with their best at mu = 0.001, and one with it at 0.5."""
    paths = []
    for dataset, best in (("digits", 0.001), ("adult", 0.001), ("hapt", 0.5)):
        paths.append(tmp_path / f"{dataset}.parquet")
        trials(dataset, best).to_parquet(paths[-1])
    return paths


def test_the_first_companion_loses_least_and_the_second_adds_most(tables):
    scenarios = recorded(tables)
    fedprox = measure(scenarios, None)["fedprox"]
    first, second = fedprox.companions
    assert (fedprox.families, fedprox.trials) == (3, 180)
    assert 0.0003 < first.params["mu"] < 0.003
    assert second.params["mu"] > 0.15
    # 2.7 decades of mu in one family of three cost 9 points, in two of three 18
    assert (first.loses, second.loses) == pytest.approx((9, 18), abs=3)
    (without,) = (measure(scenarios, name)["fedprox"].companions[0] for name in ["adult"])
    assert without.loses > first.loses
    assert measure(recorded(tables[2:]), "hapt") == {}


def test_a_scenario_s_algorithms_all_have_companions_or_none(tables, tmp_path):
    command = ("tuned", "companions", *tables, "--leave-out")
    assert "'iris'" in suite_here(*command, "iris", code=2, cwd=tmp_path).stderr
    text = suite_here(*command, "fsdd", cwd=tmp_path).stdout
    file = Companions.model_validate(parse_mapping(text, "own.yaml"))
    assert file.command.startswith("suite tuned companions")
    (tmp_path / "own.yaml").write_text(text)
    where = f"companions:{tmp_path / 'own.yaml'}"
    alone = entries_of(algorithms=["fedprox"])
    warm = starts(alone, where)[alone[0].id]
    assert [start.params["lr"] for start in warm] == [0.1, 0.1], "rates are the study's"
    assert [start.params["mu"] for start in warm] == [
        each.params["mu"] for each in file.algorithms["fedprox"].companions
    ]
    assert {start.source for start in warm} == {"companions of 3 families, 180 trials"}
    both = entries_of(algorithms=["fedprox", "scaffold"])
    assert starts(both, where) == {entry.id: [] for entry in both}
    some = starts(both, f"some-{where}")
    assert [len(some[entry.id]) for entry in both] == [2, 0]


def test_the_shipped_file_holds_what_its_algorithms_have():
    entries = entries_of(algorithms=["fedavg", "safl", "fedagg", "folb", "fedumf"])
    for entry in entries:
        for start in starts(entries, "companions")[entry.id]:
            assert start.params.keys() <= entry.space.ranges.keys()
            assert all(
                entry.space.ranges[name].holds(value) for name, value in start.params.items()
            )


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "trials.parquet").write_text("no table")
    with pytest.raises(UserError, match=r"trials\.parquet"):
        recorded([tmp_path / "trials.parquet"])
