"""Commands that mend what an audit finds."""

from types import SimpleNamespace
from typing import Any

import pytest

from reports.leaderboard.audit import edges
from suite.results.audits import remedy
from suite.studies.study import read_study
from trials.algorithm import Range

BEGIN = "suite sweep smoke --name mine-wider"


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, ""),
        ({"trials": 5, "settings.rounds": 3}, " --trials 5 --set rounds=3"),
        ({"tunings": 3}, " --set tunings=3"),
        ({"algorithms": ["fedprox"]}, " --algorithms fedprox"),
        ({"search.lr": {"low": 0.01, "high": 20.0}}, " --set search.lr=0.01..20"),
    ],
)
def test_a_new_sweep_is_changed_as_the_one_before(changes: dict[str, Any], options: str) -> None:
    """What a study of one tuning, partition and split does not write down is no change."""
    content = read_study("smoke", changes)[1].model_dump(mode="json")
    asked = {"study_name": "smoke", "name": "mine", "study": content, "study_file": None}
    audit = SimpleNamespace(hyperparameters=1, edges=())
    sweep: Any = SimpleNamespace(**asked)
    found: Any = {"fedavg": audit}
    assert remedy(sweep, found, {}, []).wider == BEGIN + options


def test_a_rate_s_own_range_is_the_one_that_is_widened() -> None:
    """That of all would not reach a method of which the study says its own."""
    changes = {"search.folb.lr": {"high": 3.0}}
    content = read_study("smoke", changes)[1].model_dump(mode="json")
    asked = {"study_name": "smoke", "name": "mine", "study": content, "study_file": None}
    sweep: Any = SimpleNamespace(**asked)
    spans = {"fedavg": Range("float", 0.1, 1.0, log=True), "folb": Range("float", 0.1, 3, log=True)}
    facts: Any = {
        name: SimpleNamespace(hyperparameters=1, edges=edges({"lr": span.high}, {"lr": span}))
        for name, span in spans.items()
    }
    found = remedy(sweep, facts, {name: {"lr": span} for name, span in spans.items()}, []).wider
    assert found == f"{BEGIN} --set search.lr=0.1..10 --set search.folb.lr=0.1..30"


def test_a_study_s_file_is_named_as_it_was_given() -> None:
    """Even one that is called as a shipped study is, of which it is no change."""
    content = read_study("smoke", {"trials": 5})[1].model_dump(mode="json")
    file = "my studies/smoke.yaml"
    asked = {"study_name": "smoke", "name": "mine", "study": content, "study_file": file}
    sweep: Any = SimpleNamespace(**asked)
    found: Any = {"fedavg": SimpleNamespace(hyperparameters=1, edges=())}
    begin = "suite sweep 'my studies/smoke.yaml' --name"
    assert remedy(sweep, found, {}, []) == (
        f"{begin} mine --resume --trials 10",
        f"{begin} mine-wider",
    )
