"""The keys that `suite sweep --set` and `suite.sweep` take, and what is said of those that are none."""

from pathlib import Path
from typing import Any

import pytest

import suite
from suite.execution.resources import Resources
from suite.studies.study import OPTIONS, Study
from suite.sweeps.request import changes
from suite.yaml_files import assignments
from tests.support.commands import document, fault, suite_here
from trials.common.errors import UserError
from trials.settings import Settings

GIVEN: dict[str, Any] = {
    "rounds=20": {"settings.rounds": 20},
    "settings.rounds=20": {"settings.rounds": 20},
    "batch_size=full": {"settings.batch_size": "full"},
    "local_steps=null": {"settings.local_steps": None},
    "vary_partition=true": {"vary_partition": True},
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
    assert changes(assignments([text])).study == GIVEN[text]


def test_python_s_keywords_are_the_same_keys() -> None:
    """As values of Python's, and as the texts of the command."""
    keywords = {"search": {"lr": "0.01..10"}, "settings": {"rounds": 20}, "algorithms": ("folb",)}
    texts = ["search.lr=0.01..10", "rounds=20", "algorithms=folb"]
    assert changes(keywords) == changes(assignments(texts))


def test_what_trials_get_is_no_change_of_the_study() -> None:
    texts = ["max_concurrent=3", "gpus_per_trial=0.25", "memory_per_trial=1.5", "checkpoints=ck"]
    found = changes(assignments([*texts, "trials=2"]), "auto")
    assert found.study == {"trials": 2}
    assert found.checkpoints == "ck"
    given = {"gpus_per_trial": 0.25, "max_concurrent": 3, "memory_per_trial": 1.5}
    assert found.resources == Resources(**given, address="auto")
    assert found.resources.trial_bytes == 1_500_000_000


def test_every_key_belongs_to_one_thing() -> None:
    """A bare name means one thing only: a study's key, a setting, or what trials get."""
    names = [*Study.model_fields, *Settings.model_fields, *vars(Resources())]
    assert len(names) == len(set(names))
    assert set(OPTIONS) <= set(Study.model_fields)


SAID = """sweep: 4 faults, nothing was started
  rouns = 3: unknown key 'rouns'. Did you mean 'rounds'?
  max_concurent = 2: unknown key 'max_concurent'. Did you mean 'max_concurrent'?
  mu = 0.1: is searched; a range for it is given as search.mu=LOW..HIGH
  search.lr = 0.1: must be LOW..HIGH, as in search.lr=0.001..10; [A, B] for choices; or a range as a \
study writes it"""
WRONG = {"rouns": 3, "max_concurent": 2, "mu": 0.1, "search.lr": 0.1}


def test_every_key_that_is_none_is_said_at_once_and_alike_in_python(tmp_path: Path) -> None:
    words = [word for key, value in WRONG.items() for word in ("--set", f"{key}={value}")]
    assert fault(suite_here("sweep", "smoke", *words, cwd=tmp_path, code=2)) == SAID
    with pytest.raises(UserError) as refused:
        suite.sweep("smoke", storage=tmp_path, **WRONG)
    assert str(refused.value) == SAID
    assert not list(tmp_path.iterdir())


def test_the_plan_shows_what_is_set(tmp_path: Path) -> None:
    sets = ("--set", "rounds=7", "--set", "trials=3", "--set", "max_concurrent=3")
    plan = document(suite_here("sweep", "smoke", *sets, "--dry-run", "--json", cwd=tmp_path))
    assert plan["trials_per_entry"] == 3
    assert plan["trials_at_once"] == 3
