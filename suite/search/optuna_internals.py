"""All uses of Optuna's private names, each with the reason why no public name will do.

A new version of Optuna may remove these names. `tests/test_private_names.py` then fails and says which.
"""

from collections.abc import Mapping

import optuna


def report(
    study: optuna.Study,
    number: int,
    intermediates: Mapping[int, float],
    excess: Mapping[str, float],
) -> None:
    """Write a running trial's values by step, and how far the trial exceeds each constraint, into `study`. Optuna's public
    `Trial` is no alternative, since creating it makes the sampler suggest another configuration.
    """
    storage, trial = study._storage, study.get_trials(deepcopy=False)[number]
    for name, value in excess.items():
        storage.set_trial_system_attr(trial._trial_id, f"constraints:{name}", value)
    for step, value in intermediates.items():
        storage.set_trial_intermediate_value(trial._trial_id, step, value)


def forget_notes(study: optuna.Study, number: int) -> None:
    """Delete the notes that a sampler keeps on a running trial. TPE and GP would use the notes in later suggestions. A
    restart does not restore notes, so suggestions after a restart would differ.
    """
    study.get_trials(deepcopy=False)[number].system_attrs.clear()
