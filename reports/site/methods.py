"""The page of a method: what it does, what was tuned, where it wins and loses."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.leaderboard.leaderboard import Leaderboard, Row
from reports.leaderboard.replication import Difference
from reports.leaderboard.wording import (
    behind_text,
    mean_text,
    params_text,
    rank_text,
    short,
    title_of,
)
from reports.page.data import leads
from reports.page.gallery import groups, scenario_text
from reports.page.page import render
from reports.site import commands
from reports.site.addresses import Addresses
from reports.site.data import MethodFacts, SiteData, Winner
from trials.algorithm import Range
from trials.engine import schedule

STRIP, EDGE = 320.0, 8.0
"""Width of the picture of a range, and what of it is left free at each end."""


def pages(data: SiteData, to: Addresses) -> dict[str, str]:
    """The pages of all methods, by their addresses."""
    names = dict.fromkeys(row.algorithm for row in data.report.board.rows)
    return {to.method(name): _page(data, to, name) for name in names}


def _page(data: SiteData, to: Addresses, name: str) -> str:
    board, about = data.report.board, data.methods[name]
    found = groups(board)
    rows = [row for row in board.rows if row.algorithm == name]
    ranked = [row for row in rows if row.rank is not None]
    firsts = sum(row.rank == 1 for row in ranked)
    winners = [winner for winner in data.winners if winner.algorithm == name]
    wins = f"first in {firsts} of {len(ranked)} scenarios" if ranked else "a reference, not ranked"
    return render(
        "site_method.html",
        root="../",
        title=short(name),
        name=short(name),
        wins=wins,
        about=about,
        hyperparameters=[
            _hyperparameter(key, spec, about, winners) for key, spec in about.ranges.items()
        ],
        scenarios=[_scenario(data, to, row, found[row.group]) for row in rows],
        rivals=_rivals(board, name, to),
        papers=[
            {"name": paper, "href": f"../{to.paper(paper)}"}
            for paper in dict.fromkeys(document["paper"] for document in data.papers)
            if paper == about.paper
        ],
    )


def _scenario(data: SiteData, to: Addresses, row: Row, group: Sequence[Row]) -> dict[str, Any]:
    """A row of the table over scenarios; `group` are the rows it is ranked with."""
    best = next((other for other in group if other.rank == 1), group[0])
    path = to.specs.get((row.sweep, row.entry_id))
    return {
        "row": row,
        "scenario": scenario_text(row.group),
        "href": f"../{to.row(row)}",
        "rank": rank_text(row),
        "of": sum(other.rank is not None for other in group),
        "score": mean_text(row),
        "metric": title_of(row.metric),
        "spec": f"../{path}" if path else "",
        "behind": behind_text(row),
        "best": "" if row.rank == 1 else short(best.algorithm),
        "wins": leads(row),
        "params": params_text(row.params),
        "repeat": commands.repeat(data, to, row),
    }


def _hyperparameter(
    name: str, spec: Range, about: MethodFacts, winners: Sequence[Winner]
) -> dict[str, Any]:
    """A hyperparameter's range, and what the searches chose of it."""
    chosen = [(scenario_text(w.group), w.params[name]) for w in winners if name in w.params]
    counts: Counter[str] = Counter()
    said: dict[str, list[str]] = defaultdict(list)
    dots: dict[str, list[float]] = defaultdict(list)
    if spec.choices is not None:
        counts = Counter(str(value) for _, value in chosen)
    else:
        for where, value in chosen:
            last = schedule.amount(value)
            if last is None:
                continue
            share = min(1.0, max(0.0, spec.share(last))) if spec.several else 0.5
            dots[where].append(round(EDGE + (STRIP - 2 * EDGE) * share, 1))
            said[where].append(schedule.short(value))
    return {
        "name": name,
        "words": about.words.get(name, ""),
        "low": "" if spec.low is None else f"{spec.low:.4g}",
        "high": "" if spec.high is None else f"{spec.high:.4g}",
        "log": spec.log,
        "dots": [(f"{where}: {', '.join(said[where])}", dots[where]) for where in dots],
        "counts": counts.most_common(),
    }


@dataclass
class Against:
    """In how many scenarios a method is ahead of another, behind it, and neither is shown."""

    ahead: int = 0
    behind: int = 0
    open: int = 0


def _rivals(board: Leaderboard, name: str, to: Addresses) -> list[dict[str, Any]]:
    """The other ranked methods, those first that are shown to be behind most often."""
    found: Mapping[str, Against] = defaultdict(Against)
    for _, pairs in board.differences:
        for pair in pairs:
            if name in (pair.first, pair.second):
                other = pair.second if pair.first == name else pair.first
                _count(found[other], pair, name)
    order = sorted(found.items(), key=lambda item: (item[1].behind - item[1].ahead, item[0]))
    return [
        {"name": short(other), "href": f"../{to.method(other)}", "against": against}
        for other, against in order
    ]


def _count(found: Against, pair: Difference, name: str) -> None:
    """Count a pair: it differs where its interval, corrected for all pairs of the scenario, leaves out 0."""
    if pair.tie is not False or not pair.mean:
        found.open += 1
    elif (pair.mean > 0) == (pair.first == name):
        found.ahead += 1
    else:
        found.behind += 1
