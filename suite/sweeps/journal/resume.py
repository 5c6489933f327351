"""The study of a sweep that was begun, and what may be added to it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from suite.studies.entry import Entry
from suite.studies.study import Study, complete, override
from suite.studies.validation import Faults, check_names
from suite.sweeps.journal.events import SweepState
from suite.sweeps.journal.paths import SweepPaths
from trials.common.errors import UserError

GROWS = ("algorithms", "datasets", "models", "heterogeneity")
"""What a resumed sweep may have more of, besides what it has a number of."""
COUNTS = ("trials", "seeds", "tunings", "partitions", "splits")
"""The numbers that may be larger in a resumed sweep."""
FREE = ("retries", "pack", "description", "target", "margin")
"""What may be otherwise: no search depends on it, but for a `target` that costs are counted to."""


def resumed_study(paths: SweepPaths, overrides: Mapping[str, Any]) -> tuple[str, Study] | None:
    """The study that a sweep was begun with, and what the command line adds; None when there is no
    such sweep. Raises `UserError` when it asks for less, or for something else.
    """
    begun = paths.last_begun()
    if begun is None:
        return None
    before: Mapping[str, Any] = begun.study
    after = override(json.loads(json.dumps(before)), overrides)
    faults = Faults(f"sweep {paths.name}")
    faults.validate(Study, after)
    check_names(faults, after)
    faults.check()
    # What is added comes after what there was: of the levels the first one publishes.
    lists = {
        key: [name for name in before[key] if name in after[key]]
        + [name for name in after[key] if name not in before[key]]
        for key in GROWS
    }
    study = Study.model_validate({**after, **lists})
    was, now = complete(Study.model_validate(before)), complete(study)
    free = set(FREE) - ({"target"} if "rounds_to_target" in study.constraints else set())
    for key, new in now.items():
        old = was[key]
        if (key in COUNTS and new < old) or (key in GROWS and not set(old) <= set(new)):
            faults.add(key, new, f"a resumed sweep can only grow; it had {old}")
        elif key not in (*GROWS, *COUNTS, *free) and new != old:
            for name, is_now, before_it in _changed(key, new, old):
                faults.add(
                    name, is_now, f"the sweep was begun with {before_it}; use another --name"
                )
    faults.check()
    return begun.study_name, study


def _changed(key: str, new: Any, old: Any) -> Iterator[tuple[str, Any, Any]]:
    """What of a key is another value; of a mapping only the keys of it that are."""
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        yield key, new, old
        return
    for name in dict.fromkeys([*new, *old]):
        if new.get(name) != old.get(name):
            yield f"{key}.{name}", new.get(name), old.get(name)


def check_entries(journal: Path, state: SweepState, entries: Iterable[Entry]) -> None:
    """Raise `UserError` where the journal has trials of entries that its study does not make."""
    strange = {request.entry_id for request in state.requests} - {entry.id for entry in entries}
    if strange:
        raise UserError(
            f"journal {journal} has trials of {', '.join(sorted(strange))}, which its study "
            "does not ask for: it is damaged, or another sweep's"
        )
