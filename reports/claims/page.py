"""Markdown pages of reproductions: one for each paper, published numbers beside measured ones, and one for all papers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from operator import attrgetter, itemgetter
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from reports.claims.judged import Judged, JudgedRow, Reproduction
from reports.claims.verdicts import NOT_RUN, VERDICTS, metric
from reports.table import Block, CodeBlock, Heading, Items, Table, Text, markdown, table

SIGN = "Published numbers are the paper's; measured ones come from the runs of"
"""The sentence by which a file is recognised as such a page."""


def page(result: Reproduction) -> str:
    """Return a Markdown page that compares a paper's published results with the measured results, row by row."""
    counts = ", ".join(starmap("{1} {0}".format, result.verdicts.items()))
    parts: list[Block] = [
        Heading(f"{result.paper}: published and measured", level=1),
        Text(f"{result.cites}. {SIGN}"),
        CodeBlock(result.command),
        Text(
            f"Its test set, its hyperparameters, one run a seed. {counts}. docs/reproduce.md has the rules of verdicts."
        ),
    ]
    for row in result.rows:
        parts += row_blocks(row)
    for versions in result.made_with:
        versions_text = ", ".join(starmap("{} {}".format, versions.items()))
        parts.append(Text(f"Runs made with {versions_text}."))
    return markdown(parts) + "\n"


def row_blocks(row: JudgedRow) -> list[Block]:
    """Return Markdown blocks for a row: its numbers and statements with verdicts, and the settings that the suite chose."""
    place = " · ".join(filter(None, (row.dataset, row.model, row.heterogeneity)))
    work = f"{row.runs} runs, {row.seeds} seeds, {row.seconds:.0f} s of rounds in all"
    about = row.about, place, *row.reduced, row.note, work * bool(row.runs)
    parts: list[Block] = [
        Heading(f"{row.source}, `{row.table}/{row.row}`", level=2),
        Text("; ".join(filter(None, about))),
    ]
    if row.numbers:
        heads = ["method", "metric", "published", "measured", "difference", "verdict"]
        lines = []
        for number in row.numbers:
            difference, value = "", number.value
            if value is not None and number.measured is not None and number.reached_share == 1:
                difference = f"{number.measured - value:+.3g}"
            cells = [number.method, number.metric, number.published, measured(number), difference]
            lines.append([*cells, _verdict(number)])
        parts.append(table(heads, lines))
    if row.claims:
        heads = ["statement", "metric", "difference", "verdict"]
        lines = []
        for claim in row.claims:
            shown = "" if claim.measured is None else f"{claim.measured:+.3g}{_half(claim)}"
            lines.append([claim.says, claim.metric, shown, _verdict(claim)])
        parts.append(table(heads, lines))
    chosen = []
    for setting in row.settings:
        if (why := setting["chosen_because"]) is not None:
            owner, value = f"{setting['method']}: " * bool(setting["method"]), setting["value"]
            text = f"{value:g}" if isinstance(value, float) else str(value)
            text = "none" if value is None else text
            chosen.append(f"{owner}{setting['name']} = {text}: {why}")
    chosen += row.readings
    return [*parts, Items(chosen, "Chosen by us")] if chosen else parts


def measured(number: Judged, interval: bool = True) -> str:
    """Return the measured mean as text, such as "95.2 ± 0.3", or "" if there is none. If only some seeds reached the target, add how many."""
    if number.measured is None:
        return ""
    if number.reached_share is not None and number.reached_share < 1:
        reached = round(number.reached_share * number.seeds)
        if not reached:
            return "never"
        bound = ">= " if number.metric.startswith("rounds_to") else ""
        return f"{bound}{number.measured:.4g} ({reached} of {number.seeds})"
    return f"{number.measured:.4g}{_half(number) if interval else ''}"


def _half(judged: Judged) -> str:
    if judged.ci_low is None or judged.ci_high is None:
        return ""
    return f" ± {(judged.ci_high - judged.ci_low) / 2:.2g}"


def _verdict(judged: Judged) -> str:
    return f"{judged.verdict} ({judged.reason})" if judged.reason else judged.verdict


FIGURE = "summary.svg"
"""The file name of the figure of all papers."""
TITLE = "Published and measured, over all papers"
MARKS = dict(zip(VERDICTS, ("✓", "↕", "✗", "?"), strict=False))
"""The sign of each verdict in the tables; "not run" has none."""
COUNTED = ("printed", *VERDICTS)
ABOUT = (
    "A verdict is of a number or a statement under the settings that its line names, never of a paper. A statement counts "
    "once for each of its rows. A result that is printed twice counts once. Settings with the suite's default are not listed."
)


class JudgedEntry(BaseModel):
    """A printed number of a row, or a statement (`says`), with its verdict or the reason `why` it has none. If `again` is true,
    another row with the same experiment but other settings has it, too, and only that one is counted.
    `chosen` has the settings that the paper leaves open; `note` says which runs of the row are missing.
    """

    table: str
    row: str
    source: str
    says: str = ""
    judged: Judged | None = None
    why: str = ""
    again: bool = False
    chosen: dict[str, list[str]] = {}
    note: str = ""

    @property
    def verdict(self) -> str:
        """Return the verdict on the entry, or "not run" if it has none."""
        return self.judged.verdict if self.judged else NOT_RUN


class PaperSummary(BaseModel):
    """A paper: all of its numbers and statements, and the documents of `suite reproduce` that judged them."""

    paper: str
    cites: str
    command: str
    entries: list[JudgedEntry]
    documents: list[str]

    @property
    def counted(self) -> dict[str, list[JudgedEntry]]:
        """Return the paper's numbers and statements, by the keys "numbers" and "statements". Skip those that repeat another row's."""
        kinds: dict[str, list[JudgedEntry]] = {"numbers": [], "statements": []}
        for entry in self.entries:
            if not entry.again:
                kinds["statements" if entry.says else "numbers"].append(entry)
        return kinds


