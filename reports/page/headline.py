"""What a report says first: who is ahead, and what is known about it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.interim import MARK
from reports.leaderboard.statistics import DIFFERS
from reports.wording.tables import groups, scenario_text, several, told_apart
from reports.wording.words import (
    answer,
    label,
    listed,
    mean_text,
    methods,
    percent,
    short,
    title_of,
)


def headline(board: Leaderboard) -> tuple[str, str]:
    """Return the winner in a few words, and sentences on how sure that is and what is not over."""
    ranked = [row for row in board.rows if row.rank is not None]
    scenarios = [*groups(replace(board, rows=tuple(ranked))).values()]
    if not board.rows:
        lead, more = "Nothing is ranked yet", "No scenario has all of its final runs."
    elif not scenarios:
        lead, more = "Nothing is ranked", "There are references only."
    elif len(scenarios) == 1:
        lead, more = _alone(scenarios[0])
    else:
        lead, more = _together(board, scenarios)
    if ongoing := len({standing.group for standing in board.interim}):
        unfinished = "1 scenario is" if ongoing == 1 else f"{ongoing} scenarios are"
        more += f" {unfinished} not over: {MARK}."
    return lead, more


def _alone(rows: Sequence[Row]) -> tuple[str, str]:
    """Say of one scenario who is first where no other may be the best or nothing is known of that; else how many may be."""
    where, tie = scenario_text(rows[0].group), "tied at " * rows[0].tied
    highest = f"{_names(rows)}: {tie}{_score(rows[0])} {title_of(rows[0].metric)}"
    maybe = sum(row.within_noise is True for row in rows)
    if maybe < 2:
        return f"{highest} on {where}", answer(rows)
    what = "methods" if methods(rows) else "configurations"
    lead = f"{maybe} of {len(rows)} {what} may be the best on {where}"
    return lead, f"Highest mean: {highest}. {answer(rows)}"


def _together(board: Leaderboard, scenarios: Sequence[Sequence[Row]]) -> tuple[str, str]:
    """Say who is shown to be the best in the most scenarios; nobody where no test over families tells two methods apart."""
    wins = Counter[str]()
    for rows in scenarios:
        if len(rows) > 1 and all(row.within_noise is False for row in rows[1:]):
            wins[rows[0].algorithm] += 1
    lead = f"No method is shown to be the best in any of {len(scenarios)} scenarios"
    if wins:
        most = max(wins.values())
        leaders = [short(name) for name, count in wins.items() if count == most]
        each = " each" if len(leaders) > 1 else ""
        shown = f"shown to be the best in {most} of {len(scenarios)} scenarios{each}"
        lead = f"{listed(leaders)}: {shown}"
    where = told_apart([rows[0].group for rows in scenarios])
    firsts = [
        f"{_names(rows)} {_score(rows[0])} on {on}"
        for rows, on in zip(scenarios, where, strict=True)
    ]
    more = f"; and {len(firsts) - 3} more" if len(firsts) > 3 else ""
    highest = f"Highest mean by scenario: {'; '.join(firsts[:3])}{more}."
    for across in several(board).values():
        if not any(pair.verdict == DIFFERS for pair in across.pairs):
            n = len(across.families)
            lead = f"No method is shown to be ahead over {n} families of data sets"
    return lead, highest


def _score(row: Row) -> str:
    return mean_text(row) + " %" * percent(row.metric)


def _names(rows: Sequence[Row]) -> str:
    return " and ".join(label(row) for row in rows if row.rank == 1)
