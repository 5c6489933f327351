"""A sweep as a person asks for it: a study by name or path, what is changed of it, and a place."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.console import say
from suite.studies.study import (
    LISTS,
    Study,
    check_study,
    complete,
    override,
    read_study,
    small,
    study_names,
)
from suite.studies.validation import Faults, check_names
from suite.sweeps.deadline import Deadline
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.result import Result
from suite.sweeps.sweep import Sweep
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.execution.resources import Resources

GROWS = ("algorithms", "datasets", "models", "heterogeneity")
"""What a resumed sweep may have more of, besides what it has a number of."""
COUNTS = ("trials", "seeds", "tunings", "partitions", "splits")
"""The numbers that may be larger in a resumed sweep."""
FREE = ("retries", "pack", "description", "target", "margin")
"""What may be otherwise: no search depends on it, but for a `target` that costs are counted to."""


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
        return self._read(self._changes(self._read))

    def _changes(self, read: Callable[[Mapping[str, Any]], tuple[str, Study]]) -> dict[str, Any]:
        """Return what is changed of the study, which `read` reads."""
        if not self.smoke:
            return dict(self.changes)
        shape = {k: v for k, v in self.changes.items() if k in (*LISTS, "scheduler")}
        return small(read(shape)[1]) | dict(self.changes)

    def _read(self, changes: Mapping[str, Any]) -> tuple[str, Study]:
        begun = resumed_study(self.paths, changes) if self.resume else None
        return begun or self._given(changes)

    def _given(self, changes: Mapping[str, Any]) -> tuple[str, Study]:
        if isinstance(self.study, str):
            return read_study(self.study, changes)
        name = self.paths.name
        return name, check_study(self.study, changes, f"study {name}")

    def open(self, begin: Callable[[Sweep], object] = lambda sweep: None) -> Sweep:
        """Return the sweep, ready to run; raises `UserError` when it cannot be. `begin` as in `Sweep`."""
        name, content = self.read()
        own = self.study if isinstance(self.study, str) else None
        file = None if own in study_names() else own
        return Sweep(name, content, self.paths, self.resume, begin, file)

    def run(self, resources: "Resources", minutes: float | None = None) -> Result:
        """Run it, within so many minutes if they are given, and say what a person should know of it; raises as
        `open` and `Sweep.run` do.
        """
        from suite.execution.cluster import check
        from suite.execution.estimate import Estimates
        from suite.execution.resources import local_slots

        deadline = None if minutes is None else Deadline(minutes, local_slots(resources))

        def begin(sweep: Sweep) -> None:
            Estimates(sweep.study, sweep.data, resources).memory(sweep.entries)
            check(resources)

        sweep = self.open(begin)
        notes = self.differences(sweep.study) if self.resume else []
        for note in [*notes, *sweep.search.warnings]:
            say(note)
        result = sweep.run(resources, deadline)
        for note in sweep.search.unmet:
            say(note)
        return result

    def differences(self, content: Study) -> list[str]:
        """Say where the study of a resumed sweep is not what its file and the options have now, which it does
        not go by.
        """
        with suppress(UserError):  # the file may be gone
            mine, there = flat(content), flat(self._given(self._changes(self._given))[1])
            where = self.study if isinstance(self.study, str) else "the study given"
            return [
                f"{key} is {mine[key]}, not {there[key]} as in {where}: options extend a sweep."
                for key in mine
                if mine[key] != there[key]
            ]
        return []


def usual_name(study: str | Path, smoke: bool) -> str:
    """Return the name of a sweep that is given none: that of its study, so that a smoke test leaves it free."""
    path = Path(os.path.abspath(study))  # `.` and `..` have no name of their own
    return path.stem + "-smoke" * smoke


def flat(study: Study) -> dict[str, Any]:
    """Return a study's keys, those of its settings among them, with their values."""
    keys = complete(study)
    settings = keys.pop("settings")
    return {**keys, **settings}


def resumed_study(paths: SweepPaths, overrides: Mapping[str, Any]) -> tuple[str, Study] | None:
    """Return the study that a sweep was begun with, and what the command line adds; None when there is no
    such sweep. Raises `UserError` when it asks for less, or for something else.
    """
    begun = paths.last_begun()
    if begun is None:
        return None
    before = begun.study
    after = override(before, overrides)
    faults = Faults(f"sweep {paths.name}")
    faults.validate(Study, after)
    check_names(faults, after)
    faults.check()
    # What is added comes after what there was: of the levels the first one publishes.
    for key in GROWS:
        kept = [name for name in before[key] if name in after[key]]
        after[key] = kept + [name for name in after[key] if name not in before[key]]
    study = Study.model_validate(after)
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
    """Yield each changed key with its new and old value; of a mapping only the keys of it that changed."""
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        yield key, new, old
        return
    for name in dict.fromkeys([*new, *old]):
        if new.get(name) != old.get(name):
            yield f"{key}.{name}", new.get(name), old.get(name)
