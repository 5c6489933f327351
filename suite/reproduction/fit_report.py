"""What `suite reproduce --readings` says: rows with all their readings, and an answer on each claim."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

from reports.claims.chances import chances
from reports.claims.fit import ANSWERS, RULES, UNDECIDED, Answer, answer
from reports.claims.verdicts import NOT_RUN
from suite.reproduction.experiments import Experiment
from suite.reproduction.fit_rows import FitRow, TriedReading
from suite.reproduction.fit_tables import TableRates
from suite.reproduction.paper import Paper
from suite.reproduction.readings import default_reading
from suite.reproduction.reproduce import statements_of


@dataclass(frozen=True)
class Judged:
    """A statement and the answer on it."""

    says: str
    metric: str
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
    left: list[int]
    best: int | None
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
            "protocol": "the paper's, under every reading of what it leaves open; held against the baselines",
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
    if fitted is None:
        judged = _judged(paper, table, None)
        scenario = (at.dataset, at.model, at.heterogeneity)
        return Fitted(*facts, *scenario, [], [], 0, [], None, judged, 0, 0.0, why_not)
    tried = fitted.tried
    ranked, screened = fitted.told, sum(bool(t.screened) for t in tried)
    missing = len(tried) - screened
    return Fitted(
        *facts,
        *next(iter(fitted.made.methods.values())).scenario,
        _open(fitted.made),
        [_told(t) for t in ranked],
        screened,
        [tried[i].number for i in fitted.left],
        ranked[0].number if ranked else None,
        _judged(paper, table, fitted),
        fitted.effort.seeds,
        round(fitted.seconds, 1),
        f"{missing} of {len(tried)} readings were not screened" if missing else "",
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


def _judged(paper: Paper, table: str, fitted: FitRow | None) -> list[Judged]:
    """Every statement about the row, answered."""
    said = statements_of(paper.tables[table])
    left = fitted.left if fitted else []
    kept = [fitted.tried[i] for i in left] if fitted else []
    weights = {tried.number: tried.weight for tried in kept}
    none_left = fitted is not None and not left and any(tried.compared for tried in fitted.tried)
    found = []
    for place, claim in enumerate(said):
        unknown = Answer(UNDECIDED if none_left and claim.of is not None else NOT_RUN, 0)
        samples = {t.number: s for t in kept if t.samples and (s := t.samples[place])}
        given = answer(chances(samples), weights, unknown)
        found.append(Judged(claim.says, claim.metric or "", given))
    return found
