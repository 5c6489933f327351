"""Reproductions as Markdown: a paper's, published and measured side by side, and all papers' on one page."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from reports.claims.judged import Claim, Judged, JudgedRow, Number, Reproduction
from reports.claims.verdicts import NOT_RUN, RULE, VERDICTS, printed
from reports.table import Block, CodeBlock, Heading, Items, Table, Text, markdown, table

SIGN = "Published numbers are the paper's; measured ones come from the runs of"
"""How a page is known again."""


def page(found: Reproduction) -> str:
    """Return the page of a reproduction."""
    counts = ", ".join(f"{count} {name}" for name, count in found.verdicts.items())
    parts: list[Block] = [
        Heading(f"{found.paper}: published and measured", level=1),
        Text(f"{found.cites}. {SIGN}"),
        CodeBlock(found.command),
        Text(f"Its test set, its hyperparameters, one run a seed. {counts}."),
    ]
    for row in found.rows:
        parts += row_blocks(row)
    parts.append(Text(RULE))
    for versions in found.made_with:
        made = ", ".join(f"{key} {value}" for key, value in versions.items())
        parts.append(Text(f"Runs made with {made}."))
    return markdown(parts) + "\n"


def row_blocks(row: JudgedRow) -> list[Block]:
    """Return a row of a paper's table: its numbers and statements with their verdicts, and its settings."""
    place = " · ".join(filter(None, (row.dataset, row.model, row.heterogeneity)))
    about = row.about[:1].upper() + row.about[1:]
    parts: list[Block] = [
        Heading(f"{row.source}, `{row.table}/{row.row}`", level=2),
        Text(f"{about}. {place}".strip()),
    ]
    if row.note:
        parts.append(Text(f"**{row.note}**"))
    if row.runs:
        work = f"{row.runs} runs, {row.seeds} seed{'s' * (row.seeds != 1)}, {row.seconds:.0f} s of rounds in all."
        cut = f" **Reduced: {'; '.join(row.reduced)}.**" if row.reduced else ""
        parts.append(Text(work + cut))
    if row.numbers:
        heads = ["method", "metric", "published", "measured", "difference", "verdict"]
        parts.append(table(heads, [_number(number) for number in row.numbers]))
    if row.claims:
        heads = ["statement", "metric", "difference", "verdict"]
        parts.append(table(heads, [_claim(claim) for claim in row.claims]))
    stated = [_setting(s) for s in row.settings if s["chosen_because"] is None]
    if stated:
        parts.append(Text(f"Stated by the paper: {', '.join(stated)}."))
    chosen = [s for s in row.settings if s["chosen_because"] is not None]
    lines = [*(f"{_setting(s)}: {s['chosen_because']}" for s in chosen), *row.readings]
    if lines:
        parts.append(Items(lines, "Chosen by us"))
    return parts


def _number(number: Number) -> list[str]:
    difference = "" if number.difference is None else f"{number.difference:+.3g}"
    texts = [published(number), measured(number), difference, _verdict(number)]
    return [number.method, number.metric, *texts]


def published(number: Number) -> str:
    """Return the printed number as text, with its unit; of a target that was never reached there is none."""
    text = number.published
    return text if text == "never" else f"{text} {number.unit}".strip()


def measured(number: Number, interval: bool = True) -> str:
    """Return the measured number as text: a mean and half its interval, or how many seeds reached a target."""
    if number.measured is None:
        return ""
    if number.reached_share is not None and number.reached_share < 1:
        reached = round(number.reached_share * number.seeds)
        if not reached:
            return "never"
        bound = ">= " if number.unit == "rounds" else ""
        return f"{bound}{number.measured:.4g} ({reached} of {number.seeds})"
    return f"{number.measured:.4g}{_half(number) if interval else ''}"


def _claim(claim: Claim) -> list[str]:
    shown = "" if claim.measured is None else f"{claim.measured:+.3g}{_half(claim)}"
    return [claim.says, claim.metric, shown, _verdict(claim)]


def _half(judged: Judged) -> str:
    if judged.ci_low is None or judged.ci_high is None:
        return ""
    return f" ± {(judged.ci_high - judged.ci_low) / 2:.2g}"


def _verdict(judged: Judged) -> str:
    return f"{judged.verdict} ({judged.reason})" if judged.reason else judged.verdict


def _setting(setting: Mapping[str, Any]) -> str:
    owner = f"{setting['method']}: " if setting["method"] else ""
    value = setting["value"]
    shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{owner}{setting['name']} = {shown}"


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
