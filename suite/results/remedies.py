"""The commands that mend what an audit finds: more trials for a sweep, or wider ranges for a new one."""

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from reports.leaderboard.audit import PER_HYPERPARAMETER, Audit, Mend, wider
from suite.results.table import TableFacts
from suite.studies.study import LISTS, OPTIONS, Study, read_study, study_names
from trials.algorithm import Range
from trials.common.errors import UserError
from trials.settings import Settings

PARTS = {"description", "settings", "search", "constraints", "confirm"}
"""The keys of a study that hold further keys, and the one that changes nothing."""
PLAIN = {
    key: field.default
    for key, field in (Study.model_fields | Settings.model_fields).items()
    if key not in PARTS
}
"""The other keys that `--set` takes, and what each is where nobody says so."""
Searched = Mapping[str, Mapping[str, Range]]
"""The ranges of the algorithms of a sweep."""
Spans = dict[str, tuple[float, float]]
"""The ends of ranges, by what `--set search.NAME` calls them."""


def remedy(
    sweep: TableFacts, facts: Sequence[tuple[str, Audit]], ranges: Searched, options: Sequence[str]
) -> Mend:
    """Return the commands for a sweep whose rows have these facts, each beside its algorithm: one that doubles
    the trials or gives the largest space enough, one that moves out every end that a winner is at.
    """
    begin = ["suite", "sweep", sweep.study_file or _named(sweep.study_name)]
    audits = [audit for _, audit in facts]
    trials = max(
        2 * sweep.study["trials"],
        *(PER_HYPERPARAMETER * (audit.hyperparameters or 0) for audit in audits),
    )
    changed, spans = _changed(sweep)
    own_name = ["--name", sweep.name] if sweep.name != sweep.study_name else []
    more = [*begin, *own_name, "--resume", "--trials", str(trials), *options]
    apart = [*begin, "--name", f"{sweep.name}-wider", *changed]
    own = sweep.study.get("search", {}).keys()
    wide = [*apart, *_options(spans | _wider(facts, ranges, own)), *options]
    return Mend(shlex.join(more), shlex.join(wide))


def _named(study: str) -> str:
    """A study by its name, where that of its file was not recorded."""
    return study if study in study_names() else f"{study}.yaml"


def _options(spans: Spans) -> list[str]:
    """The options that set ranges."""
    given = (f"search.{key}={low:g}..{high:g}" for key, (low, high) in spans.items())
    return [word for span in given for word in ("--set", span)]


def _wider(facts: Sequence[tuple[str, Audit]], ranges: Searched, own: Collection[str]) -> Spans:
    """The ranges with every open end moved out that a winner is at. The learning rate is one range for all,
    but for a method that has its `own` in the study.
    """
    found: Spans = {}
    for algorithm, audit in facts:
        for edge in audit.edges or ():
            if not edge.closed:
                key = f"{algorithm}.{edge.name}"
                if edge.name == "lr" and key not in own:
                    key = "lr"
                low, high = wider(edge, ranges[algorithm][edge.name])
                before = found.get(key, (low, high))
                found[key] = min(low, before[0]), max(high, before[1])
    return found


def _changed(sweep: TableFacts) -> tuple[list[str], Spans]:
    """The options and ranges by which a sweep was not as its shipped study; of a study that is not shipped
    none is known, since its file may have said so.
    """
    content: dict[str, Any] = dict(sweep.study)
    if sweep.study_file is not None:  # whatever its name is
        return [], {}
    with suppress(UserError):
        shipped = read_study(sweep.study_name, {})[1].model_dump(mode="json")
        options = []
        for key, usual in PLAIN.items():  # of what is not written
            mine, there = (
                (of.get("settings", {}) if key in Settings.model_fields else of).get(key, usual)
                for of in (content, shipped)
            )
            if mine != there:
                text = ",".join(mine) if key in LISTS else json.dumps(mine).strip('"')
                options += [f"--{key}", text] if key in OPTIONS else ["--set", f"{key}={text}"]
        in_file = {key: _span(spec) for key, spec in shipped["search"].items()}
        spans = {key: _span(spec) for key, spec in content.get("search", {}).items()}
        return options, {k: v for k, v in spans.items() if v is not None and v != in_file.get(k)}
    return [], {}


def _span(spec: Mapping[str, Any]) -> tuple[float, float] | None:
    """The ends of a range that a study gives; None where it leaves one to the algorithm."""
    low, high = spec.get("low"), spec.get("high")
    return None if low is None or high is None else (low, high)
