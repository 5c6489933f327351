"""The trials of a sweep as a table: filtered, sorted and cut into pages here, so that a browser gets a page of any sweep."""

import csv
import io
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from reports.snapshot import Trial
from reports.wording.formats import no_formula

PAGE = 50
"""Rows of a page."""
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_TERM = re.compile(r"([A-Za-z_][\w.]*)(>=|<=|>|<|=)(\S+)")
COLUMNS: dict[str, Callable[[Trial], Any]] = {
    "trial": lambda t: t.number,
    "algorithm": lambda t: t.name,
    "scenario": lambda t: str(t.scenario),
    "kind": lambda t: t.kind,
    "origin": lambda t: t.origin,
    "status": lambda t: t.status,
    "validation": lambda t: t.score,
    "rounds": lambda t: t.rounds,
    "seconds": lambda t: t.seconds,
}
"""The columns before those of the hyperparameters; who filters and sorts names them by these words."""
LOOKS = {"validation": ".4f", "seconds": ".1f"}
NUMBERS = ("validation", "rounds", "seconds")
Value = str | float | int | None


@dataclass(frozen=True)
class Asked:
    """What is asked of the table: words and comparisons (`fedprox lr>0.1`), an entry's id ("": all), the column
    it is sorted by (`-` before it: descending; "": the newest trial first), and the page.
    """

    filter: str = ""
    entry: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Asked":
        """From the parameters of an address; what they do not say is as usual."""
        page = given.get("page", "1")
        number = int(page) if page.isascii() and page.isdigit() else 1
        words = {key: given.get(key, "")[:200] for key in ("filter", "entry", "sort")}
        return cls(**words, page=max(1, min(number, 10**6)))

    def address(self, **changes: Any) -> str:
        """The parameters that ask for the same with changes."""
        usual, own = Asked(), replace(self, **changes)
        return "?" + urlencode({k: v for k, v in vars(own).items() if v != getattr(usual, k)})


def value(trial: Trial, column: str) -> Value:
    """What a trial has in a column, or the value of the hyperparameter of that name."""
    known = COLUMNS.get(column)
    return known(trial) if known else trial.params.get(column)


def chosen(trials: Iterable[Trial], asked: Asked) -> list[Trial]:
    """The trials that pass the filter, in the order that is asked for; those without a value come last."""
    tests = [_test(word) for word in asked.filter.lower().split()]
    found = [
        trial
        for trial in trials
        if asked.entry in ("", trial.entry_id) and all(test(trial) for test in tests)
    ]
    column = asked.sort.removeprefix("-")
    if column:
        down = asked.sort.startswith("-")
        known = {trial.trial_id: value(trial, column) for trial in found}
        given = [trial for trial in found if known[trial.trial_id] is not None]
        given.sort(key=lambda trial: _order(known[trial.trial_id]), reverse=down)
        found = given + [trial for trial in found if known[trial.trial_id] is None]
    return found


def _order(own: Value) -> tuple[bool, float, str]:
    """Where a value stands: numbers before words."""
    number = isinstance(own, int | float)
    return not number, float(own) if isinstance(own, int | float) else 0.0, str(own)


def _test(word: str) -> Callable[[Trial], bool]:
    """Whether a trial passes a word of the filter: a comparison, or a part of what its row says."""
    found = _TERM.fullmatch(word)
    if found is None:
        return lambda trial: word in _text(trial)
    name, sign, limit = found.groups()
    compare = COMPARED[sign]

    def passes(trial: Trial) -> bool:
        named = {key.lower(): own for key, own in trial.params.items()}
        own = COLUMNS[name](trial) if name in COLUMNS else named.get(name)
        if isinstance(own, int | float) and not isinstance(own, bool):
            try:
                return compare(own, float(limit))
            except ValueError:
                return False
        return sign == "=" and str(own).lower() == limit

    return passes


def _text(trial: Trial) -> str:
    names = ("trial", "algorithm", "scenario", "kind", "origin", "status")
    return " ".join(str(COLUMNS[name](trial)) for name in names).lower()


def table(trials: Sequence[Trial], asked: Asked) -> dict[str, Any]:
    """A page of the table, as the template draws it. Of scenarios it shows the parts that differ in the sweep."""
    found = chosen(trials, asked)
    pages = max(1, -(-len(found) // PAGE))
    page = min(asked.page, pages)
    shown = found[(page - 1) * PAGE : page * PAGE]
    columns = [*_differing(found), *hyperparameters(found)]
    parts = [i for i in range(3) if len({trial.scenario[i] for trial in trials}) > 1]

    def shown_in(column: str, trial: Trial) -> str:
        if column == "scenario":
            return " · ".join(trial.scenario[i] for i in parts)
        return text(column, value(trial, column))

    return {
        "asked": asked,
        "all": len(trials),
        "found": len(found),
        "first": (page - 1) * PAGE + 1 if found else 0,
        "last": (page - 1) * PAGE + len(shown),
        "heads": [_head(column, asked) for column in columns],
        "rows": [
            {"trial": trial, "cells": [shown_in(column, trial) for column in columns]}
            for trial in shown
        ],
        "before": asked.address(page=page - 1) if page > 1 else "",
        "after": asked.address(page=page + 1) if page < pages else "",
        "csv": asked.address(page=1),
    }


def _differing(found: Sequence[Trial]) -> list[str]:
    """The columns in which the trials are not all alike; of the words those that say which trial it is."""
    alike = {
        column
        for column in ("algorithm", "scenario", "kind", "origin")
        if len({value(trial, column) for trial in found}) < 2
    }
    return [column for column in COLUMNS if column not in alike]


def hyperparameters(trials: Iterable[Trial]) -> list[str]:
    """The names of the hyperparameters that these trials have."""
    return list(dict.fromkeys(name for trial in trials for name in trial.params))


def _head(column: str, asked: Asked) -> dict[str, Any]:
    """A heading: where it leads sorts by it; numbers fall first, words rise first."""
    now = {column: "ascending", f"-{column}": "descending"}.get(asked.sort, "")
    falls = column not in COLUMNS or column in NUMBERS
    other = {"ascending": f"-{column}", "descending": column}
    way = other.get(now) or (f"-{column}" if falls else column)
    return {"name": column, "now": now, "href": asked.address(sort=way, page=1), "number": falls}


def text(column: str, own: Value) -> str:
    """A value as the table shows it."""
    if own is None:
        return ""
    if isinstance(own, float):
        return format(own, LOOKS.get(column, ".4g"))
    return str(own)


def as_csv(trials: Sequence[Trial]) -> str:
    """The trials with all columns, as CSV: values as they are."""
    names = hyperparameters(trials)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["trial_id", *COLUMNS, "metric", "seed", *names, "reason", "run"])
    for trial in trials:
        own = [value(trial, column) for column in COLUMNS]
        params = [trial.params.get(name) for name in names]
        row = [trial.trial_id, *own, trial.metric, trial.seed, *params, trial.reason, trial.run]
        writer.writerow(map(no_formula, row))
    return out.getvalue()
