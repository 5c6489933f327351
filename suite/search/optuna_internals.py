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
    """Write intermediate values, by step, and the excess over each constraint into a running trial. The public way, an
    `optuna.Trial`, would make the sampler suggest a configuration once more.
    """
    storage, trial = study._storage, study.get_trials(deepcopy=False)[number]
    for name, value in excess.items():
        storage.set_trial_system_attr(trial._trial_id, f"constraints:{name}", value)
    for step, value in intermediates.items():
        storage.set_trial_intermediate_value(trial._trial_id, step, value)


def forget_notes(study: optuna.Study, number: int) -> None:
    """Delete a sampler's notes on a running trial. TPE and GP use notes in their next suggestion, which would then differ
    after a restart, since a replayed journal does not restore notes.
    """
    study.get_trials(deepcopy=False)[number].system_attrs.clear()
