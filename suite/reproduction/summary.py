"""`suite reproduce --summary`: how much of the papers was run and what came out, from the documents in a folder."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from reports.claims.judged import UNMEASURED, Claim, JudgedRow, Number, Reproduction
from reports.claims.page import PaperSummary
from reports.claims.verdicts import NOT_RUN, metric_or_none
from suite.console import say
from suite.reproduction.experiments import Paper, paper_names, read_paper
from trials.common.errors import UserError
from trials.common.files import plain

COMMAND = '"command": "suite reproduce '
"""What all documents of `suite reproduce --output` hold."""

Address = tuple[str, ...]
"""Table, row, metric and method of a printed number; table, row and words of a statement."""


def read_documents(folder: Path) -> dict[str, Reproduction]:
    """Read what `suite reproduce` wrote in a folder, by file; what of it is damaged is said and passed over. Raises `UserError`
    where there is nothing.
    """
    documents = {}
    for path in sorted(folder.glob("*.json")):
        content = plain(path, "document").read_bytes()
        if COMMAND.encode() in content:
            try:
                documents[path.name] = Reproduction.model_validate_json(content)
            except ValidationError as error:
                say(f"{path} is skipped: {str(error).splitlines()[1]} is damaged")
    if not documents:
        raise UserError(f"{folder}: it has no documents of suite reproduce --output")
    return documents


def summary(folder: Path, path: str | None = None) -> list[PaperSummary]:
    """Summarise a paper, by its name or its file, or all that are shipped, by the documents that lie in a folder. Raises
    `UserError` where there is none.

    Of several documents on a number or a statement the one under the declared settings counts, else the
    one that was reduced the least, else the one with most seeds.
    """
    documents = read_documents(folder)
    names = [path] if path else paper_names()
    return [_summarised(read_paper(name), documents) for name in names]


def _summarised(paper: Paper, written: Mapping[str, Reproduction]) -> PaperSummary:
    own = {file: content for file, content in written.items() if content.paper == paper.paper}
    ranked: list[tuple[tuple[bool, bool, int], JudgedRow]] = []
    for content in own.values():
        declared = "--set " not in content.command
        ranked += [((declared, not row.reduced, row.seeds), row) for row in content.rows]
    numbers: dict[Address, Number] = {}
    claims: dict[Address, Claim] = {}
    for _, row in sorted(ranked, key=lambda pair: pair[0]):  # what counts most comes last
        place = row.table, row.row
        numbers |= {(*place, n.metric, n.method): n for n in row.numbers if n.verdict != NOT_RUN}
        claims |= {(*place, c.says): c for c in row.claims if c.verdict != NOT_RUN}
    printed, said = dict(_numbers(paper)), dict(_statements(paper))
    left = Counter(
        (address[0], why or "not run")
        for address, why in (*printed.items(), *said.items())
        if address not in numbers and address not in claims
    )
    return PaperSummary(
        paper=paper.paper,
        printed={"numbers": len(printed), "statements": len(said)},
        numbers=[(*at[:2], numbers[at]) for at in printed if at in numbers],
        claims=[(*at[:2], claims[at]) for at in said if at in claims],
        left=[(*at, count) for at, count in left.items()],
        documents=list(own),
    )


def _numbers(paper: Paper) -> Iterator[tuple[Address, str]]:
    """Yield all printed numbers, and why each is never run; one that two places print of the same experiment is one."""
    for table, content in paper.tables.items():
        for row, at in content.rows.items():
            same, why = paper.same(at), paper.reason_not_run(table, row)
            for name, column in at.numbers.items():
                twice = same[1].numbers.get(name, {}) if same else {}
                unmeasured = "" if metric_or_none(name) else UNMEASURED
                for method, number in column.items():
                    if method not in twice or twice[method] != number:
                        yield (table, row, name, method), why or unmeasured


def _statements(paper: Paper) -> Iterator[tuple[Address, str]]:
    """Yield a table's claims about each of its rows, and why each is never judged."""
    for table, content in paper.tables.items():
        for row, at in content.rows.items():
            same, why = paper.same(at), paper.reason_not_run(table, row)
            twice = {claim.says for claim in same[0].claims} if same else set()
            for claim in content.claims:
                if claim.says not in twice:
                    yield (table, row, claim.says), why or claim.why_not
