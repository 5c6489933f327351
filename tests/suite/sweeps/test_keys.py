"""The keys that `suite sweep --set` and `suite.sweep` take, and what is said of those that are none."""

from pathlib import Path
from typing import Any

import pytest

import suite
from suite.execution.resources import Resources
from suite.sweeps.request import changes
from suite.yaml_files import assignments
from tests.support.commands import fault, suite_here
from trials.common.errors import UserError

GIVEN: dict[str, Any] = {
    "rounds=20": {"settings.rounds": 20},
    "local_steps=null": {"settings.local_steps": None},
    "algorithms=fedavg,folb": {"algorithms": ["fedavg", "folb"]},
    "heterogeneity=labels(2),groups({1,2},{3})": {
        "heterogeneity": ["labels(2)", "groups({1,2},{3})"]
    },
    "confirm={best: 4, seeds: 1}": {"confirm.best": 4, "confirm.seeds": 1},
    "constraints={uploaded_bytes: {max: 1e6}}": {"constraints.uploaded_bytes": {"max": 1e6}},
    "search.lr=0.01..10": {"search.lr": {"low": 0.01, "high": 10.0}},
    "search.fedprox.mu=1e-3..1": {"search.fedprox.mu": {"low": 1e-3, "high": 1.0}},
    "search.batch_size=[16, 32]": {"search.batch_size": {"choices": [16, 32]}},
    "search.lr={high: 3}": {"search.lr": {"high": 3}},
}


@pytest.mark.parametrize("text", GIVEN)
def test_a_text_of_the_command_is_a_change_of_the_study(text: str) -> None:
    assert changes(assignments([text]))[0] == GIVEN[text]


def test_python_s_keywords_are_the_same_keys() -> None:
    """As values of Python's, and as the texts of the command."""
    keywords = {"search": {"lr": "0.01..10"}, "settings": {"rounds": 20}, "algorithms": ("folb",)}
    texts = ["search.lr=0.01..10", "rounds=20", "algorithms=folb"]
    assert changes(keywords) == changes(assignments(texts))


def test_what_trials_get_is_no_change_of_the_study() -> None:
    texts = ["max_concurrent=3", "gpus_per_trial=0.25", "memory_per_trial=1.5", "checkpoints=ck"]
    study, resources, checkpoints = changes(assignments([*texts, "trials=2"]), "auto")
    assert (study, checkpoints) == ({"trials": 2}, "ck")
    given = {"gpus_per_trial": 0.25, "max_concurrent": 3, "memory_per_trial": 1.5}
    assert resources == Resources(**given, address="auto")
    assert resources.trial_bytes == 1_500_000_000


WRONG = {"rouns": 3, "max_concurent": 2, "mu": 0.1, "search.lr": 0.1}


def test_every_key_that_is_none_is_said_at_once_and_alike_in_python(tmp_path: Path) -> None:
    words = [word for key, value in WRONG.items() for word in ("--set", f"{key}={value}")]
    said = fault(suite_here("sweep", "smoke", *words, cwd=tmp_path, code=2))
    lines = zip(said.splitlines()[1:], WRONG.items(), strict=True)
    assert all(line.startswith(f"  {key} = {value}: ") for line, (key, value) in lines)
    with pytest.raises(UserError) as refused:
        suite.sweep("smoke", storage=tmp_path, **WRONG)
    assert str(refused.value) == said
    assert not list(tmp_path.iterdir())
