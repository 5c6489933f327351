"""What `suite reproduce --readings` says: rows with all their readings, and an answer on each claim."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from reports.claims.chances import chances
from reports.claims.fit import ANSWERS, NONE_FITS, RULES, Answer, Numbers, answer, effects, misfit
from reports.claims.verdicts import NOT_RUN, printed
from suite.reproduction.experiments import Experiment, own_methods
from suite.reproduction.fit_rows import FitRow, TriedReading, of_methods
from suite.reproduction.fit_tables import TableRates
from suite.reproduction.paper import Paper
from suite.reproduction.readings import default_reading
from suite.reproduction.reproduce import statements_of


@dataclass(frozen=True)
class Judged:
    """A statement, or a printed number of the paper's own method, and the answer on it."""

    says: str
    metric: str
    method: str | None
    published: str | None
    answer: Answer


@dataclass(frozen=True)
class Fitted:
    """A row of the report."""

    table: str
    row: str
    source: str
    about: str
    dataset: str | None
    model: str | None
    heterogeneity: str | None
    open: list[dict[str, Any]]
    readings: list[dict[str, Any]]
    screened: int
    fitting: list[int]
    best: int | None
    decides: dict[str, float]
    judged: list[Judged]
    seeds: int
    seconds: float
    note: str


@dataclass(frozen=True)
class Fit:
    """What `suite reproduce --readings` found; `document` is its JSON."""

    paper: str
    cites: str
    command: str
    tables: list[TableRates]
    rows: list[Fitted]
    failed: int
    interrupted: bool

    def document(self) -> dict[str, Any]:
        """Plain data."""
        given = Counter(j.answer.verdict for row in self.rows for j in row.judged)
        return {
            "paper": self.paper,
            "cites": self.cites,
            "command": self.command,
            "protocol": "the paper's, under every reading of what it leaves open; fitted on the baselines",
            "verdicts": {word: given[word] for word in ANSWERS},
            "rules": list(RULES),
            "tables": [asdict(table) for table in self.tables],
            "rows": [asdict(row) for row in self.rows],
            "runs_failed": self.failed,
        }


def fitted_row(paper: Paper, table: str, row: str, fitted: FitRow | None, why_not: str) -> Fitted:
    """A row of the report; `fitted` is None for one that was not run, and `why_not` says why."""
    content, at = paper.tables[table], paper.tables[table].rows[row]
    facts = (table, row, content.source, content.about)
    own = own_methods(paper, table)
    if fitted is None:
        judged = _judged(paper, table, row, None, own)
        scenario = (at.dataset, at.model, at.heterogeneity)
        return Fitted(*facts, *scenario, [], [], 0, [], None, {}, judged, 0, 0.0, why_not)
    tried = fitted.tried
    screened = [
        (fitted.readings[i].picks, misfit(t.screened)) for i, t in enumerate(tried) if t.screened
    ]
    ranked = fitted.told
    left = len(tried) - len(screened)
    return Fitted(
        *facts,
        *next(iter(fitted.made.methods.values())).scenario,
        _open(fitted.made),
        [_told(t) for t in ranked],
        len(screened),
        [tried[i].number for i in fitted.fitting],
        ranked[0].number if ranked else None,
        effects(screened),
        _judged(paper, table, row, fitted, own),
        fitted.effort.seeds,
        round(fitted.seconds, 1),
        f"{left} of {len(tried)} readings were not screened" if left else "",
    )


def _told(tried: TriedReading) -> dict[str, Any]:
    """A reading of the report; what one seed said is left out where all say it."""
    screened = [] if tried.compared else tried.screened
    facts = asdict(replace(tried, screened=screened, samples=[]))
    facts.pop("samples")
    return {**facts, "misfit": tried.misfit}


def _open(made: Experiment) -> list[dict[str, Any]]:
    """The open settings of a row with their candidates."""
    default = default_reading(made)
    return [
        {
            "name": name,
            "of": made.open[name].of,
            "values": [
                {**one._asdict(), "default": i == pick}
                for i, one in enumerate(made.open[name].values)
            ],
        }
        for name, pick in default.picks.items()
    ]


def _judged(
    paper: Paper, table: str, row: str, fitted: FitRow | None, own: Iterable[str]
) -> list[Judged]:
    """Every statement about the row and every number of the paper's own methods, answered."""
    content = paper.tables[table]
    said = [(c.says, c.metric or "", None, None) for c in statements_of(content)]
    numbers = [
        (f"{method}: {name} = {printed(number)}", name, method, str(printed(number)))
        for name, method, number in _own_numbers(content.rows[row].numbers, own)
    ]
    places: list[tuple[str, str, str | None, str | None]] = [*said, *numbers]
    unknown = Answer(NOT_RUN, None, 0, {})
    if fitted is None:
        return [Judged(*at, unknown) for at in places]
    fitting = [(fitted.tried[i], fitted.readings[i].picks) for i in fitted.fitting]
    if not fitting and any(t.compared for t in fitted.tried):
        words = [c.of is not None for c in statements_of(content)] + [True] * len(numbers)
        none_fits = Answer(NONE_FITS, None, 0, {})
        return [
            Judged(*at, none_fits if w else unknown) for at, w in zip(places, words, strict=True)
        ]
    weights = {t.number: t.weight for t, _ in fitting}
    picks = {t.number: found for t, found in fitting}
    found = []
    for place, at in enumerate(places):
        samples = {t.number: s for t, _ in fitting if t.samples and (s := t.samples[place])}
        agrees = chances(samples, content.runs if at[2] else math.inf)
        found.append(Judged(*at, answer(agrees, weights, picks, unknown, at[2] is None)))
    return found


def _own_numbers(numbers: Numbers, own: Iterable[str]) -> list[tuple[str, str, Any]]:
    """(metric, method, number) of the paper's own methods, in the order in which they are judged."""
    mine = of_methods(numbers, own)
    return [(name, method, n) for name, column in mine.items() for method, n in column.items()]
