"""What the suite needs of Optuna and Optuna offers no public way to: all of it, each with the reason.

A version of Optuna may take any of it away. `tests/test_private_names.py` says so in words.
"""

from collections.abc import Mapping

import optuna


def report(
    study: optuna.Study,
    number: int,
    intermediates: Mapping[int, float],
    excess: Mapping[str, float],
) -> None:
    """Give a running trial its intermediate values by step, and how far each constraint is exceeded. An
    `optuna.Trial` made for this would have the sampler suggest a configuration once more.
    """
    storage, trial = study._storage, study.get_trials(deepcopy=False)[number]
    for name, value in excess.items():
        storage.set_trial_system_attr(trial._trial_id, f"constraints:{name}", value)
    for step, value in intermediates.items():
        storage.set_trial_intermediate_value(trial._trial_id, step, value)


def forget_notes(study: optuna.Study, number: int) -> None:
    """Drop what a sampler noted on a running trial. TPE and GP note hyperparameters that the trial may not have,
    and go by them in the next suggestion; no journal has them.
    """
    study.get_trials(deepcopy=False)[number].system_attrs.clear()
