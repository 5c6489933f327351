"""Another reading of what a paper leaves open."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from suite.reproduction.experiments import Configured, Decision, Experiment, checked, undecided
from suite.studies.validation import Faults
from trials.errors import UserError, unknown


def otherwise(rows: Sequence[Experiment], other: Mapping[str, Any]) -> list[Experiment]:
    """The same rows with other values of what is ours wherever it is; what a paper states stays. A
    hyperparameter that only comes with such a value has to be given as well.

    Raises `UserError` for a key that is ours nowhere, and for the first value that cannot be.
    """
    if not rows or not other:
        return list(rows)
    changed = [
        replace(row, methods={m: _otherwise(c, other) for m, c in row.methods.items()})
        for row in rows
    ]
    decisions = [c.decisions for row in changed for c in row.methods.values()]
    ours = {key for found in decisions for key, d in found.items() if d.why is not None}
    for key in other.keys() - ours:
        if any(key in found for found in decisions):
            to_choose = ", ".join(sorted(ours))
            raise UserError(f"--set {key}: the paper states it; to be chosen are {to_choose}")
        raise unknown("chosen setting", key, ours)
    faults = Faults("--set")
    for row in changed:
        for method, configured in row.methods.items():
            place = f"{row.path}, {method}"
            for variant in configured.variants:
                faults.attempt(place, None, partial(checked, configured, variant))
                faults.check()
            for key in undecided(configured):
                faults.add(f"{place}: {key}", None, "has to be set too")
            faults.check()
    return changed


def _otherwise(configured: Configured, other: Mapping[str, Any]) -> Configured:
    found = dict(configured.decisions)
    for key, value in other.items():
        if key in found and found[key].why is not None:
            found[key] = Decision(value, f"--set; the suite's own choice: {found[key].value}")
    changed = replace(configured, decisions=found)
    with suppress(UserError):  # said when the values are checked
        found |= {key: Decision(other[key], "--set") for key in undecided(changed) if key in other}
    return changed
