"""The report's importance of hyperparameters against Optuna's, which it does not load."""

import random
import warnings
from typing import Any

import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from reports.page.data import Trial
from reports.page.tuning import importance

DISTRIBUTIONS: dict[str, Any] = {
    "lr": lambda v: FloatDistribution(min(v), max(v), log=True),
    "mu": lambda v: FloatDistribution(min(v), max(v)),
    "steps": lambda v: IntDistribution(min(v), max(v)),
    "batch": lambda v: IntDistribution(min(v), max(v), log=True),
    "kind": lambda v: CategoricalDistribution(list(dict.fromkeys(v))),
}


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("count", [8, 21, 60])
def test_importance_is_optunas(count: int, up: bool) -> None:
    draw = random.Random(count)
    trials = []
    for index in range(count):
        params = {
            "lr": 10 ** draw.uniform(-4, 0),
            "mu": draw.uniform(-1, 1),
            "steps": draw.randint(1, 8),
            "batch": [1, 64, draw.randint(1, 64)][min(index, 2)],
            "kind": draw.choice(["a", None, True]),
        }
        value = round(params["mu"] - 0.1 * params["steps"], draw.choice([1, 9]))
        trials.append(Trial(("s",) * 5, "a", index, "sampled", "finished", value, params))  # type: ignore[arg-type]
    expected = optunas(trials, up)
    found = importance(trials, up)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def optunas(trials: list[Trial], up: bool) -> dict[str, float]:
    """Optuna's default estimator, told of the same trials."""
    ranges: dict[str, BaseDistribution] = {
        name: make([t.params[name] for t in trials]) for name, make in DISTRIBUTIONS.items()
    }
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize" if up else "minimize")
    for trial in trials:
        study.add_trial(
            optuna.create_trial(
                params=dict(trial.params), distributions=dict(ranges), value=trial.value
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.importance.get_param_importances(study)
