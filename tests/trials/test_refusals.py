"""What an algorithm refuses is refused before anything starts, with the reason."""

import pytest

from tests.support.oracle import SIZES, spelled
from tests.support.searches import entries_of
from tests.support.simulations import finish, partitioned
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg
from trials.common.errors import UserError
from trials.run.spec import refuse
from trials.run.trial import simulate
from trials.settings import Settings

OTHER = {
    "batch_size": "full",
    "local_epochs": 3,
    "local_steps": 3,
    "lr_decay": 0.9,
    "momentum": 0.5,
    "weight_decay": 0.1,
    "clip_norm": 1.0,
    "loss": "two_sided",
    "init": "own",
    "aggregation": "plain",
    "selection": "with_replacement",
    "participation": 0.3,
}
"""A value that is not the default."""

REFUSED = [(name, key) for name, cls in ALGORITHMS.items() for key in cls.unsupported]


def asked(key):
    """Settings and level that ask for what `key` names, and how a message names it."""
    if key == "system":
        return {}, "iid+system(steps=1..4)", "system"
    setting, _, value = key.partition("=")
    value = value or OTHER[setting]
    return {setting: value}, "iid", f"{setting}={value}"


@pytest.mark.parametrize(("name", "key"), REFUSED)
def test_what_is_refused_is_refused_by_name_and_with_its_reason(name, key, monkeypatch):
    """Of an algorithm, of a trial, which never begins, and of a study as a whole."""
    cls, (given, level, words) = ALGORITHMS[name], asked(key)
    with pytest.raises(UserError) as alone:
        refuse(name, cls, Settings(**given), level)
    with pytest.raises(UserError) as study:
        entries_of(algorithms=["fedavg", name], settings=given, heterogeneity=[level])
    for part in (name, words, cls.unsupported[key]):
        assert part in str(alone.value)
        assert part in str(study.value)
    refuse(name, cls, Settings(), "iid")
    refuse("fedavg", FedAvg, Settings(**given), level)
    assert entries_of(algorithms=["fedavg", name])
    assert entries_of(algorithms=["fedavg"], settings=given, heterogeneity=[level])
    base = {"local_steps": None, "local_epochs": 1}
    spec = spelled(name, level, **{**base, **given})
    monkeypatch.setattr("trials.engine.federation.Federation.begin", lambda *a: 1 / 0)
    with pytest.raises(UserError, match=words):
        finish(simulate(spec, partitioned(SIZES)))
    with pytest.raises(UserError, match=words):
        spec.configured()
    spelled(name, "iid", **base).configured()
