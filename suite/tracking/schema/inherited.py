"""Tags that search trials have from their entry: what is the same in all of them is recorded once.

The entry's run has them as one tag, `suite.trials`. A trial's run has the tags that are otherwise with it, and
with an empty text those that it does without; of `spec` the fields that are otherwise.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from suite.tracking.schema.forms import dumps

OF_TRIALS = "trials"
"""The tag of an entry's run that has them."""
ALWAYS = (
    *("kind", "sweep", "entry_id", "algorithm", "dataset", "model", "heterogeneity"),
    *("trial_id", "status", "origin", "params"),
)
"""Tags that every trial's run has itself, since people look for runs by them."""
SPEC = "spec"


def common(tags: Mapping[str, str]) -> dict[str, str]:
    """What of an entry's tags its trials inherit."""
    return {name: text for name, text in tags.items() if name not in ALWAYS}


def own(tags: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
    """What a trial with these tags records itself beside what is `shared`."""
    found = {name: text for name, text in tags.items() if shared.get(name) != text}
    if SPEC in found and SPEC in shared:
        found[SPEC] = dumps(_changed(json.loads(found[SPEC]), json.loads(shared[SPEC])))
    return {**found, **dict.fromkeys(shared.keys() - tags.keys(), "")}


class Inherited(Mapping[str, str]):
    """The tags of a trial: its own, and those `shared` by all of its entry."""

    def __init__(self, own: Mapping[str, str], shared: Mapping[str, str]) -> None:
        self._own, self._shared = own, shared

    def __getitem__(self, name: str) -> str:
        text = self._own.get(name)
        if name not in self._shared:
            return self._own[name]
        if text == "":
            raise KeyError(name)
        if text is None:
            return self._shared[name]
        return _merged(text, self._shared[name]) if name == SPEC else text

    def __iter__(self) -> Iterator[str]:
        yield from (name for name, text in self._own.items() if text or name not in self._shared)
        yield from (name for name in self._shared if name not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def inherits(tags: Mapping[str, str]) -> bool:
    """Whether a run with these tags has others from its entry."""
    return tags.get("kind") in ("search", "running")


def shared_by(text: str) -> dict[str, str]:
    """What an entry's tag says; nothing where it says nothing."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    good = isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
    return found if good else {}


def _changed(spec: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in spec.items() if value != usual[name]}
    if "settings" in found:
        of = usual["settings"]
        found["settings"] = {k: v for k, v in found["settings"].items() if v != of[k]}
    return found


def _merged(text: str, usual: str) -> str:
    """The whole spec; of a text that is damaged itself, which its reader will see."""
    try:
        spec, of = json.loads(text), json.loads(usual)
        return dumps({**of, **spec, "settings": {**of["settings"], **spec.get("settings", {})}})
    except (AttributeError, KeyError, TypeError, ValueError):
        return text
