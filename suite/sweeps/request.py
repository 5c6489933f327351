"""A sweep as a person asks for it: a study by name or path, what is changed of it, and a place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from suite.console import say
from suite.execution.resources import Resources, local_slots
from suite.studies.study import (
    LISTS,
    Study,
    check_study,
    read_study,
    small,
)
from suite.studies.validation import Faults
from suite.sweeps.journal.events import last_begun
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.progress import Deadline
from suite.sweeps.sweep import Result, Sweep
from trials.common.errors import UserError, unknown
from trials.common.names import number, split_top
from trials.settings import Settings

GROWS = ("algorithms", "datasets", "models", "heterogeneity")
"""What a resumed sweep may have more of, besides what it has a number of."""
COUNTS = ("trials", "seeds", "tunings", "partitions", "splits")
"""The numbers that may be larger in a resumed sweep."""
FREE = ("retries", "pack", "description", "margin", "target")
"""What may be otherwise: no search depends on it."""

PARTS = ("settings", "search", "constraints", "confirm")
"""The keys of a study whose own keys are replaced one by one."""
CHECKPOINTS = "checkpoints"
RANGE = "must be LOW..HIGH, as in search.lr=0.001..10; [A, B] for choices; or a range as a study writes it"


@dataclass(frozen=True)
class SweepRequest:
    """`study` is a shipped study's name, a file's path, or a study's content, which is named as the sweep.
    `changes` replaces keys of the study, `settings.rounds` one inside another. `resume` continues, or
    extends, a sweep that was begun; `smoke` makes it a matter of seconds.
    """

    study: str | Mapping[str, Any]
    paths: SweepPaths
    changes: Mapping[str, Any] = field(default_factory=dict)
    resume: bool = False
    smoke: bool = False

    def read(self) -> tuple[str, Study]:
        """Return the study's name and content; raises `UserError` with every fault of its form."""
        if not self.smoke:
            return self._changed(self.changes)
        shape = {k: v for k, v in self.changes.items() if k in (*LISTS, "scheduler")}
        return self._changed(small(self._changed(shape)[1]) | dict(self.changes))

    def _changed(self, changes: Mapping[str, Any]) -> tuple[str, Study]:
        if self.resume and self.paths.begun:
            return resumed_study(self.paths, changes)
        if isinstance(self.study, str):
            return read_study(self.study, changes)
        name = self.paths.name
        return name, check_study(self.study, changes, f"study {name}")

    def open(self) -> Sweep:
        """Return the sweep, ready to run; raises `UserError` when it cannot be."""
        name, content = self.read()
        return Sweep(name, content, self.paths, resume=self.resume)

    def run(self, resources: Resources, minutes: float | None = None) -> Result:
        """Run it, within so many minutes if they are given, and say what a person should know of it; raises as
        `open` and `Sweep.run` do.
        """
        from suite.execution.cluster import check
        from suite.execution.estimate import Estimates

        deadline = None if minutes is None else Deadline(minutes, local_slots(resources))
        sweep = self.open()
        if not self.paths.begun:
            sweep.load()
            Estimates(sweep.study, sweep.data, resources).memory(sweep.entries)
            check(resources)
        result = sweep.run(resources, deadline)
        for note in sweep.search.unmet:
            say(note)
        return result

    def plan(self, resources: Resources, calibrate: bool) -> dict[str, Any]:
        """Return what the sweep would do and take, after every check that comes before its start; with the hours, which a few
        rounds of each entry `calibrate`. Raises as `open` does.
        """
        from suite.execution.estimate import Estimates

        sweep = self.open()
        sweep.load()
        plan = Estimates(sweep.study, sweep.data, resources).plan(sweep.entries, calibrate)
        return {"study": sweep.study_name, "name": self.paths.name, **plan}


def resumed_study(paths: SweepPaths, overrides: Mapping[str, Any]) -> tuple[str, Study]:
    """Return the study that a sweep was begun with, and what the command line adds. Raises `UserError` when it asks for less,
    or for something else.
    """
    begun, source = last_begun(paths.journal), f"sweep {paths.name}"
    after = check_study(begun.study, overrides, source)
    # What is added comes after what there was: of the levels the first one publishes.
    order = {}
    for key in GROWS:
        before, wanted = begun.study[key], getattr(after, key)
        kept = [name for name in before if name in wanted]
        order[key] = kept + [name for name in wanted if name not in before]
    study, faults = after.model_copy(update=order), Faults(source)
    was, now = _flat(check_study(begun.study, {}, source)), _flat(study)
    for key in dict.fromkeys([*now, *was]):
        new: Any = now.get(key)
        old: Any = was.get(key)
        if (key in COUNTS and new < old) or (key in GROWS and not set(old) <= set(new)):
            faults.add(key, new, f"a resumed sweep can only grow; it had {old}")
        elif new != old and key not in (*GROWS, *COUNTS, *FREE):
            faults.add(key, new, f"the sweep was begun with {old}; use another --name")
    faults.check()
    return begun.study_name, study


def _flat(study: Study) -> dict[str, Any]:
    """Return the keys of a study with their values; a key inside another is `settings.rounds`."""
    flat: dict[str, Any] = {}
    every = dict(study) | study.model_dump(mode="json")  # which leaves out factors of one level
    for key, value in every.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            flat[key] = value
    return flat


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
    rest: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, Mapping) and key in PARTS:
            # Of these only the keys that are given are replaced.
            rest |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            rest[key] = list(value) if isinstance(value, tuple) else value
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
            names = [*Study.model_fields, *Settings.model_fields, *Resources.model_fields]
            faults.add(key, value, str(unknown("key", key, [*names, CHECKPOINTS])))
    faults.check()
    return Changes(study, resources, checkpoints)


def _range(value: Any) -> Any:
    """Return a range as a study writes it."""
    if isinstance(value, list):
        return {"choices": value}
    if isinstance(value, Mapping):
        return value
    low, _, high = str(value).partition("..")
    try:
        return {"low": number(float, low), "high": number(float, high)}
    except ValueError:
        raise UserError(RANGE) from None
