"""How much of the papers was run and what came out, as Markdown: published against measured on one page."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from reports.claims.judged import Claim, Judged, Number
from reports.claims.page import measured
from reports.claims.verdicts import NOT_RUN, VERDICTS, printed
from reports.document import Block, Heading, Text, markdown
from reports.table import Table, table

FIGURE = "summary.svg"
"""The name of the figure beside the page."""
TITLE = "Published and measured, over all papers"
MARKS = dict(zip(VERDICTS, ("✓", "↕", "✗", "?"), strict=False))
"""How the tables mark each verdict that is one."""
GIVEN = [verdict for verdict in VERDICTS if verdict != NOT_RUN]
COUNTED = ("printed", *GIVEN)
ABOUT = (
    "A statement counts once for each row it is about, and what is printed twice of one experiment counts once. Of several "
    "documents on a number the declared settings count before `--set`, then what was reduced the least, then more seeds."
)


class PaperSummary(BaseModel):
    """A paper: how many numbers and statements it prints; those that have a verdict, by table and row; by table and reason how
    many are `left` without one; and the documents that tell of it.
    """

    paper: str
    printed: dict[str, int]
    numbers: list[tuple[str, str, Number]]
    claims: list[tuple[str, str, Claim]]
    left: list[tuple[str, str, int]]
    documents: list[str]


def drawn(papers: Iterable[PaperSummary]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the numbers that a figure can show, with their papers: those with a printed `value` and a measured one that all
    seeds have.
    """
    for paper in papers:
        for name, row, number in paper.numbers:
            relation, _, text = number.published.rpartition(" ")
            value = None if text == "never" else printed(f"{relation or '~'} {text}").value
            whole = number.reached_share in (None, 1) and number.measured is not None
            if whole and value is not None:
                yield (
                    paper.paper,
                    {"table": name, "row": row, "value": value, **number.model_dump()},
                )


def summary_page(papers: Sequence[PaperSummary]) -> str:
    """Return the summary of all papers as a page."""
    marks = ", ".join(f"{mark} {verdict}" for verdict, mark in MARKS.items())
    legend = f"Below, a number is `published → measured`, and its verdict: {marks}."
    parts: list[Block] = [
        Heading(TITLE, level=1),
        Text(ABOUT),
        counts(papers),
        Text(f"![Published against measured]({FIGURE})"),
        Text(legend),
    ]
    for paper in papers:
        parts.append(Heading(paper.paper, level=2))
        for name in dict.fromkeys(name for name, *_ in paper.numbers):
            parts.append(_numbers(name, [each[1:] for each in paper.numbers if each[0] == name]))
        if paper.claims:
            parts.append(_claims(paper))
        if paper.left:
            lines = [[name, why, str(count)] for name, why, count in paper.left]
            parts.append(table(["without a verdict", "why", "numbers and statements"], lines))
        if paper.documents:
            links = (f"[{name}]({quote(name, safe='=,')})" for name in paper.documents)
            parts.append(Text(f"Documents: {', '.join(links)}."))
    return markdown(parts) + "\n"


def counts(papers: Sequence[PaperSummary]) -> Table:
    """Return the table of how many numbers and statements are printed, and got each verdict."""
    lines: list[list[str]] = []
    totals: dict[str, Counter[str]] = {}
    for paper in papers:
        kinds: dict[str, Sequence[tuple[str, str, Judged]]] = {
            "numbers": paper.numbers,
            "statements": paper.claims,
        }
        for kind, judged in kinds.items():
            count = Counter(each.verdict for *_, each in judged)
            count["printed"] = paper.printed[kind]
            totals.setdefault(kind, Counter()).update(count)
            lines.append([f"{paper.paper}, {kind}", *(str(count[head]) for head in COUNTED)])
    for kind, count in totals.items():
        lines.append([f"all {kind}", *(str(count[head]) for head in COUNTED)])
    return table(["paper", *COUNTED], lines)


def _numbers(name: str, judged: Sequence[tuple[str, Number]]) -> Table:
    """Return a table of a paper as it is printed: a line for each row and metric, a column for each method."""
    methods = list(dict.fromkeys(number.method for _, number in judged))
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row, number in judged:
        text = f"{number.published} → {measured(number, interval=False)} {MARKS[number.verdict]}"
        lines.setdefault((row, number.metric), {})[number.method] = text
    cells = [[*place, *(line.get(m, "") for m in methods)] for place, line in lines.items()]
    return table([name, "metric", *methods], cells)


def _claims(paper: PaperSummary) -> Table:
    """Return the statements, and for which rows each verdict holds."""
    lines: dict[str, dict[str, list[str]]] = {}
    for name, row, claim in paper.claims:
        lines.setdefault(claim.says, {}).setdefault(claim.verdict, []).append(f"{name}/{row}")
    columns = [verdict for verdict in GIVEN if any(verdict in line for line in lines.values())]
    cells = [[says, *(", ".join(line.get(v, ())) for v in columns)] for says, line in lines.items()]
    return table(["statement", *columns], cells)
