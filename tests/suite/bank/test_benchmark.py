"""A search without training: who answers, and what."""

import math

import numpy as np
import optuna
import pytest

from suite.bank.benchmark import Benchmark
from tests.support.banks import ROUNDS, bank, peak, trials
from trials.common.errors import UserError

SCENARIO = ("digits", "logreg", "iid")


def a_benchmark(answers="nearest", score=None, **given) -> Benchmark:
    return Benchmark(
        "fedprox", SCENARIO, trials("digits", score or peak(0.1), **given), answers=answers
    )


def test_a_recorded_configuration_has_its_trials_score_and_curve():
    for answers in ("nearest", "surrogate"):
        of = a_benchmark(answers)
        answer = of.ask(of.configurations[7])
        assert (answer.source, answer.distance) == ("recorded", 0.0)
        assert answer.value == of.scores[7]
        assert answer.curve == {r: pytest.approx(of.scores[7] * r / 4) for r in ROUNDS}


def test_another_is_answered_by_the_nearest_on_the_ranges_scale():
    """Learning rates lie evenly on the logarithm, so between two the nearer is that of the smaller ratio."""
    of = Benchmark("fedavg", SCENARIO, trials("digits", peak(0.1), "fedavg"))
    low, high = of.configurations[3]["lr"], of.configurations[4]["lr"]
    answer = of.ask({"lr": low * (high / low) ** 0.4})
    assert (answer.source, answer.value) == ("nearest", of.scores[3])
    assert answer.distance == pytest.approx(0.4 / 39)


def test_the_surrogate_is_near_the_truth_between_trials():
    of = a_benchmark("surrogate")
    truth = peak(0.1)
    for lr in (0.01, 0.11, 1.7):
        answer = of.ask({"lr": lr, "mu": 0.01})
        assert answer.source == "surrogate"
        assert answer.value == pytest.approx(truth({"lr": lr}), abs=0.03)
        assert answer.curve[2] == pytest.approx(answer.value / 2, abs=0.02)
    assert of.predicted([{"lr": 0.11, "mu": 0.01}])[0] == of.ask({"lr": 0.11, "mu": 0.01}).value


def test_a_divergence_is_the_worst_score():
    of = a_benchmark(score=lambda one: math.nan if one["lr"] > 1 else 0.5)
    assert of.ask({"lr": 9.0, "mu": 0.1}).value == of.task.worst == 0.0
    assert max(of.ask({"lr": 9.0, "mu": 0.1}).curve) == ROUNDS[1]


@pytest.mark.parametrize("answers", ["nearest", "surrogate"])
def test_optunas_samplers_and_pruners_search_on_it(answers):
    """TPE comes within a point of the top; a pruner that wants more than there is stops what it may."""
    of = a_benchmark(answers)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction=of.direction, sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(of, n_trials=30)
    assert study.best_value > 0.89
    pruner = optuna.pruners.ThresholdPruner(lower=0.2, n_warmup_steps=1)
    stopped = optuna.create_study(direction=of.direction, pruner=pruner)
    stopped.optimize(of, n_trials=5)
    assert {trial.state.name for trial in stopped.trials} <= {"PRUNED", "COMPLETE"}


def test_only_ended_search_trials_of_one_setting_count():
    """Of two groups of settings the larger one answers; final runs and failures never do."""
    mine = trials("digits", peak(0.1))
    other = trials("digits", lambda one: 0.99, count=10, settings='{"rounds": 9}')
    final = trials("digits", lambda one: 1.0, kind="final")
    failed = trials("digits", lambda one: 1.0, status="failed")
    of = Benchmark("fedprox", SCENARIO, bank(other, final, failed, mine))
    assert np.array_equal(of.scores, mine["val_score"])


def test_what_the_bank_has_not_is_refused():
    with pytest.raises(UserError, match="no search trial of fedavg on digits"):
        Benchmark("fedavg", SCENARIO, trials("digits", peak(0.1)))
