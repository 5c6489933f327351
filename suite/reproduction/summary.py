"""`suite reproduce --summary`: how much of the papers was run and what came out, from documents in a folder."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from reports.claims.metrics import metric
from reports.claims.verdicts import NOT_RUN, printed
from suite.reproduction import costs as calibration
from suite.reproduction.documents import documents
from suite.reproduction.experiments import experiment, paper_names, read_paper, reason_not_run
from suite.reproduction.paper import Paper, PaperClaim
from suite.reproduction.plan import what_is_missing
from trials.common.errors import UserError

SEEDS, MINUTES = 3, 60.0
"""What is feasible takes no longer than so many minutes a row, with so many seeds, on this machine."""

NOT_YET, TOO_LONG, UNMEASURED, WORDS_ONLY = (
    "not run yet",
    "takes more than an hour",
    "the suite does not measure it",
    "not put into numbers",
)
"""Why something has no verdict, besides missing data and what a paper's file says."""

Address = tuple[str, ...]
"""Table, row, metric and method of a printed number; table, row and words of a statement."""


@dataclass
class Counts:
    """Of numbers or statements: how many are printed, feasible, and have a verdict; `few_seeds`: of those
    with a verdict, from fewer than `SEEDS` seeds. What has a verdict is feasible.
    """

    printed: int = 0
    feasible: int = 0
    judged: int = 0
    few_seeds: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Self) -> Self:
        """The counts of both."""
        return type(self)(
            self.printed + other.printed,
            self.feasible + other.feasible,
            self.judged + other.judged,
            self.few_seeds + other.few_seeds,
            dict(Counter(self.verdicts) + Counter(other.verdicts)),
        )


@dataclass
class Covered:
    """A paper: what of it has a verdict, `left`: what has none, with the reason and the cost in minutes
    by table, and the pages that tell of it.
    """

    name: str
    paper: str
    numbers: Counts = field(default_factory=Counts)
    statements: Counts = field(default_factory=Counts)
    left: list[dict[str, Any]] = field(default_factory=list)
    pages: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    dots: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Obstacle:
    """Why a row is not run here, "" where it is feasible, and the minutes that it would take (None: unknown)."""

    reason: str
    minutes: float | None


def summary(folder: Path, storage: Path, data_root: str | None) -> list[Covered]:
    """All papers, by the documents of `suite reproduce --output` that lie in a folder, whatever their names.

    Of several documents on a number or a statement the one under the declared settings counts, else the
    one that was reduced the least, else the one with most seeds. Raises `UserError` where there is no document.
    """
    written = documents(folder)
    costs = calibration.Costs(storage)
    return [_covered(name, written, costs, data_root) for name in paper_names()]


def document(found: Iterable[Covered]) -> dict[str, Any]:
    """Plain data."""
    covered = list(found)
    papers = [{**asdict(one), **_flat(one.numbers, one.statements)} for one in covered]
    kinds = [[one.numbers for one in covered], [one.statements for one in covered]]
    total = _flat(*(sum(counts, Counts()) for counts in kinds))
    return {"seeds": SEEDS, "minutes": MINUTES, "total": total, "papers": papers}


def _flat(numbers: Counts, statements: Counts) -> dict[str, Any]:
    """Both counts; those of numbers beside each other, and the printed ones as `numbers`."""
    counted = asdict(numbers)
    return {"numbers": counted.pop("printed"), **counted, "statements": asdict(statements)}


def _covered(
    name: str,
    written: Mapping[str, Mapping[str, Any]],
    costs: calibration.Costs,
    data_root: str | None,
) -> Covered:
    paper = read_paper(name)
    mine = {file: d for file, d in written.items() if d["paper"] == paper.paper}
    covered = Covered(name, paper.paper, pages=[_page(file, d) for file, d in mine.items()])
    obstacles = _obstacles(paper, name, costs, data_root)
    rows = sorted(
        ((d, row) for d in mine.values() for row in d["rows"]), key=lambda pair: _rank(*pair)
    )
    by_rank = [row for _, row in rows]
    numbers, statements = _judged_numbers(by_rank), _judged_statements(by_rank)
    reasons: dict[str, dict[Address, str]] = {
        "numbers": {
            number: obstacles[number[:2]].reason or ("" if _measured(number[2]) else UNMEASURED)
            for number in _numbers(paper)
        },
        "statements": {
            statement: obstacles[statement[:2]].reason or _wordless(claim)
            for statement, claim in _statements(paper)
        },
    }
    covered.numbers = _counts(reasons["numbers"], numbers)
    covered.statements = _counts(reasons["statements"], statements)
    covered.left = _left(reasons, {**numbers, **statements}, obstacles)
    covered.dots = [_dot(at, one) for at, one in numbers.items() if at in reasons["numbers"]]
    covered.claims = [one for at, one in statements.items() if at in reasons["statements"]]
    return covered


