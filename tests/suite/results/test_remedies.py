"""Commands that mend what an audit finds."""

from types import SimpleNamespace
from typing import Any

import pytest

from reports.leaderboard.audit import edges
from suite.results.audits import remedy
from suite.studies.study import read_study
from trials.algorithm import Range

BEGIN = "suite sweep smoke --name mine-wider"


def mended(
    changes: dict[str, Any], file: str | None = None, study: str = "smoke", **highs: float
) -> Any:
    """The commands for a sweep of a study with these changes, whose winners are at the high end of their rates."""
    content = read_study(study, changes)[1].model_dump(mode="json")
    entries, audits = [], {}
    for name, high in (highs or {"fedavg": None}).items():
        space = {} if high is None else {"lr": Range("float", 0.1, high, log=True)}
        entries.append(SimpleNamespace(id=name, algorithm=name, space=space))
        ends = edges({"lr": high}, space)
        audits[name] = SimpleNamespace(hyperparameters=1, edges=ends)
    known = {"study_name": study, "name": "mine", "study": content, "study_file": file}
    sweep: Any = SimpleNamespace(**known, entries=entries)
    return remedy(sweep, audits, [])  # type: ignore[arg-type]


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
    assert mended(changes).wider == BEGIN + options


def test_a_rate_s_own_range_is_the_one_that_is_widened() -> None:
    """That of all would not reach a method of which the study says its own."""
    wider = mended({"search.folb.lr": {"high": 3.0}}, fedavg=1.0, folb=3.0).wider
    assert wider == f"{BEGIN} --set search.lr=0.1..10 --set search.folb.lr=0.1..30"


def test_the_data_sets_that_a_study_leaves_open_are_given_again() -> None:
    wider = mended({"datasets": ["digits"]}, study="own").wider
    assert wider == "suite sweep own --name mine-wider --datasets digits"


def test_a_study_s_file_is_named_as_it_was_given() -> None:
    """Even one that is called as a shipped study is, of which it is no change."""
    begin = "suite sweep 'my studies/smoke.yaml' --name"
    assert mended({"trials": 5}, "my studies/smoke.yaml") == (
        f"{begin} mine --resume --trials 10",
        f"{begin} mine-wider",
    )
