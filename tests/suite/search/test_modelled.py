"""From which trial on a sampler learns, against Optuna's samplers, and the words for it."""

import pytest

from suite.search.trial import ValidationResult
from suite.studies.samplers import LAG, SAMPLERS, first_modelled
from tests.support.searches import Player, finished, sweep_of
from trials.run.outcome import Status


@pytest.fixture
def modelled(monkeypatch):
    """Numbers, from 1, of the trials that Optuna's samplers suggested from results.

    A sampler's relative sampling gives nothing until it has a model.
    """
    numbers: list[int] = []

    def watch(cls):
        original = cls.sample_relative

        def spy(self, study, trial, search_space):
            drawn = original(self, study, trial, search_space)
            if drawn:
                numbers.append(trial.number + 1)
            return drawn

        monkeypatch.setattr(cls, "sample_relative", spy)

    for cls in {type(sampler.make(0)) for sampler in SAMPLERS.values()}:
        watch(cls)
    return numbers


def played(lag: int = LAG, ending=lambda ask: finished(0.5), **given) -> tuple[int, list[str]]:
    """How many trials can be modelled, at most, and the warnings that there are too few."""
    sweep = sweep_of(lag, **given)
    Player(sweep, ending).play()
    (entry,) = sweep.entries.values()
    return entry.modelled, [line for line in sweep.warnings if "0 modelled" in line]


@pytest.mark.parametrize("lag", [1, 4])
@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if not SAMPLERS[name].line])
def test_the_first_modelled_trial_is_the_one_that_is_said(modelled, sampler, lag):
    first = first_modelled(SAMPLERS[sampler], lag)
    trials = 12 if first is None else first + 1
    most, warnings = played(lag, sampler=sampler, trials=trials, grid_points=20)
    assert modelled == ([] if first is None else [first, first + 1])
    assert (most, warnings) == (len(modelled), [])
    modelled.clear()
    if first is not None:
        most, warnings = played(lag, sampler=sampler, trials=first - 1)
        assert (modelled, most, len(warnings)) == ([], 0, 1)


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_failed_trials_put_it_off_and_stopped_and_diverged_ones_do_not(modelled, sampler):
    failed, short = ValidationResult(Status.FAILED, None, {}), [Status.PRUNED, Status.DIVERGED]
    played(
        sampler=sampler, trials=12, ending=lambda a: failed if a.index in (1, 3) else finished(1)
    )
    assert modelled == [11, 12]
    modelled.clear()
    ends = [ValidationResult(status, 0.3, {1: 0.3}) for status in short]
    played(sampler=sampler, trials=10, ending=lambda a: ends[a.index % 2])
    assert modelled == [9, 10]
