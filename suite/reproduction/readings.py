"""Other readings of what a paper leaves open: one set by hand, and all that its file declares.

A row's file names for each open setting the candidates with their reasons (`suite.reproduction.paper.Open`).
A reading is one candidate of each; the default reading is what is chosen. What a paper states stays.
"""

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from suite.reproduction.paper import AGAINST, LATE, Open
from suite.studies.validation import Faults
from trials.common.errors import UserError, unknown
from trials.run.scenario import SPELLING


@dataclass(frozen=True)
class Reading:
    """One candidate of each open setting of a row, by name: its place among the candidates."""

    picks: Mapping[str, int]

    def values(self, made: Experiment) -> dict[str, Any]:
        """The candidates' values by the open settings' names."""
        return {name: made.open[name].values[i].value for name, i in self.picks.items()}

    def apart(self, made: Experiment) -> str:
        """Why it judges nothing: `against` the text, or `late`; "" where it does."""
        says = {made.open[name].values[i].says for name, i in self.picks.items()}
        return next((why for why in (AGAINST, LATE) if why in says), "")


def readings(made: Experiment) -> list[Reading]:
    """All readings of a row: the default one, then those that change one setting of it, then the others
    in an order that is random but always the same. Settings that change nothing here have one candidate.
    """
    default = default_reading(made)
    scenarios = [range(len(made.open[name].values)) for name in default.picks]
    every = [
        dict(zip(default.picks, picks, strict=True)) for picks in itertools.product(*scenarios)
    ]

    def order(picks: dict[str, int]) -> tuple[int, str]:
        changed = sum(picks[name] != i for name, i in default.picks.items())
        text = f"{made.path} {sorted(picks.items())}"
        return min(changed, 2), hashlib.sha256(text.encode()).hexdigest() if changed > 1 else ""

    return [Reading(picks) for picks in sorted(every, key=order)]


def of_baselines(made: Experiment) -> list[str]:
    """The open settings that baselines have too: readings that differ in others alone fit alike."""
    return [
        n for n in default_reading(made).picks if not _concerned(made, made.open[n]) <= made.own
    ]


def default_reading(made: Experiment) -> Reading:
    """The reading that is chosen: of each open setting that matters in this row, the candidate that
    changes nothing. Raises `UserError` where there is none.
    """
    picks = {}
    for name, of in made.open.items():
        changes = [under(made, name, one.value) != made.methods for one in of.values]
        if not any(changes):
            continue
        if all(changes):
            raise UserError(f"open.{name}: what is chosen has to be one of the candidates")
        picks[name] = changes.index(False)
    return Reading(picks)


def read(made: Experiment, reading: Reading) -> Experiment:
    """The row under a reading."""
    for name, value in reading.values(made).items():
        made = replace(made, methods=under(made, name, value))
    return made


def under(made: Experiment, name: str, value: Any) -> dict[str, Configured]:
    """The methods of a row with a candidate of an open setting; equal to those it has where that is what
    was chosen.
    """
    keys = parts(name, value)
    why = next(one.why for one in made.open[name].values if one.value == value)
    concerned = _concerned(made, made.open[name])
    return {
        method: _with(configured, keys, why) if method in concerned else configured
        for method, configured in made.methods.items()
    }


def check_open(made: Experiment) -> None:
    """Raise `UserError` with every fault of a row's open settings."""
    faults = Faults(made.path)
    for name, of in made.open.items():
        concerned = sorted(_concerned(made, of))
        for method in (m for m in concerned if m not in made.methods):
            faults.add(f"open.{name}.of", method, str(unknown("method", method, made.methods)))
        for value in (one.value for one in of.values):
            for key in parts(name, value):
                _check_key(
                    faults, made, f"open.{name}", key, [m for m in concerned if m in made.methods]
                )
            if faults.found:
                continue
            changed = faults.attempt(f"open.{name}", value, partial(under, made, name, value)) or {}
            for configured in changed.values():
                for variant in configured.variants:
                    faults.attempt(f"open.{name}", value, partial(checked, configured, variant))
    faults.check()
    default_reading(made)


def _check_key(
    faults: Faults, made: Experiment, at: str, key: str, concerned: Iterable[str]
) -> None:
    """Note a key that no concerned method has, or that the paper states."""
    if key in PLACE:
        return
    known = {k for m in concerned for k in made.methods[m].known}
    if key not in known:
        faults.add(at, key, str(unknown("setting", key, {*known, *PLACE})))
    for method in concerned:
        found = made.methods[method].decisions.get(key)
        if found is not None and found.why is None:
            faults.add(at, key, f"is stated by the paper for {method}")


def parts(name: str, value: Any) -> dict[str, Any]:
    """A candidate as values by key."""
    return value if isinstance(value, dict) else {name: value}


def _concerned(made: Experiment, of: Open) -> set[str]:
    """The methods that an open setting is about."""
    if of.of == "all":
        return set(made.methods)
    if of.of == "own":
        return set(made.own)
    return made.methods.keys() - made.own if of.of == "baselines" else set(of.of)


def _with(configured: Configured, values: Mapping[str, Any], why: str) -> Configured:
    """With these values, and their reason where they differ from what was decided. Names of data sets,
    models and levels are spelled canonically; raises `UserError` for one that is none, and for what
    cannot be scored.
    """
    for key, known in ((SCORED, EVALUATIONS), (SCORED_MODEL, MODELS)):
        if key in values and values[key] not in known:
            raise unknown(key, str(values[key]), known)
    scenario = configured.scenario.names()
    scenario |= {key: SPELLING[key](str(values[key])) for key in PLACE if key in values}
    found, search = dict(configured.decisions), dict(configured.search)
    for key, value in values.items():
        if key in PLACE or key not in configured.known or configured.value(key) == value:
            continue
        if key == "data_seed" and not configured.drawn:  # other data have no draw
            continue
        found.pop(key, None)
        search.pop(key, None)
        if isinstance(value, list):
            if not value:
                raise UserError(f"{key} = []: must name at least one value")
            search[key] = value
        else:
            found[key] = Decision(value, why)
    moved = type(configured.scenario)(**scenario)
    said = tuple(
        f"{key} = {scenario[key]}: {why}"
        for key in PLACE
        if scenario[key] != getattr(configured.scenario, key)
    )
    more = (*configured.readings, *said)
    return replace(configured, scenario=moved, decisions=found, search=search, readings=more)


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
    return key in (*SCORING, "data_seed", "partition_seed") or any(
        method in _concerned(row, of) and key in parts(name, one.value)
        for name, of in row.open.items()
        for one in of.values
    )


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
            before = (
                configured.value(key) if key not in PLACE else getattr(configured.scenario, key)
            )
            changed = _with(changed, {key: value}, f"--set; the suite's own choice: {before}")
    needed = dict(changed.decisions)
    with suppress(UserError):  # said when the values are checked
        needed |= {key: Decision(given[key], "--set") for key in undecided(changed) if key in given}
    return replace(changed, decisions=needed)
