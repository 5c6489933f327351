"""Commands that mend what an audit finds."""

from types import SimpleNamespace
from typing import Any

import pytest

from suite.results.mends import mend
from suite.studies.study import read_study

BEGIN = "suite sweep smoke --name mine-wider"


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, ""),
        ({"trials": 5, "settings.rounds": 3}, " --trials 5 --rounds 3"),
        ({"tunings": 3}, " --tunings 3"),
        ({"algorithms": ["fedprox"]}, " --algorithms fedprox"),
        ({"search.lr": {"low": 0.01, "high": 20.0}}, " --range lr=0.01..20"),
    ],
)
def test_a_new_sweep_is_changed_as_the_one_before(changes: dict[str, Any], options: str) -> None:
    """What a study of one tuning, deal and split does not write down is no change."""
    content = read_study("smoke", changes)[1].model_dump(mode="json")
    tags = SimpleNamespace(study="smoke", sweep="mine", study_json=content)
    audit = SimpleNamespace(hyperparameters=1, edges=())
    sweep: Any = SimpleNamespace(tags=tags)
    found: Any = [("fedavg", audit)]
    assert mend(sweep, found, {}, []).wider == BEGIN + options
