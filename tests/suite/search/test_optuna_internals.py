"""What of Optuna is used that it does not promise: whether this version has it."""

import optuna
import pytest

from tests.support.others import has

USED = {
    "optuna.samplers.NSGAIISampler._get_generation_key": "nsgaii would not breed from configurations that it did not suggest",
    "optuna.storages.BaseStorage.set_trial_system_attr": "constraints would not reach samplers",
    "optuna.storages.BaseStorage.set_trial_intermediate_value": "pruned trials would have no intermediate values",
}
"""Each name, and what a version of Optuna without it would break."""


@pytest.mark.parametrize("name", USED)
def test_this_version_has(name: str) -> None:
    assert has(name), f"Optuna {optuna.__version__} has no {name} any more: {USED[name]}"


def test_a_study_says_where_it_keeps_its_trials() -> None:
    study = optuna.create_study()
    study.ask()
    assert hasattr(study, "_storage"), "pruned trials would have no intermediate values"
    assert hasattr(study.trials[0], "_trial_id"), "pruned trials would have no intermediate values"
