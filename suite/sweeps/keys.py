"""What a person changes of a study, by the keys that `--set` and `suite.sweep` take."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from suite.execution.resources import Resources
from suite.studies.study import LISTS, Study
from suite.studies.validation import Faults
from trials import algorithms
from trials.common.errors import UserError, unknown
from trials.common.names import number, split_top
from trials.settings import Settings

PARTS = ("settings", "search", "constraints", "confirm")
"""The keys of a study whose own keys are replaced one by one."""
CHECKPOINTS = "checkpoints"
RANGE = "must be LOW..HIGH, as in search.lr=0.001..10; [A, B] for choices; or a range as a study writes it"


class Changes(NamedTuple):
    """What is changed of a study, by key (`settings.rounds` is one inside another); what its trials get, and
    where their checkpoints go, if not below the storage.
    """

    study: dict[str, Any]
    resources: Resources
    checkpoints: str | None


def changes(given: Mapping[str, Any], address: str | None = None) -> Changes:
    """Return what a person's keys change: those of a study, of its settings by their bare names (`rounds`), of
    its parts (`search.lr`), and of `Resources`. A list may be a text with commas, a range `LOW..HIGH`.

    Raises one `UserError` with every key that is none.
    """
    rest = dict(_single(given))
    checkpoints = rest.pop(CHECKPOINTS, None)
    resources = Resources.taken(rest, address)
    faults = Faults("sweep")
    study: dict[str, Any] = {}
    for key, value in rest.items():
        if key in Settings.model_fields:
            study[f"settings.{key}"] = value
        elif key.startswith("search."):
            study[key] = faults.attempt(key, value, partial(_range, value))
        elif key in Study.model_fields or key.partition(".")[0] in PARTS:
            listed = key in LISTS and isinstance(value, str)
            study[key] = split_top(value, ",") if listed else value
        else:
            faults.add(key, value, _nearest(key))
    faults.check()
    return Changes(study, resources, checkpoints)


def _single(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys one by one: of a mapping only the keys that it has are replaced."""
    for key, value in given.items():
        if isinstance(value, Mapping) and key in PARTS:
            yield from ((f"{key}.{inner}", each) for inner, each in value.items())
        else:
            yield key, list(value) if isinstance(value, tuple) else value


def _range(value: Any) -> Any:
    """Return a range as a study writes it."""
    if isinstance(value, list):
        return {"choices": value, "datasets": {}}
    if isinstance(value, Mapping):
        return value
    low, _, high = str(value).partition("..")
    try:
        return {"low": number(float, low), "high": number(float, high), "datasets": {}}
    except ValueError:
        raise UserError(RANGE) from None


def _nearest(key: str) -> str:
    """Say of a key that is none which one may be meant."""
    owner, _, name = key.rpartition(".")
    searched = {name for cls in algorithms.known().values() for name in cls.ranges()}
    if name in searched and (not owner or owner in algorithms.known()):
        return f"is searched; a range for it is given as search.{key}=LOW..HIGH"
    places = Resources.model_fields
    return str(
        unknown("key", key, [*Study.model_fields, *Settings.model_fields, *places, CHECKPOINTS])
    )
