"""`--set` of `suite reproduce`: other values of what is ours. What a paper states stays."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from reports.claims.metrics import EVALUATIONS, MODELS
from suite.reproduction.experiments import (
    PLACE,
    SCORED,
    SCORED_MODEL,
    SCORING,
    Configured,
    Decision,
    Experiment,
    checked,
    undecided,
)
from suite.studies.validation import Faults
from trials.common.errors import UserError, unknown
from trials.run.spec import SPELLING


def otherwise(rows: Sequence[Experiment], other: Mapping[str, Any]) -> list[Experiment]:
    """The same rows with other values of what is ours wherever it is; what a paper states stays. A
    hyperparameter that only comes with such a value has to be given as well. `METHOD.KEY` concerns one
    method.

    Raises `UserError` for a key that is ours nowhere, and for the first value that cannot be.
    """
    if not rows or not other:
        return list(rows)
    for key in other:
        _refuse_stated(rows, key)
    changed = [
        replace(row, methods={m: _otherwise(row, m, c, other) for m, c in row.methods.items()})
        for row in rows
    ]
    faults = Faults("--set")
    for row in changed:
        for method, configured in row.methods.items():
            scenario = f"{row.path}, {method}"
            for variant in configured.variants:
                faults.attempt(scenario, None, partial(checked, configured, variant))
                faults.check()
            for key in undecided(configured):
                faults.add(f"{scenario}: {key}", None, "has to be set too")
            faults.check()
    return changed


def _ours(row: Experiment, method: str, key: str) -> bool:
    """Whether a value is ours to set: chosen, declared open, or what no paper states."""
    found = row.methods[method].decisions.get(key)
    if found is not None:
        return found.why is not None
    return key in row.open or key in (*SCORING, "data_seed", "partition_seed")


def _refuse_stated(rows: Sequence[Experiment], key: str) -> None:
    """Refuse a key that is nowhere ours and comes with nothing that is."""
    method, _, name = key.rpartition(".")
    scenarios = [(row, m) for row in rows for m in row.methods if method in ("", m)]
    if method and not scenarios:
        raise unknown("method", method, {m for row in rows for m in row.methods})
    if any(_ours(row, m, name) for row, m in scenarios):
        return
    possible = {
        key for row, m in scenarios for key in (*row.methods[m].known, *PLACE) if _ours(row, m, key)
    }
    if any(name in row.methods[m].decisions for row, m in scenarios) or name in PLACE:
        to_choose = ", ".join(sorted(possible))
        raise UserError(f"--set {key}: the paper states it; --set takes {to_choose}")
    if not any(name in row.methods[m].known for row, m in scenarios):
        raise unknown("chosen setting", name, possible)


def _otherwise(
    row: Experiment, method: str, configured: Configured, other: Mapping[str, Any]
) -> Configured:
    """A method with the values of `--set` that are ours in it."""
    given = {key.removeprefix(f"{method}."): value for key, value in other.items()}
    changed = configured
    for key, value in given.items():
        if _ours(row, method, key):
            changed = _with(changed, key, value)
    needed = dict(changed.decisions)
    with suppress(UserError):  # said when the values are checked
        needed |= {key: Decision(given[key], "--set") for key in undecided(changed) if key in given}
    return replace(changed, decisions=needed)


def _with(configured: Configured, key: str, value: Any) -> Configured:
    """With this value, unless it has no such setting or that value already. Names of data sets, models and
    levels are spelled canonically; raises `UserError` for one that is none, and for what cannot be scored.
    """
    for scoring, known in ((SCORED, EVALUATIONS), (SCORED_MODEL, MODELS)):
        if key == scoring and value not in known:
            raise unknown(key, str(value), known)
    if key in PLACE:
        before, value = getattr(configured.scenario, key), SPELLING[key](str(value))
    else:
        before = configured.value(key)
    if value == before or key not in (*PLACE, *configured.known):
        return configured
    if key == "data_seed" and not configured.drawn:  # other data have no draw
        return configured
    why = f"--set; the suite's own choice: {before}"
    if key in PLACE:
        readings = (*configured.readings, f"{key} = {value}: {why}")
        scenario = configured.scenario._replace(**{key: value})
        return replace(configured, scenario=scenario, readings=readings)
    decisions = {name: one for name, one in configured.decisions.items() if name != key}
    search = {name: values for name, values in configured.search.items() if name != key}
    if not isinstance(value, list):
        decisions[key] = Decision(value, why)
    elif value:
        search[key] = value
    else:
        raise UserError(f"{key} = []: must name at least one value")
    return replace(configured, decisions=decisions, search=search)