def drawn(papers: Iterable[PaperSummary]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (paper, number) for each number that is published and measured. Skip numbers with a target that some seed missed."""
    for paper in papers:
        for entry in paper.counted["numbers"]:
            number = entry.judged
            if number is None or number.value is None or number.measured is None:
                continue
            if number.reached_share in (None, 1):
                unit = metric(number.metric).kind.unit
                place = {"table": entry.table, "row": entry.row, "value": number.value}
                yield paper.paper, {**place, "unit": unit, **number.model_dump()}


def summary_page(papers: Sequence[PaperSummary]) -> str:
    """Return a Markdown page on all papers, with the counts of verdicts and every measured number."""
    marks = ", ".join(starmap("{1} {0}".format, MARKS.items()))
    pages = ", ".join(f"[{paper.paper}]({quote(paper.command)}.md)" for paper in papers)
    parts: list[Block] = [
        Heading(TITLE, level=1),
        Text(f"{ABOUT} The settings are on the papers' pages: {pages}."),
        counts(papers),
        Text(f"![Published against measured]({FIGURE})"),
        Text(f"Below, a number is `published → measured`, and its verdict: {marks}."),
    ]
    for paper in papers:
        parts.append(Heading(paper.paper, level=2))
        tables: dict[str, list[JudgedEntry]] = {}
        for entry in paper.counted["numbers"]:
            if entry.judged:
                tables.setdefault(entry.table, []).append(entry)
        parts += starmap(_numbers, tables.items())
    return markdown(parts) + "\n"


def counts(papers: Sequence[PaperSummary]) -> Table:
    """Return a table that counts each paper's numbers and statements, in total and by verdict."""
    lines: list[list[str]] = []
    totals: dict[str, Counter[str]] = {}
    for paper in papers:
        for kind, entries in paper.counted.items():
            count = Counter(map(attrgetter("verdict"), entries))
            count["printed"] = len(entries)
            totals.setdefault(kind, Counter()).update(count)
            lines.append([f"{paper.paper}, {kind}", *map(str, itemgetter(*COUNTED)(count))])
    for kind, count in totals.items() if len(papers) > 1 else ():
        lines.append([f"all {kind}", *map(str, itemgetter(*COUNTED)(count))])
    return table(["paper", *COUNTED], lines)


def _numbers(name: str, entries: Sequence[JudgedEntry]) -> Table:
    """Return a table of published and measured numbers. Each column is a method. Each line is one metric in a row of the paper's table."""
    methods = list(dict.fromkeys(entry.judged.method for entry in entries if entry.judged))
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for entry in entries:
        if (number := entry.judged) is not None:
            text = f"{number.published} → {measured(number, interval=False)}"
            line = lines.setdefault((entry.row, number.metric), dict.fromkeys(methods, ""))
            line[number.method] = f"{text} {MARKS[number.verdict]}"
    cells = [[*place, *line.values()] for place, line in lines.items()]
    return table([name, "metric", *methods], cells)


def paper_page(paper: PaperSummary) -> str:
    """Return a short Markdown page on a paper, with its claims, their verdicts, and the settings of the runs."""
    links = ", ".join(f"[{name}]({quote(name, safe='=,')})" for name in paper.documents)
    without = Counter[tuple[str, str]]()
    for entry in chain.from_iterable(paper.counted.values()):
        if entry.judged is None:
            without[entry.source, entry.why] += 1
    left = [[*place, str(count)] for place, count in without.items()]
    parts: list[Block] = [
        Heading(f"{paper.paper}: published and measured", level=1),
        Text(f"{paper.cites}. {ABOUT}"),
        CodeBlock(f"suite reproduce {paper.command}"),
        counts([paper]),
        _outcomes(paper),
        table(["without a verdict", "why", "numbers and statements"], left),
        Text(f"Hours are estimates for one GPU and five seeds. Documents: {links}."),
    ]
    return markdown(parts) + "\n"


def _outcomes(paper: PaperSummary) -> Table:
    """Return a table of a paper's verdicts and settings. Statements share a line if their source, verdicts and settings are equal."""
    groups: dict[tuple[str, str, str], list[JudgedEntry]] = {}
    for entry in paper.entries:
        other = str(entry.chosen) if entry.again else ""
        groups.setdefault((entry.table, entry.says or "its numbers", other), []).append(entry)
    lines: dict[tuple[str, str, str], list[str]] = {}
    for (_, words, _), entries in groups.items():
        count = Counter(map(attrgetter("verdict"), entries))
        if set(count) == {NOT_RUN}:
            continue
        outcome = ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict])
        notes: dict[str, None] = {}
        settings: dict[str, dict[str, None]] = {}
        for entry in entries:
            notes |= {entry.note: None} if entry.note else {}
            for name, values in entry.chosen.items():
                settings.setdefault(name, {}).update(dict.fromkeys(values))
        chosen = ", ".join(f"{name} {' or '.join(texts)}" for name, texts in settings.items())
        place = entries[0].source, "; ".join([outcome, *notes]), chosen
        lines.setdefault(place, []).append(words)
    heads = ["where", "what the text says", "what came out", "chosen where the text leaves it open"]
    cells = []
    for (source, outcome, chosen), statements in lines.items():
        each = "each: " if len(statements) > 1 else ""
        cells.append([source, "; ".join(statements), f"{each}{outcome}", chosen])
    return table(heads, cells)
