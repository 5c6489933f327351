"""What a sampler is told of how trials ended: their validation scores, in order, and no test metric."""

import dataclasses
import math
import random

import optuna
import pytest
from optuna.trial import TrialState

from suite.search.trial import TrialRequest, ValidationResult
from tests.support.searches import (
    Player,
    entries_of,
    finished,
    play_one,
    replay,
    surprising,
    sweep_of,
    told,
)
from trials.run.outcome import Status, TrialResult
from trials.scoring.metrics import Task

LAST = 10
"""Trials that come after those whose telling is looked at, so that those have been told."""


def test_optuna_is_told_each_kind_of_end_as_it_is():
    ends = {
        0: ValidationResult(Status.FINISHED, 0.7, {5: 0.6, 10: 0.7}),
        1: ValidationResult(Status.PRUNED, 0.3, {1: 0.2, 3: 0.3}),
        2: ValidationResult(Status.DIVERGED, 0.9, {5: 0.9}),
        3: ValidationResult(Status.FAILED, None, {}),
        4: ValidationResult(Status.FINISHED, 0.4, {10: 0.4}),
    }
    player, search = play_one(ends, trials=5 + LAST)
    first = told(search)[:5]
    assert [t.state for t in first] == [
        TrialState.COMPLETE,
        TrialState.PRUNED,
        TrialState.COMPLETE,
        TrialState.FAIL,
        TrialState.COMPLETE,
    ]
    assert [first[i].value for i in (0, 2, 4)] == [0.7, search.entry.task.worst, 0.4]
    assert first[1].intermediate_values == {1: 0.2, 3: 0.3}
    assert first[3].value is None
    assert [t.params for t in first] == [a.params for a in player.requests("search")[:5]]


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_a_diverged_trial_is_the_worst_where_less_is_better(sampler):
    """GP is told of errors by their logarithm: beside one of 1e30 all others were the same to it."""
    entry = dataclasses.replace(entries_of()[0], task=Task("mse", "minimize", 1e30))
    ends = dict(
        enumerate([ValidationResult(Status.DIVERGED, 0.001, {}), finished(0.5), finished(0.0)])
    )
    player, search = play_one(ends, trials=3 + LAST, entry=entry, sampler=sampler)
    values = [1e30, 0.5, 0.0]
    if sampler == "gp":
        values = [math.log(max(value, 2.0**-1022)) for value in values]
    assert search.proposer._optuna.direction == optuna.study.StudyDirection.MINIMIZE
    assert [t.value for t in told(search)[:3]] == values
    assert {final.source for final in player.requests("final")} == {search.requests[2].trial_id}
    _, up = play_one({0: finished(0.5)}, trials=1 + LAST, sampler=sampler)
    assert told(up)[0].value == 0.5, "of accuracies as they are"


def test_a_published_configuration_outside_the_range_runs_but_is_not_told():
    search = {"lr": {"default": 0.1, "low": 0.02, "high": 1.0}}
    given = {"algorithms": ["fedprox"], "datasets": ["mnist"], "trials": 4 + LAST}
    player = Player(sweep_of(**given, search=search), lambda request: finished(0.5)).play()
    (entry,) = player.sweep.entries.values()
    requests = player.requests("search")
    assert [(a.origin, a.params["lr"]) for a in requests[:3]] == [
        ("default", 0.1),
        ("published", 0.03),
        ("published", 0.01),
    ]
    assert [t.params for t in told(entry)] == [a.params for a in requests if a.index != 2]
    assert all(t.params["lr"] >= 0.02 for t in told(entry))
    assert player.sweep.spec(requests[2]).params == {"lr": 0.01, "mu": 0.01}


SECRET = 777.0


def outcome(request: TrialRequest) -> TrialResult:
    """As the driver collects it: test metrics in the history, validation scores beside it."""
    end = surprising(request)
    history = [
        {
            "round": float(r),
            "val_accuracy": v,
            "test_accuracy": SECRET,
            "test_loss": SECRET + r,
            "uploaded_bytes": 8.0 * r,
        }
        for r, v in end.intermediates.items()
    ]
    return TrialResult(end.status, history, dict(end.intermediates), "abc", "", SECRET)


def test_no_test_metric_is_ever_told_to_optuna(monkeypatch):
    """All numbers that reach Optuna in a whole sweep, and again when it is rebuilt."""
    numbers: list[float] = []
    excesses: list[float] = []

    def spy(cls, name, numbers_of):
        original = getattr(cls, name)

        def noted(self, *given, **named):
            numbers.extend(numbers_of(*given))
            return original(self, *given, **named)

        monkeypatch.setattr(cls, name, noted)

    def notes(trial, key, value):
        excesses.extend([value] if key.startswith("constraints") else [])
        return []

    storage = optuna.storages.InMemoryStorage
    spy(optuna.Study, "tell", lambda trial, *values: values)
    spy(optuna.Study, "add_trial", lambda t: [*(t.values or []), *t.intermediate_values.values()])
    spy(storage, "set_trial_intermediate_value", lambda trial, step, value: [value])
    spy(storage, "set_trial_system_attr", notes)
    bounds = {"constraints": {"uploaded_bytes": {"max": 40.0}}}
    given = {"algorithms": ["folb", "fedavg"], "trials": 16, **bounds}
    player = Player(sweep_of(**given), lambda request: ValidationResult.of(outcome(request)))
    player.play(random.Random(6), 5)
    live = len(numbers)
    replay(sweep_of(**given), player.log)
    assert len(numbers) > live > 15
    assert set(excesses) == {9.0}
    legitimate = {0.0}
    for request in player.requests("search"):
        legitimate |= set(surprising(request).intermediates.values())
    assert set(numbers) <= legitimate
    assert not any(t.user_attrs for entry in player.sweep.entries.values() for t in told(entry))
