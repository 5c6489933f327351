"""The tables of several sweeps as one: which there are, those that are asked for, and their rows as data frames."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from suite.console import say
from suite.results.table import PLAIN, TableFacts, TrialTable, curve_columns
from suite.studies.replicates import finals_of
from trials.common.errors import UserError, unknown
from trials.run.spec import Scenario
from trials.scoring.metrics import TASKS

if TYPE_CHECKING:
    import pandas as pd

SEARCHED = (
    *("sweep", "entry_id", "trial_id", "kind", "replicate", "number", "origin", "params", "status"),
    *("val_score", "test_score", "feasible", "error"),
)
"""What is read of search trials, which are many."""
SEARCHES, FINALS = ("search", "confirm"), ("final",)
KEYS = ["sweep", "entry_id"]
"""What a row of an entry is known by."""
ENTRIES = (
    *("sweep", "study", "entry_id", "algorithm", *Scenario._fields, "metric", "reference"),
    *("facts", "entry", "finals", "going"),
)
Key = tuple[str, str]
"""A sweep and one of its entries."""
Row = Mapping[str, Any]
"""A row of a table, by column."""
History = list[dict[str, float]]
"""The evaluations of a trial, each with its `round` and what of the metrics asked for is finite there."""


class Source(NamedTuple):
    """A sweep whose table can be opened, and its study."""

    sweep: str
    study: str
    open: Callable[[], TrialTable]


@dataclass(frozen=True)
class Tables:
    """The sweeps of some place, of which commands are told by `options`; `nothing` says that it has none. None is opened before its
    rows are asked for. One that was `named` must be sound; of all others those that cannot be read are left out, which is said.
    """

    sources: Sequence[Source]
    nothing: str
    options: Sequence[str] = ()
    named: bool = False

    def of(self, sweep: str | None, studies: Collection[str] = ()) -> Tables:
        """Return those of a sweep, or of studies. Raises `UserError` for a name that none of them has."""
        if not self.sources:
            raise UserError(self.nothing)
        for kind, wanted in (("sweep", [sweep] if sweep else []), ("study", [*studies])):
            known = {getattr(source, kind) for source in self.sources}
            for name in wanted:
                if name not in known:
                    raise unknown(kind, name, known)
        chosen = [
            source
            for source in self.sources
            if sweep in (None, source.sweep) and (not studies or source.study in studies)
        ]
        return replace(self, sources=chosen, named=sweep is not None)

    def whose(self, name: str) -> tuple[str | None, tuple[str, ...], str]:
        """Return a sweep's name, or else a study's, as `of` takes them, and in words which it is where it is not a sweep's. Raises
        `UserError` where it is neither.
        """
        if not self.sources:
            raise UserError(self.nothing)
        if name in {source.sweep for source in self.sources}:
            return name, (), ""
        own = [source.sweep for source in self.sources if source.study == name]
        if not own:
            words = {word for source in self.sources for word in source[:2]}
            raise unknown("sweep", name, words)
        return None, (name,), f"{name} is a study; its sweeps: {', '.join(dict.fromkeys(own))}"

    @cached_property
    def tables(self) -> list[TrialTable]:
        """All tables, opened; those of the oldest sweeps first."""
        opened = []
        for source in self.sources:
            try:
                opened.append(source.open())
            except UserError as error:
                if self.named:
                    raise
                say(f"sweep {source.sweep} is left out: {error}")
        return sorted(opened, key=lambda table: table.facts.began)

    @cached_property
    def facts(self) -> dict[str, TableFacts]:
        """What is said of each sweep as a whole."""
        return {table.facts.name: table.facts for table in self.tables}

    @cached_property
    def entries(self) -> pd.DataFrame:
        """The entries of all sweeps in the order of their studies, a row each, with their `EntryFacts` and the `TableFacts` of their
        sweeps; `finals` counts final runs, and `going` says that an entry of the scenario lacks some, of a sweep that has not ended.
        """
        import pandas as pd

        there = self.finals.groupby(KEYS).size()
        rows, short = [], set()
        for facts in self.facts.values():
            for entry in facts.entries:
                finals = int(there.get((facts.name, entry.id), 0))
                names = (facts.name, facts.study_name, entry.id, entry.algorithm, *entry.scenario)
                rows.append((*names, entry.metric, entry.reference, facts, entry, finals, False))
                if facts.ended is None and finals < finals_of(facts.study):
                    short.add((facts.name, entry.scenario))
        frame = pd.DataFrame(rows, columns=[*ENTRIES])
        frame["going"] = [(row[0], row[-3].scenario) in short for row in rows]
        return frame

    @cached_property
    def finals(self) -> pd.DataFrame:
        """The final runs, without their curves."""
        return self.frame(PLAIN, FINALS)

    @cached_property
    def searches(self) -> dict[Key, pd.DataFrame]:
        """`SEARCHED` of the search trials of each entry that has any, in the order of their numbers."""
        rows = self.frame(SEARCHED, SEARCHES)
        ordered = rows.sort_values(["replicate", "number", "kind", "trial_id"])
        return {(str(s), str(e)): trials for (s, e), trials in ordered.groupby(KEYS)}

    def frame(self, columns: Iterable[str], kinds: Collection[str] = ()) -> pd.DataFrame:
        """Return these columns of the rows of these kinds (none: of all)."""
        import pandas as pd

        names = [*columns]
        frames = [table.columns(names, kinds) for table in self.tables]
        full = [frame for frame in frames if len(frame)]
        return pd.concat(full, ignore_index=True) if full else pd.DataFrame(columns=names)

    def histories(self, columns: Collection[str]) -> dict[Key, History]:
        """Return these curves of each final run, by sweep and trial."""
        names = ["sweep", "trial_id", "metric", "round", *columns]
        rows = records(self.frame(names, FINALS))
        return {(row["sweep"], row["trial_id"]): history_of(row, columns) for row in rows}


def within(frame: pd.DataFrame, other: pd.DataFrame) -> Any:
    """Return which rows of a frame are of the entries of another."""
    import pandas as pd

    return pd.MultiIndex.from_frame(frame[KEYS]).isin(
        [*zip(*(other[k] for k in KEYS), strict=True)]
    )


def each(frame: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a data frame, with its columns as attributes."""
    return frame.itertuples(index=False)


def records(frame: pd.DataFrame) -> list[Row]:
    """Return the rows of a data frame, a mapping each."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def history_of(row: Row, columns: Iterable[str]) -> History:
    """Return the evaluations of a row as a history, whose metrics have their full names."""
    metric = row["metric"]
    named = curve_columns(metric, TASKS[metric].pooled)
    rounds: dict[int, dict[str, float]] = {}
    for column in columns:
        if row[column] is None or row["round"] is None:
            continue
        for at, value in zip(row["round"], row[column], strict=True):
            if value == value:
                entry = rounds.setdefault(int(at), {"round": int(at)})
                entry[named[column]] = float(value)
    return [rounds[at] for at in sorted(rounds)]


def nothing_in(storage: object) -> str:
    """Say that a storage has no sweep yet, and what to do."""
    return (
        f"there is no sweep in {storage} yet: run `suite sweep quickstart`, or name another place with "
        "--storage or --tracking-uri"
    )