def _page(file: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """A document's name, what it is on, and how it was made."""
    seeds = sorted({row["seeds"] for row in content["rows"] if row["seeds"]})
    places = [f"{row['table']}/{row['row']}" for row in content["rows"]]
    return {
        "document": file,
        "command": content["command"],
        "on": places[0] if len(places) == 1 else f"{len(places)} rows",
        "seeds": seeds,
        "verdicts": content["verdicts"],
    }


def _rank(content: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[bool, bool, int]:
    """The greater, the more a document's row counts."""
    return "--set " not in content["command"], not row.get("reduced"), row["seeds"]


def _judged_numbers(rows: Iterable[Mapping[str, Any]]) -> dict[Address, Mapping[str, Any]]:
    """The printed numbers that have a verdict; of several, the last row's."""
    return {
        (row["table"], row["row"], one["metric"], one["method"]): one
        for row in rows
        for one in row["numbers"]
        if one["verdict"] != NOT_RUN
    }


def _judged_statements(rows: Iterable[Mapping[str, Any]]) -> dict[Address, dict[str, Any]]:
    """The statements that have a verdict; of several, the last row's."""
    return {
        (row["table"], row["row"], one["says"]): {
            "table": row["table"],
            "row": row["row"],
            "says": one["says"],
            "verdict": one["verdict"],
            "seeds": row["seeds"],
        }
        for row in rows
        for one in row["claims"]
        if one["verdict"] != NOT_RUN
    }


def _counts(reasons: Mapping[Address, str], judged: Mapping[Address, Mapping[str, Any]]) -> Counts:
    known = {address: one for address, one in judged.items() if address in reasons}
    return Counts(
        len(reasons),
        sum(1 for address, reason in reasons.items() if not reason or address in known),
        len(known),
        sum(1 for one in known.values() if one["seeds"] < SEEDS),
        dict(Counter(one["verdict"] for one in known.values())),
    )


def _numbers(paper: Paper) -> Iterator[tuple[str, str, str, str]]:
    """All printed numbers; one that is printed in two places for the same experiment is one."""
    for table, content in paper.tables.items():
        for row, at in content.rows.items():
            same = paper.same(at)
            for name, column in at.numbers.items():
                known = same[1].numbers.get(name, {}) if same else {}
                yield from (
                    (table, row, name, method)
                    for method, number in column.items()
                    if method not in known or known[method] != number
                )


def _statements(paper: Paper) -> Iterator[tuple[tuple[str, str, str], PaperClaim]]:
    """A table's claims about each of its rows."""
    for table, content in paper.tables.items():
        for row, at in content.rows.items():
            same = paper.same(at)
            known = {claim.says for claim in same[0].claims} if same else set()
            yield from (
                ((table, row, claim.says), claim)
                for claim in content.claims
                if claim.says not in known
            )


def _obstacles(
    paper: Paper, name: str, costs: calibration.Costs, data_root: str | None
) -> dict[Address, Obstacle]:
    """What stands in the way of each row, by (table, row)."""
    found: dict[Address, Obstacle] = {}
    for table, content in paper.tables.items():
        for row in content.rows:
            made = experiment(paper, name, table, row)
            if made is None:
                reason = reason_not_run(paper, table, row) or ""
                found[table, row] = Obstacle(reason, None)
                continue
            runs = {method: SEEDS * len(c.variants) for method, c in made.methods.items()}
            rounds = max(configured.rounds for configured in made.methods.values())
            minutes = costs.minutes(paper, made, runs, rounds)
            long = TOO_LONG if minutes > MINUTES else ""
            found[table, row] = Obstacle(what_is_missing(made, data_root) or long, minutes)
    return found


def _left(
    reasons: Mapping[str, Mapping[Address, str]],
    judged: Mapping[Address, Any],
    obstacles: Mapping[Address, Obstacle],
) -> list[dict[str, Any]]:
    """What has no verdict, by reason and table: the rows, their numbers and statements, and the minutes."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, whys in reasons.items():
        for address, why in whys.items():
            if address in judged:
                continue
            table, row, *_ = address
            entry = found.setdefault(
                (why or NOT_YET, table),
                {"rows": [], "numbers": 0, "statements": 0},
            )
            entry[kind] += 1
            if row not in entry["rows"]:
                entry["rows"].append(row)
    for (_, table), entry in found.items():
        known = [obstacles[table, row].minutes for row in entry["rows"]]
        minutes = [one for one in known if one is not None]
        entry["minutes"] = round(sum(minutes), 1) if minutes else None
    return [{"reason": why, "table": table, **entry} for (why, table), entry in found.items()]


def _measured(name: str) -> bool:
    try:
        metric(name)
    except UserError:
        return False
    return True


def _wordless(claim: PaperClaim) -> str:
    """Why a statement cannot be judged, "" where it can."""
    if claim.of is None or claim.to is None:
        return WORDS_ONLY
    return "" if claim.metric is None or _measured(claim.metric) else UNMEASURED


def _dot(address: Address, one: Mapping[str, Any]) -> dict[str, Any]:
    """A printed number beside the measured one, for a figure; `value` is the printed one as a number."""
    keys = dict(zip(("table", "row", "metric", "method"), address, strict=True))
    facts = ("published", "measured", "unit", "verdict", "reached_share", "seeds")
    relation, _, text = one["published"].rpartition(" ")
    value = None if text == "never" else printed(f"{relation or '~'} {text}").value
    return {**keys, **{fact: one[fact] for fact in facts}, "value": value}
