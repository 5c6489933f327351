"""The page of a method: what it does, what was tuned, where it wins and loses."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reports.document import Block, CodeBlock, Facts, Items, Page, Section, Text
from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.replication import Difference
from reports.page.page import show
from reports.site import commands
from reports.site.addresses import FOOTER, Addresses
from reports.site.data import MethodFacts, SiteData, Winner
from reports.table import Cell, Cells, Column, ColumnKind, Line, Table, table
from reports.wording.tables import groups, leads, scenario_text
from reports.wording.words import (
    behind_text,
    mean_text,
    params_text,
    rank_text,
    short,
    title_of,
)
from trials.algorithm import Range
from trials.engine import schedule

SHADED = (
    "Shaded: the best of its scenario, or not shown to differ from it. A score leads to its configuration; open what "
    "was tuned for the command that repeats one of its runs."
)
AGAINST = (
    "Scenarios in which {} is shown to be ahead of or behind another method: intervals of their paired difference, "
    "corrected for all pairs of a scenario, leave out 0."
)
SCENARIOS = (
    Column("scenario", ColumnKind.NAME),
    Column("rank", better=-1),
    Column("score", ColumnKind.WORDS),
    Column("behind the best", ColumnKind.MARKED, -1),
    Column("best", ColumnKind.WORDS),
    Column("tuned", ColumnKind.WORDS, look="params"),
)
RIVALS = (
    Column("method", ColumnKind.NAME),
    Column("ahead", better=1),
    Column("behind", better=-1),
    Column("not shown to differ", better=-1),
)
STRIP, EDGE = 320.0, 8.0
"""Width of the picture of a range, and what of it is left free at each end."""


def pages(data: SiteData, to: Addresses) -> dict[str, str]:
    """The pages of all methods, by their addresses."""
    names = dict.fromkeys(row.algorithm for row in data.report.board.rows)
    return {to.method(name): show(_page(data, to, name)) for name in names}


def _page(data: SiteData, to: Addresses, name: str) -> Page:
    board, about = data.report.board, data.methods[name]
    rows = [row for row in board.rows if row.algorithm == name]
    ranked = [row for row in rows if row.rank is not None]
    firsts = sum(row.rank == 1 for row in ranked)
    wins = f"first in {firsts} of {len(ranked)} scenarios" if ranked else "a reference, not ranked"
    papers = [p for p in dict.fromkeys(d["paper"] for d in data.papers) if p == about.paper]
    sections = [_what(about)] if about.facts else []
    sections.append(Section("tuned", "Hyperparameters", [_tuned(data, name)], "Hyperparameters"))
    places: list[Block] = [_scenarios(data, to, rows), Text(SHADED, "legend")]
    sections.append(Section("scenarios", "Scenarios", places, "Scenarios"))
    if rivals := _rivals(board, name):
        lines: list[Cells] = [
            [
                Cell(short(other), href=f"../{to.method(other)}"),
                *(Cell(str(n or "–"), n) for n in (of.ahead, of.behind, of.open)),
            ]
            for other, of in rivals
        ]
        against: list[Block] = [
            table(RIVALS, lines, look="narrow"),
            Text(AGAINST.format(short(name)), "legend"),
        ]
        sections.append(Section("rivals", "Against others", against, "Against others"))
    return Page(
        title=short(name),
        heading=f"{short(name)}: {wins}",
        sections=sections,
        eyebrow=about.paper,
        lead=about.summary,
        links=[Cell(f"What {p} says of it, run again", href=f"../{to.paper(p)}") for p in papers],
        root="../",
        footer=FOOTER,
    )


def _what(about: MethodFacts) -> Section:
    """What a method does, by its docstring."""
    blocks: list[Block] = [CodeBlock(about.formulas, "formulas")] if about.formulas else []
    facts: list[tuple[str, str | Cell | Items]] = [(k, v) for k, v in about.facts.items() if v]
    facts += [("Takes for granted", text) for text in about.requires]
    if count := len(about.published):
        title = f"{count} configuration{'s' * (count > 1)}"
        facts.append(("Published", Items(about.published, title)))
    return Section("what", "What it does", [*blocks, Facts(facts, "says")])


def _tuned(data: SiteData, name: str) -> Block:
    """The hyperparameters, and what the searches chose of each."""
    about = data.methods[name]
    winners = [winner for winner in data.winners if winner.algorithm == name]
    rows: list[Cells] = [
        [about.words.get(key) or key, _chosen(key, of, winners)] for key, of in about.ranges.items()
    ]
    heads = ["name = default (usual range)", "what the searches chose, in the range that they had"]
    return table(heads, rows, look="narrow") if rows else Text("It has none.")


def _scenarios(data: SiteData, to: Addresses, rows: Sequence[Row]) -> Table:
    """The scenarios that a method ran in."""
    found = groups(data.report.board)
    lines = []
    for row in rows:
        group = found[row.group]
        best = next((other for other in group if other.rank == 1), group[0])
        of = sum(other.rank is not None for other in group)
        path, again = to.specs.get((row.sweep, row.entry_id)), commands.repeat(data, to, row)
        params = params_text(row.params)
        score = Cell(f"{mean_text(row)} {title_of(row.metric)}", row.mean)
        cells: Cells = [
            Cell(scenario_text(row.group), href=f"../{to.row(row)}"),
            Cell(rank_text(row) + (f" of {of}" if row.rank else ""), row.rank or 999),
            replace(score, href=f"../{path}", about="Its configuration") if path else score,
            Cell(behind_text(row), row.behind),
            Cell("" if row.rank == 1 else short(best.algorithm)),
            Cell(params, code=again) if again else Cell(params, look="cut"),
        ]
        lines.append(Line(cells, leads(row)))
    return Table(SCENARIOS, lines)


def _chosen(name: str, spec: Range, winners: Sequence[Winner]) -> Cell:
    """What the searches chose of a hyperparameter: counts of choices, or dots in its range."""
    chosen = [(scenario_text(w.group), w.params[name]) for w in winners if name in w.params]
    if spec.choices is not None:
        counts = Counter(str(value) for _, value in chosen)
        return Cell(", ".join(f"{v} ({n})" for v, n in counts.most_common()) or "not searched")
    said: dict[str, list[str]] = defaultdict(list)
    dots: dict[str, list[float]] = defaultdict(list)
    for where, value in chosen:
        last = schedule.amount(value)
        if last is None:
            continue
        share = min(1.0, max(0.0, spec.share(last))) if spec.several else 0.5
        dots[where].append(round(EDGE + (STRIP - 2 * EDGE) * share, 1))
        said[where].append(schedule.short(value))
    if not dots:
        return Cell("not searched")
    low, high = ("" if end is None else f"{end:.4g}" for end in (spec.low, spec.high))
    found = [(f"{where}: {', '.join(said[where])}", dots[where]) for where in dots]
    return Cell("", drawing={"low": low, "high": high, "log": spec.log, "dots": found})


@dataclass
class Against:
    """In how many scenarios a method is ahead of another, behind it, and neither is shown."""

    ahead: int = 0
    behind: int = 0
    open: int = 0


def _rivals(board: Leaderboard, name: str) -> list[tuple[str, Against]]:
    """The other ranked methods, those first that are shown to be behind most often."""
    found: Mapping[str, Against] = defaultdict(Against)
    for _, pairs in board.differences:
        for pair in pairs:
            if name in (pair.first, pair.second):
                other = pair.second if pair.first == name else pair.first
                _count(found[other], pair, name)
    return sorted(found.items(), key=lambda item: (item[1].behind - item[1].ahead, item[0]))


def _count(found: Against, pair: Difference, name: str) -> None:
    """Count a pair: it differs where its interval, corrected for all pairs of the scenario, leaves out 0."""
    if pair.tie is not False or not pair.mean:
        found.open += 1
    elif (pair.mean > 0) == (pair.first == name):
        found.ahead += 1
    else:
        found.behind += 1
