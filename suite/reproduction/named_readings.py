"""`suite reproduce --reading`: one of the declared readings, by its number or by what it takes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from suite.reproduction.experiments import PLACE, Experiment
from suite.reproduction.readings import (
    Reading,
    check_open,
    default_reading,
    parts,
    read,
    readings,
)
from suite.studies.validation import Faults
from suite.yaml_files import assigned
from trials.common.errors import UserError, unknown
from trials.run.scenario import SPELLING


def under_reading(rows: Sequence[Experiment], given: Sequence[str]) -> list[Experiment]:
    """The rows under the reading that is given: its number on the page of all readings, where one row is
    meant; or KEY=VALUE of candidates, where KEY is an open setting or what its candidates set. A setting
    that is not named, or is not open in a row, stays as chosen; nothing is the default reading.

    Raises `UserError` for what none of the rows declares.
    """
    if not given:
        return list(rows)
    for row in rows:
        check_open(row)
    if len(given) == 1 and given[0].isdecimal():
        return [_numbered(rows, int(given[0]))]
    faults = Faults("reproduce")
    pairs = [faults.attempt("--reading", text, partial(assigned, text)) for text in given]
    faults.check()
    wanted = dict(pair for pair in pairs if pair is not None)
    _refuse_undeclared(rows, wanted)
    picked = [{**default_reading(row).picks, **_picks(row, wanted)} for row in rows]
    return [read(row, Reading(picks)) for row, picks in zip(rows, picked, strict=True)]


def _numbered(rows: Sequence[Experiment], number: int) -> Experiment:
    """The one row under the reading with this number, counted from 1."""
    if len(rows) != 1:
        example = f", such as {rows[0].path}" if rows else ""
        raise UserError(
            f"--reading {number}: readings are numbered by row, and {len(rows)} rows are selected; "
            f"name one{example}"
        )
    found = readings(rows[0])
    if not 1 <= number <= len(found):
        raise UserError(f"--reading {number}: {rows[0].path} has readings 1 to {len(found)}")
    return read(rows[0], found[number - 1])


def _picks(row: Experiment, wanted: Mapping[str, Any]) -> dict[str, int]:
    """The candidates that are meant, by open setting; raises `UserError` where several may be."""
    found: dict[str, int] = {}
    for name in default_reading(row).picks:
        values = [one.value for one in row.open[name].values]
        about = {
            k: v for k, v in wanted.items() if any(_says(name, value, k, v) for value in values)
        }
        places = [
            place
            for place, value in enumerate(values)
            if all(_says(name, value, key, says) for key, says in about.items())
        ]
        if about and len(places) != 1:
            said = ", ".join(f"{key}={value}" for key, value in about.items())
            raise UserError(
                f"--reading {said}: {len(places) or 'no'} candidates of {name!r} in {row.path} match"
            )
        found |= {name: places[0]} if about else {}
    return found


def _says(name: str, candidate: Any, key: str, value: Any) -> bool:
    """Whether a candidate of the open setting `name` is meant by KEY=VALUE."""
    sets = parts(name, candidate)
    keys = [key] if key in sets else list(sets) if key == name else []
    return any(_spelled(one, sets[one]) == _spelled(one, value) for one in keys)


def _spelled(key: str, value: Any) -> Any:
    """A value as it is compared: names of data sets, models and levels in their canonical spelling."""
    if key in PLACE:
        with suppress(UserError):
            return SPELLING[key](str(value))
    return value


def _refuse_undeclared(rows: Sequence[Experiment], wanted: Mapping[str, Any]) -> None:
    """Refuse a key that no open setting has, and a value that is no candidate of any row."""
    declared = [
        (name, one.value)
        for row in rows
        for name in default_reading(row).picks
        for one in row.open[name].values
    ]
    for key, value in wanted.items():
        if not declared:
            raise UserError(f"--reading {key}={value}: no open setting is declared there")
        if any(_says(name, candidate, key, value) for name, candidate in declared):
            continue
        sets = [
            (name, one, says)
            for name, candidate in declared
            for one, says in parts(name, candidate).items()
        ]
        meant = dict.fromkeys(str(says) for name, one, says in sets if key in (name, one))
        if not meant:
            raise unknown("open setting", key, {k for name, one, _ in sets for k in (name, one)})
        raise UserError(f"--reading {key}={value}: the candidates of {key} are {', '.join(meant)}")
