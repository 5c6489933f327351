"""Entries of which no final run came to its end: a leaderboard has no row of them, and says why."""

from collections import Counter
from collections.abc import Collection

from reports.leaderboard.interim import Ongoing
from reports.leaderboard.wording import short
from suite.results.query import Held, Query
from suite.tracking.record import Record
from trials.outcome import reason


def without_finals(query: Query, held: Held) -> list[Record]:
    """The entries that are asked for and have no final run that came to its end."""
    there = {(run.tags.sweep, run.tags.cell) for run in held.finals if run.finished}
    asked = [entry for entry in held.entries if query.asks_for(entry)]
    return [entry for entry in asked if (entry.tags.sweep, entry.tags.cell) not in there]


def missing(query: Query, held: Held, going: Collection[Ongoing]) -> tuple[str, ...]:
    """A note for each of them that is not in a cell that still goes on."""
    lost = without_finals(query, held)
    over = [entry for entry in lost if Ongoing(entry.tags.sweep, entry.tags.place) not in going]
    return tuple(_note(entry, held) for entry in over)


def _note(entry: Record, held: Held) -> str:
    tags = entry.tags
    searched, ran = (
        [run for run in runs if (run.tags.sweep, run.tags.cell) == (tags.sweep, tags.cell)]
        for runs in (held.searches, held.finals)
    )
    kind, runs = ("final runs", ran) if ran else ("trials", searched)
    ends = Counter(run.tags.status for run in runs)
    counts = ", ".join(f"{count} {end}" for end, count in ends.items()) or "there are none"
    why = next((reason(run.tags.error) for run in reversed(runs) if run.tags.error), "")
    return (
        f"{tags.place}: {short(tags.algorithm)} has no row, since none of its {kind} in {tags.sweep} came "
        f"to an end: {counts}" + (f" ({why})." if why else ".")
    )
