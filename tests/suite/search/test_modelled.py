"""From which trial on a sampler learns, against Optuna's samplers, and the words for it."""

import pytest

from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration, ValidationResult
from suite.studies.samplers import LAG, SAMPLERS, first_modelled, searched_by
from tests.support.searches import Player, a_study, entries_of, finished, sweep_of
from trials.run.outcome import Status

LEARNING = [name for name, sampler in SAMPLERS.items() if sampler.startup]


@pytest.fixture
def modelled(monkeypatch):
    """Numbers, from 1, of the trials that Optuna's samplers suggested from results.

    A sampler's relative sampling gives nothing until it has a model.
    """
    found: list[int] = []

    def watch(cls):
        original = cls.sample_relative

        def spy(self, study, trial, search_space):
            drawn = original(self, study, trial, search_space)
            if drawn:
                found.append(trial.number + 1)
            return drawn

        monkeypatch.setattr(cls, "sample_relative", spy)

    for cls in {type(sampler.make(0)) for sampler in SAMPLERS.values()}:
        watch(cls)
    return found


def played(
    lag: int = LAG, known: int = 0, ending=lambda ask: finished(0.5), **given
) -> SweepSearch:
    entries = entries_of(**given)
    warm = {
        entries[0].id: [InitialConfiguration("warm", {"lr": 0.01 * i}) for i in range(1, known + 1)]
    }
    sweep = SweepSearch(entries, a_study(**given), lag, warm)
    Player(sweep, ending).play()
    return sweep


def allowed(sweep: SweepSearch) -> int:
    (entry,) = sweep.entries.values()
    return entry.modelled


@pytest.mark.parametrize("lag", [1, 4])
@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_the_first_modelled_trial_is_the_one_that_is_said(modelled, sampler, lag):
    first = first_modelled(SAMPLERS[sampler], lag)
    trials = 12 if first is None else first + 1
    sweep = played(lag, sampler=sampler, trials=trials, grid_points=20)
    assert modelled == ([] if first is None else [first, first + 1])
    assert allowed(sweep) == len(modelled)


@pytest.mark.parametrize("sampler", LEARNING)
def test_a_budget_below_it_has_none(modelled, sampler):
    first = first_modelled(SAMPLERS[sampler], LAG)
    sweep = played(sampler=sampler, trials=first - 1)
    assert modelled == []
    assert allowed(sweep) == 0
    assert sweep.warnings == [
        f"random search ({sampler} models from trial {first} on; budget {first - 1}): "
        "0 modelled suggestions in 1 of 1 entries"
    ]
    assert played(sampler=sampler, trials=first).warnings == []


@pytest.mark.parametrize(("known", "trials"), [(0, 10), (3, 10), (5, 10), (7, 12), (7, 10)])
def test_known_configurations_are_told_and_are_no_suggestions(modelled, known, trials):
    """Default, published and warm ones count as told; where they are many, the sampler's come after them."""
    sweep = played(known=known, trials=trials, algorithms=["fedprox"], datasets=["mnist"])
    assert len(entries_of(algorithms=["fedprox"], datasets=["mnist"])[0].known) == 2, "published"
    assert modelled == list(range(max(9, known + 4), trials + 1))
    assert allowed(sweep) == len(modelled)
    assert bool(sweep.warnings) == (not modelled)


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_failed_trials_put_it_off(modelled, sampler):
    def ending(ask):
        return ValidationResult(Status.FAILED, None, {}) if ask.index in (1, 3) else finished(0.5)

    sweep = played(sampler=sampler, trials=12, ending=ending)
    assert modelled == [11, 12]
    assert allowed(sweep) == 4, "at most"


def test_stopped_and_diverged_trials_do_not(modelled):
    def ending(ask):
        return ValidationResult([Status.PRUNED, Status.DIVERGED][ask.index % 2], 0.3, {1: 0.3})

    played(trials=10, ending=ending)
    assert modelled == [9, 10]


def test_the_words():
    assert searched_by("tpe", 6, 4) == ("random search (tpe models from trial 9 on; budget 6)")
    assert searched_by("tpe", 9, 4) == "tpe (models from trial 9 on; budget 9)"
    assert searched_by("random", 6, 4) == "random search"
    assert searched_by("grid", 6, 4) == "grid search"


def test_a_thin_budget_is_said_in_one_line_that_names_the_methods():
    """SAFL searches three hyperparameters, FOLB four, FedAvg one."""
    three = {"algorithms": ["fedavg", "safl", "folb"], "heterogeneity": ["iid", "labels(2)"]}
    assert sweep_of(**three, trials=11).thin == [
        "11 trials are fewer than 4 for each searched hyperparameter of safl, folb (16 would be "
        "enough): how lucky a search is decides much"
    ]
    assert sweep_of(**three, trials=16).thin == []
