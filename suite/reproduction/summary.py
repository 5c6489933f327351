"""`suite reproduce --summary`: how much of the papers was run and what came out, from documents in a folder."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reports.claims.metrics import metric
from reports.claims.verdicts import NOT_RUN
from suite.reproduction import costs as calibration
from suite.reproduction.documents import documents, nothing
from suite.reproduction.experiments import experiment, paper_names, read_paper, reason_not_run
from suite.reproduction.paper import Paper
from suite.reproduction.plan import Effort, plan_of, runs_left, what_is_missing
from trials.errors import UserError

SEEDS, MINUTES = 3, 60.0
"""A number is feasible when its row takes no longer with so many seeds on this machine."""

Address = tuple[str, str, str, str]
"""Table, row, metric and method of a printed number."""


@dataclass
class Covered:
    """A paper: how many numbers it prints, could be run here and have a verdict; and its statements."""

    name: str
    paper: str
    numbers: int = 0
    feasible: int = 0
    judged: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)
    dots: list[dict[str, Any]] = field(default_factory=list)


def summary(folder: Path, storage: Path, data_root: str | None) -> list[Covered]:
    """All papers, by the documents of `suite reproduce --output` that lie in a folder."""
    written = [document for document in documents(folder) if _sound(document)]
    if not written:
        raise nothing(folder)
    costs = calibration.Costs(storage)
    found = []
    for name in paper_names():
        paper = read_paper(name)
        covered = Covered(name, paper.paper)
        feasible = _feasible(paper, name, costs, data_root)
        covered.numbers = sum(1 for _ in _numbers(paper))
        covered.feasible = len(feasible)
        mine = [d for d in written if d["paper"] == paper.paper]
        numbers = {address: one for document in mine for address, one in _judged(document)}
        covered.judged = len(numbers)
        covered.verdicts = dict(Counter(one["verdict"] for one in numbers.values()))
        covered.dots = [_dot(address, numbers[address]) for address in numbers]
        covered.claims = _claims(mine)
        found.append(covered)
    return found


def document(found: Iterable[Covered]) -> dict[str, Any]:
    """Plain data."""
    papers = [asdict(one) for one in found]
    total = {key: sum(p[key] for p in papers) for key in ("numbers", "feasible", "judged")}
    return {"seeds": SEEDS, "minutes": MINUTES, "total": total, "papers": papers}


def _sound(document: Mapping[str, Any]) -> bool:
    """Whether a document is as it was written, as far as it is read here."""
    try:
        for address, one in dict(_judged(document)).items():
            hash(_dot(address, one)["verdict"])
        return isinstance(document["paper"], str) and _claims([document]) is not None
    except (AttributeError, KeyError, TypeError):
        return False


def _judged(document: Mapping[str, Any]) -> Iterable[tuple[Address, Mapping[str, Any]]]:
    """The numbers that have a verdict; a fit of readings has none."""
    for row in document["rows"] if "made_with" in document else ():
        for one in row["numbers"]:
            if one["verdict"] != NOT_RUN:
                yield (row["table"], row["row"], one["metric"], one["method"]), one


def _numbers(paper: Paper) -> Iterable[Address]:
    for table, content in paper.tables.items():
        for row, at in content.rows.items():
            for name, column in at.numbers.items():
                yield from ((table, row, name, method) for method in column)


def _feasible(
    paper: Paper, name: str, costs: calibration.Costs, data_root: str | None
) -> set[Address]:
    """The printed numbers whose metric is measured and whose row can be run here in `MINUTES`."""
    rows = {}
    for table, content in paper.tables.items():
        for row in content.rows:
            made = experiment(paper, name, table, row)
            if (
                made is None
                or reason_not_run(paper, table, row)
                or what_is_missing(made, data_root)
            ):
                continue
            plan = plan_of(paper, made, Effort(SEEDS))
            rows[table, row] = costs.minutes(paper, made, runs_left(plan, {}), plan.rounds)
    return {
        address
        for address in _numbers(paper)
        if rows.get(address[:2], MINUTES + 1) <= MINUTES and _measured(address[2])
    }


def _measured(name: str) -> bool:
    try:
        metric(name)
    except UserError:
        return False
    return True


def _dot(address: Address, one: Mapping[str, Any]) -> dict[str, Any]:
    """A printed number beside the measured one, for a figure."""
    keys = dict(zip(("table", "row", "metric", "method"), address, strict=True))
    facts = ("published", "measured", "unit", "verdict", "reached_share")
    return {**keys, **{fact: one[fact] for fact in facts}}


def _claims(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The statements that have a verdict: under all readings where they were fitted, else under one."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for document in sorted(documents, key=lambda d: "made_with" not in d):
        fitted = "made_with" not in document
        for row in document["rows"]:
            for one in row["judged"] if fitted else row["claims"]:
                given = one["answer"] if fitted else one
                if given["verdict"] == NOT_RUN or (fitted and one["method"] is not None):
                    continue
                found[row["table"], row["row"], one["says"]] = {
                    "table": row["table"],
                    "row": row["row"],
                    "says": one["says"],
                    "verdict": given["verdict"],
                    "decided_by": list(given["decided_by"])[:1] if fitted else [],
                    "readings": given["of"] if fitted else 1,
                }
    return list(found.values())
