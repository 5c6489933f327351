"""The request for a sweep: a study by name or path, changes to the study, and the folder of the sweep."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from suite.console import say
from suite.execution.resources import Resources, local_slots
from suite.studies.study import LISTS, Study, check_study, read_study, small
from suite.studies.validation import Faults
from suite.sweeps.journal.events import Begun
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.progress import Deadline
from suite.sweeps.sweep import Result, Sweep
from trials.common.errors import UserError, unknown
from trials.common.names import number, split_top
from trials.settings import Settings

GROWS = ("algorithms", "datasets", "models", "heterogeneity")
"""Keys of a study whose lists may get further names when a sweep is resumed."""
COUNTS = ("trials", "seeds", "tunings", "partitions", "splits")
"""Keys of a study whose numbers may increase when a sweep is resumed."""
FREE = ("retries", "pack", "description", "margin", "target")
"""Keys of a study that may change when a sweep is resumed, since they do not affect the search."""
PARTS = ("settings", "search", "constraints", "confirm")
"""Keys of a study that hold mappings, in which changes replace single keys."""


@dataclass(frozen=True)
class SweepRequest:
    """A request for a sweep. `study` is the name of a shipped study, the path of a file, or the content of a study.
    Such content is named after the sweep. `changes` has new values by key, such as `trials` or `settings.rounds`. `smoke`
    reduces the study to a run of seconds.
    """

    study: str | Mapping[str, Any]
    paths: SweepPaths
    changes: Mapping[str, Any] = field(default_factory=dict)
    resume: bool = False
    smoke: bool = False

    def open(self) -> Sweep:
        """Return the sweep, ready to run. Raise `UserError` if the study has faults or the sweep's files cannot be used."""
        state = self.paths.state()
        begun = state.begun if self.resume else None
        name, study = self._read(begun, self.changes)
        if self.smoke:
            name, study = self._read(begun, small(study) | dict(self.changes))
        return Sweep(name, study, self.paths, resume=self.resume, state=state)

    def _read(self, begun: Begun | None, changes: Mapping[str, Any]) -> tuple[str, Study]:
        if begun is not None:
            return begun.study_name, resumed_study(begun.study, changes, f"sweep {self.paths.name}")
        if isinstance(self.study, str):
            return read_study(self.study, changes)
        return self.paths.name, check_study(self.study, changes, f"study {self.paths.name}")

    def run(self, resources: Resources, minutes: float | None = None) -> Result:
        """Run the sweep for at most `minutes`, and return its result. Raise `UserError` if it cannot start, `HaltedError` if a machine fault ends it."""
        from suite.execution.cluster import check

        deadline = None if minutes is None else Deadline(minutes, local_slots(resources))
        sweep = self.open()
        if sweep.state.begun is None:
            sweep.estimates(resources).memory(sweep.entries)
            check(resources)
        result = sweep.run(resources, deadline)
        for note in sweep.search.unmet:
            say(note)
        return result

    def plan(self, resources: Resources, calibrate: bool) -> dict[str, Any]:
        """Return what the sweep would run and need. If `calibrate` is true, measure a few rounds of each entry to estimate the hours."""
        sweep = self.open()
        plan = sweep.estimates(resources).plan(sweep.entries, calibrate)
        return {"study": sweep.study_name, "name": self.paths.name, **plan}


def resumed_study(former: Mapping[str, Any], changes: Mapping[str, Any], source: str) -> Study:
    """Return a resumed sweep's study with changes. Raise `UserError` for a change to the search that is not an extension."""
    before, study = check_study(former, {}, source), check_study(former, changes, source)
    # `model_dump` leaves out `tunings`, `partitions` and `splits` of 1.
    was, now = (dict[str, Any](each) | each.model_dump(mode="json") for each in (before, study))
    faults = Faults(source)
    grown: dict[str, list[str]] = {}
    for key in changes:
        outer, _, inner = key.partition(".")
        old: Any = was.get(outer)
        new: Any = now.get(outer)
        if inner:
            old, new = (old or {}).get(inner), (new or {}).get(inner)
        if (key in COUNTS and new < old) or (key in GROWS and not set(old) <= set(new)):
            faults.add(key, new, f"a resumed sweep can only grow; it had {old}")
        elif key in GROWS:
            # New names come last, since published configurations are tried on the first heterogeneity level only.
            grown[key] = [*old, *(name for name in new if name not in old)]
        elif new != old and key not in (*COUNTS, *FREE):
            faults.add(key, new, f"the sweep was begun with {old}; use another --name")
    faults.check()
    return study.model_copy(update=grown)


def changes(
    values: Mapping[str, Any], address: str | None = None
) -> tuple[dict[str, Any], Resources, str | None]:
    """Split a sweep's options into study changes (by key), resources, and the checkpoint folder. The resources include a
    cluster's `address`. The folder is a path or URI, or None if no option names it.

    An option is a key of the study, a setting such as `rounds`, a key inside another such as `search.lr`, or a field of
    `Resources`. A text with commas stands for a list, and `LOW..HIGH` for a range. Raise one `UserError` for all unknown keys.
    """
    rest: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and key in PARTS:
            # Only the keys in this mapping are replaced.
            rest |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            rest[key] = list(value) if isinstance(value, tuple) else value
    checkpoints = rest.pop("checkpoints", None)
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
            faults.add(key, value, str(unknown("key", key, [*names, "checkpoints"])))
    faults.check()
    return study, resources, checkpoints


def _range(value: Any) -> Any:
    """Convert a range to a study file's form: a list to choices, LOW..HIGH to low and high. Raise `UserError` for other text."""
    if isinstance(value, list):
        return {"choices": value}
    if isinstance(value, Mapping):
        return value
    low, _, high = str(value).partition("..")
    try:
        return {"low": number(float, low), "high": number(float, high)}
    except ValueError:
        form = "must be LOW..HIGH, as in search.lr=0.001..10; [A, B] for choices; or a range as a study writes it"
        raise UserError(form) from None
