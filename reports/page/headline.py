"""What a report says first: who is ahead, and what is known about it."""

from collections.abc import Mapping, Sequence

from reports.leaderboard.interim import MARK
from reports.leaderboard.leaderboard import Leaderboard, Row
from reports.leaderboard.statistics import DIFFERS, Across
from reports.leaderboard.wording import caution, label, mean_text, short, title_of, verdict
from reports.page.data import Sweep
from reports.page.gallery import groups, place


def headline(board: Leaderboard) -> tuple[str, str]:
    """The winner in a few words, and sentences on how sure that is, what intervals leave out, and what is
    not over.
    """
    lead, known = _ranked(board)
    known = " ".join(filter(None, (known, caution(board))))
    if ongoing := len({one.group for one in board.interim}):
        cells = "1 cell is" if ongoing == 1 else f"{ongoing} cells are"
        known += f" {cells} not over: {MARK}."
    return lead, known


def _ranked(board: Leaderboard) -> tuple[str, str]:
    ranked = {
        group: [row for row in rows if row.rank is not None]
        for group, rows in groups(board).items()
    }
    cells = [rows for rows in ranked.values() if rows]
    if not board.rows:
        return "Nothing is ranked yet", "No cell has all of its final runs."
    if not cells:
        return "Nothing is ranked", "There are references only."
    if len(cells) == 1:
        return _one(place(next(group for group, rows in ranked.items() if rows)), cells[0])
    return _several(board, cells)


def _one(where: str, rows: Sequence[Row]) -> tuple[str, str]:
    best = _first(rows)
    said = f"{label(best)}: {mean_text(best)} {title_of(best.metric)} on {where}"
    return said, verdict(list(rows)).splitlines()[0]


def _several(board: Leaderboard, cells: Sequence[Sequence[Row]]) -> tuple[str, str]:
    firsts = [_first(rows).algorithm for rows in cells]
    several = (found for found in board.overall.values() if len(found.datasets) > 1)
    compared = next(several, None)
    leader = compared.algorithms[0] if compared else max(firsts, key=firsts.count)
    wins = f"first in {firsts.count(leader)} of {len(cells)} cells"
    if compared is None or len(board.overall) > 1:
        return f"{short(leader)}: {wins}", _each(cells)
    rank = f"average rank {compared.ranks[0]:.2f}"
    return f"{short(leader)}: {rank}, {wins}", f"{_tests(compared)} {_each(cells)}"


def _tests(found: Across) -> str:
    """What the tests over data sets say of the leader."""
    leader = found.algorithms[0]
    differs = [
        short(pair.second if pair.first == leader else pair.first)
        for pair in found.pairs
        if leader in (pair.first, pair.second) and pair.verdict == DIFFERS
    ]
    if differs:
        return f"Over data sets it differs from {_listed(differs)}."
    return f"With {len(found.datasets)} data sets no test can tell it from the others."


def _each(cells: Sequence[Sequence[Row]]) -> str:
    best = [_first(rows) for rows in cells[:3]]
    said = [f"{label(row)} {mean_text(row)} on {row.heterogeneity}" for row in best]
    return f"Best by cell: {'; '.join(said)}{'; …' if len(cells) > 3 else ''}."


def _first(rows: Sequence[Row]) -> Row:
    return next(row for row in rows if row.rank == 1 and row.behind_low is None)


def _listed(names: Sequence[str], most: int = 4) -> str:
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"


def setting(sweeps: Sequence[Sweep]) -> Mapping[str, str]:
    """What was the same for all algorithms, and when and how long it ran; where sweeps differ, each."""
    keys = dict.fromkeys(key for sweep in sweeps for key in sweep.setting)
    return {
        key: " / ".join(dict.fromkeys(s.setting[key] for s in sweeps if key in s.setting))
        for key in keys
    }
