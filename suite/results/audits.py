"""The audit of a leaderboard's rows, from the trials of their searches, and the commands that mend what it finds."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reports.leaderboard.audit import (
    PER_HYPERPARAMETER,
    Audit,
    Mend,
    Tried,
    audit,
    combined,
    findings,
    wider,
)
from reports.leaderboard.board import Leaderboard, Row
from suite.results.final_runs import number
from suite.results.table import TableFacts
from suite.results.tables import KEYS, Tables, each
from suite.studies.study import LISTS, OPTIONS, Study, read_study, study_names
from trials.algorithm import Range
from trials.common.errors import UserError
from trials.scoring.metrics import TASKS
from trials.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

PARTS = {"description", "settings", "search", "constraints", "confirm"}
"""The keys of a study that hold further keys, and the one that changes nothing."""
Spans = dict[str, tuple[float, float]]
"""The ends of ranges, by what `--set search.NAME` calls them."""


def audited(board: Leaderboard, tables: Tables, finals: "pd.DataFrame") -> Leaderboard:
    """Return the leaderboard with an audit of each row whose search is in the tables; `finals` are the final runs of its rows."""
    spaces = {(row.sweep, row.entry_id): row.entry.space for row in each(tables.entries)}
    ran = dict(iter(finals.groupby(KEYS)))
    audits: dict[str, dict[str, Audit]] = {}
    for row in board.rows:
        key = row.sweep, row.entry_id
        searches = tables.searches.get(key)
        facts = combined([]) if searches is None else _audit(searches, ran[key], spaces[key])
        audits.setdefault(row.sweep, {})[row.entry_id] = facts
    mends = {
        sweep: remedy(tables.facts[sweep], own, tables.options) for sweep, own in audits.items()
    }

    def with_audit(row: Row) -> Row:
        facts = audits[row.sweep][row.entry_id]
        if not facts.trials:
            return replace(row, audit=None)
        return replace(row, audit=replace(facts, findings=findings(facts, mends[row.sweep])))

    return replace(board, rows=tuple(map(with_audit, board.rows)))


def _audit(trials: "pd.DataFrame", finals: "pd.DataFrame", space: Mapping[str, Range]) -> Audit:
    """Return the facts of an entry's searches, each of whose winners ran again in some of `finals`."""
    sign, audits = TASKS[finals["metric"].iloc[0]].sign, []
    for replicate, searched in trials[trials["kind"] == "search"].groupby("replicate"):
        columns = (searched[name] for name in ("number", "status", "val_score"))
        tried = [
            Tried(int(index), status, number(score))
            for index, status, score in zip(*columns, strict=True)
        ]
        ran = finals[finals["replicate"] == replicate]
        winner = int(ran["number"].iloc[0]) if len(ran) else None
        params = json.loads(ran["params"].iloc[0]) if len(ran) else {}
        audits.append(audit(tried, winner, params, space, [*ran["val_score"].dropna()], sign))
    return combined(audits)


def remedy(sweep: TableFacts, audits: Mapping[str, Audit], options: Sequence[str]) -> Mend:
    """Return the commands for a sweep whose entries have these audits: one that doubles the trials or gives the largest space enough,
    one that moves out every end that a winner is at.
    """
    named = sweep.study_name if sweep.study_name in study_names() else f"{sweep.study_name}.yaml"
    begin = ["suite", "sweep", sweep.study_file or named]
    own_name = ["--name", sweep.name] if sweep.name != sweep.study_name else []
    sizes = (PER_HYPERPARAMETER * (facts.hyperparameters or 0) for facts in audits.values())
    trials = max(2 * sweep.study["trials"], *sizes)
    more = [*begin, *own_name, "--resume", "--trials", str(trials), *options]
    changed, spans = _changed(sweep)
    spans |= _wider(sweep, audits)
    for key, (low, high) in spans.items():
        changed += ["--set", f"search.{key}={low:g}..{high:g}"]
    wide = [*begin, "--name", f"{sweep.name}-wider", *changed, *options]
    return Mend(shlex.join(more), shlex.join(wide))


def _wider(sweep: TableFacts, audits: Mapping[str, Audit]) -> Spans:
    """Return the ranges with every open end moved out that a winner is at. The learning rate is one range for all,
    but for a method that has its own in the study.
    """
    spans: Spans = {}
    entries = {entry.id: entry for entry in sweep.entries}
    for entry_id, facts in audits.items():
        entry = entries[entry_id]
        for edge in facts.edges or ():
            if not edge.closed:
                key = f"{entry.algorithm}.{edge.name}"
                if edge.name == "lr" and key not in sweep.study.get("search", {}):
                    key = "lr"
                low, high = wider(edge, entry.space[edge.name])
                before = spans.get(key, (low, high))
                spans[key] = min(low, before[0]), max(high, before[1])
    return spans


def _changed(sweep: TableFacts) -> tuple[list[str], Spans]:
    """Return the options and ranges by which a sweep was not as its shipped study; of a study that is not shipped
    none is known, since its file may have said so.
    """
    if sweep.study_file is not None or sweep.study_name not in study_names():
        return [], {}
    options: list[str] = []
    try:
        study = read_study(sweep.study_name, {})[1]
    except UserError:  # it leaves the data sets to who runs it
        study = read_study(sweep.study_name, {"datasets": sweep.study["datasets"]})[1]
        options += ["--datasets", ",".join(sweep.study["datasets"])]
    shipped = study.model_dump(mode="json")
    for key, field in (Study.model_fields | Settings.model_fields).items():
        part = "settings" if key in Settings.model_fields else None
        mine, theirs = (
            (content.get(part, {}) if part else content).get(key, field.default)
            for content in (sweep.study, shipped)
        )
        if key not in PARTS and mine != theirs:
            text = ",".join(mine) if key in LISTS else json.dumps(mine).strip('"')
            options += [f"--{key}", text] if key in OPTIONS else ["--set", f"{key}={text}"]
    spans, before = (_spans(content.get("search", {})) for content in (sweep.study, shipped))
    return options, {key: span for key, span in spans.items() if span != before.get(key)}


def _spans(search: Mapping[str, Any]) -> Spans:
    """Return the ends of the ranges that a study gives, but for those that it leaves to the algorithm."""
    ends = {key: (spec.get("low"), spec.get("high")) for key, spec in search.items()}
    return {key: (low, high) for key, (low, high) in ends.items() if None not in (low, high)}
