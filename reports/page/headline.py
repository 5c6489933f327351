"""What a report says first: who is ahead, and what is known about it."""

from collections import Counter
from collections.abc import Mapping, Sequence

from reports.charts.data import SweepFacts
from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.interim import MARK
from reports.leaderboard.statistics import DIFFERS, Across
from reports.page.gallery import told_apart
from reports.wording.tables import groups, scenario_text
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
    lead, known = _ranked(board)
    if ongoing := len({one.group for one in board.interim}):
        scenarios = "1 scenario is" if ongoing == 1 else f"{ongoing} scenarios are"
        known += f" {scenarios} not over: {MARK}."
    return lead, known


def _ranked(board: Leaderboard) -> tuple[str, str]:
    ranked = {
        group: [row for row in rows if row.rank is not None]
        for group, rows in groups(board).items()
    }
    scenarios = [rows for rows in ranked.values() if rows]
    if not board.rows:
        return "Nothing is ranked yet", "No scenario has all of its final runs."
    if not scenarios:
        return "Nothing is ranked", "There are references only."
    if len(scenarios) == 1:
        return _one(
            scenario_text(next(group for group, rows in ranked.items() if rows)), scenarios[0]
        )
    return _several(board, scenarios)


def _one(where: str, rows: Sequence[Row]) -> tuple[str, str]:
    """Who is first where no other may be the best or nothing is known of that; else how many may be."""
    first, known = _firsts(rows), answer(rows)
    tie = "tied at " if len(first) > 1 else ""
    highest = f"{_names(first)}: {tie}{_score(first[0])} {title_of(first[0].metric)}"
    maybe = sum(row.within_noise is True for row in rows)
    if maybe < 2:
        return f"{highest} on {where}", known
    of = "methods" if methods(rows) else "configurations"
    return (
        f"{maybe} of {len(rows)} {of} may be the best on {where}",
        f"Highest mean: {highest}. {known}",
    )


def _several(board: Leaderboard, scenarios: Sequence[Sequence[Row]]) -> tuple[str, str]:
    """Who is shown to be the best in the most scenarios; nobody where no test over families tells two methods apart."""
    wins = Counter(rows[0].algorithm for rows in scenarios if _alone(rows))
    lead = f"In none of {len(scenarios)} scenarios is one method shown to be the best"
    if wins:
        most = max(wins.values())
        leaders = [short(name) for name, count in wins.items() if count == most]
        each = " each" if len(leaders) > 1 else ""
        lead = (
            f"{listed(leaders)}: shown to be the best in {most} of {len(scenarios)} scenarios{each}"
        )
    several = [found for found in board.overall.values() if len(found.families) > 1]
    if len(several) != 1 or len(board.overall) > 1:
        return lead, _each(scenarios)
    (found,) = several
    if not any(pair.verdict == DIFFERS for pair in found.pairs):
        lead = f"No method is shown to be ahead over {len(found.families)} families of data sets"
    return lead, " ".join(filter(None, (_tests(found), _each(scenarios))))


def _tests(found: Across) -> str:
    """What the tests over families of data sets say of whoever has the least average rank there; of a tie nothing."""
    leader, rank = found.algorithms[0], found.ranks[0]
    if found.ranks.count(rank) > 1:
        return ""
    differs = [
        short(pair.second if pair.first == leader else pair.first)
        for pair in found.pairs
        if leader in (pair.first, pair.second) and pair.verdict == DIFFERS
    ]
    over = f"Over {len(found.families)} families of data sets"
    if not any(pair.verdict == DIFFERS for pair in found.pairs):
        if found.friedman_verdict == DIFFERS:
            return (
                f"{over} the methods are not all alike (Friedman), but no test tells any two apart."
            )
        return f"{over} no test tells any two methods apart."
    if not differs:
        return ""
    return f"{over} {short(leader)} has the best average rank, {rank:.2f}; it differs from {listed(differs)}."


def _each(scenarios: Sequence[Sequence[Row]]) -> str:
    best = [_firsts(rows) for rows in scenarios]
    where = told_apart([rows[0].group for rows in best])
    said = [
        f"{_names(rows)} {_score(rows[0])} on {on}" for rows, on in zip(best, where, strict=True)
    ]
    more = f"; and {len(said) - 3} more" if len(said) > 3 else ""
    return f"Highest mean by scenario: {'; '.join(said[:3])}{more}."


def _score(row: Row) -> str:
    return mean_text(row) + " %" * percent(row.metric)


def _firsts(rows: Sequence[Row]) -> list[Row]:
    """The row that is first, or all that tie there."""
    return [row for row in rows if row.rank == 1]


def _alone(rows: Sequence[Row]) -> bool:
    """Whether all others are shown not to be the best."""
    return len(rows) > 1 and all(row.within_noise is False for row in rows[1:])


def _names(rows: Sequence[Row]) -> str:
    return " and ".join(map(label, rows))


def setting(sweeps: Sequence[SweepFacts]) -> Mapping[str, str]:
    """What was the same for all algorithms, and when and how long it ran; where sweeps differ, each."""
    keys = dict.fromkeys(key for sweep in sweeps for key in sweep.setting)
    return {
        key: " / ".join(dict.fromkeys(s.setting[key] for s in sweeps if key in s.setting))
        for key in keys
    }
