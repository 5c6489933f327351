"""How scenarios stand that are not over, in words: the same on a terminal, in Markdown and on pages."""

from collections.abc import Sequence
from itertools import groupby

from reports.leaderboard.interim import Standing
from reports.table import Column, ColumnKind
from reports.wording.words import number, params_text, short

COLUMNS = (
    Column("#"),
    Column("algorithm", ColumnKind.NAME),
    Column("best val"),
    Column("trials"),
    Column("final runs"),
    Column("best so far", ColumnKind.WORDS),
)


def tables(standings: Sequence[Standing]) -> list[tuple[str, list[list[str]]]]:
    """The title and the lines of each scenario's table."""
    return [
        (f"{place} ({sweep})", [line(one) for one in members])
        for (sweep, place), members in groupby(standings, key=lambda one: one.group)
    ]


def line(one: Standing) -> list[str]:
    """The line of an algorithm in a scenario that is not over."""
    return [
        "-" if one.rank is None else str(one.rank),
        short(one.algorithm),
        number(one.best),
        f"{one.trials}/{one.planned}",
        f"{one.finals}/{one.seeds}",
        params_text(one.params),
    ]
