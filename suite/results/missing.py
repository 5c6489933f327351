"""Entries of which final runs are missing. Where none came to its end, a leaderboard has no row, and says why;
where some are gone from the store, or too many are there, it has one without a rank.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from reports.leaderboard.interim import Ongoing
from reports.wording.words import short
from suite.results.query import Held, Query
from suite.results.remedies import resumed
from suite.studies.replicates import finals_of
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from trials.run.outcome import reason


def without_finals(query: Query, held: Held) -> list[Record]:
    """The entries that are asked for and have no final run that came to its end."""
    there = {(run.tags.sweep, run.tags.entry_id) for run in held.finals if run.finished}
    asked = [entry for entry in held.entries if query.asks_for(entry)]
    return [entry for entry in asked if (entry.tags.sweep, entry.tags.entry_id) not in there]


def missing(
    query: Query, held: Held, going: Collection[Ongoing], options: list[str]
) -> tuple[str, ...]:
    """A note for each of them that is not in a scenario that still goes on; commands are told of the store by
    these `options`.
    """
    lost = without_finals(query, held)
    over = [entry for entry in lost if Ongoing(entry.tags.sweep, entry.tags.scenario) not in going]
    return tuple(_note(entry, held, options) for entry in over)


def _note(entry: Record, held: Held, options: list[str]) -> str:
    tags = entry.tags
    key = tags.sweep, tags.entry_id
    searched = held.searches.get(key, ())
    ran = [
        (run.tags.status, reason(run.tags.error or ""))
        for run in held.finals
        if (run.tags.sweep, run.tags.entry_id) == key
    ]
    begin = f"{tags.scenario}: {short(tags.algorithm)} has no row, since none of its"
    ended = _ended(held).get(tags.sweep)
    if not ran and ended is not None and any(one.can_be_chosen for one in searched):
        return (
            f"{begin} final runs in {tags.sweep} can be read: `{resumed(ended, options)}` records them "
            "again."
        )
    tried = [(one.status, one.why) for one in searched]
    kind, runs = ("final runs", ran) if ran else ("trials", tried)
    ends = Counter(status for status, _ in runs)
    counts = ", ".join(f"{count} {end}" for end, count in ends.items()) or "there are none"
    why = next((why for _, why in reversed(runs) if why), "")
    return f"{begin} {kind} in {tags.sweep} came to an end: {counts}" + (
        f" ({why})." if why else "."
    )


def _ended(held: Held) -> Mapping[str, Record]:
    """The sweeps that came to their end, by name."""
    return {run.tags.sweep: run for run in held.sweeps if run.finished}


def lacking(store: Reader, query: Query, held: Held) -> Mapping[tuple[str, str], str]:
    """Of each entry of a sweep that ended that has not as many final runs as its sweep made: how many, and what
    mends that. Those that failed are there.
    """
    if query.where:  # which they may have been chosen by
        held = Held.of(store, replace(query, where={}))
    there: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for run in held.finals:
        if run.over:
            there[run.tags.sweep, run.tags.entry_id].append(run)
    ended, found = _ended(held), {}
    for (name, entry), runs in there.items():
        sweep = ended.get(name)
        if sweep is not None and len(runs) != finals_of(sweep.tags.study_json):
            found[name, entry] = _counted(sweep, runs, store.options)
    return found


def _counted(sweep: Record, runs: Sequence[Record], options: list[str]) -> str:
    """How many final runs of an entry there are, in words, and what mends that."""
    made, times = finals_of(sweep.tags.study_json), Counter(run.tags.trial_id for run in runs)
    if len(times) < made:
        return (
            f"{len(times)} of its {made} final runs can be read: `{resumed(sweep, options)}` records the "
            "others again"
        )
    twice = ", ".join(run.run_id for run in runs if times[run.tags.trial_id] > 1)
    return (
        f"it has {len(runs)} final runs, and {sweep.tags.sweep} made {made}: delete in MLflow (`suite ui`) "
        f"what is none of its own, {f'one of {twice}' if twice else 'such as of further seeds'}"
    )
