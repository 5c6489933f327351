"""The tables of several sweeps as one: which there are, those that are asked for, and their rows as data frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from suite.console import say
from suite.results.table import PLAIN, TableFacts, TrialTable, curve_columns
from suite.studies.replicates import finals_of
from suite.tracking.schema.leaderboard_view import run_page
from trials.common.errors import UserError, unknown
from trials.run import outcome
from trials.run.spec import Scenario, TrialSpec
from trials.scoring.metrics import TASKS
from trials.settings import Settings

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
Key = tuple[str, str]
"""A sweep and one of its entries, or of its trials."""
Row = Mapping[Any, Any]
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

    def of(self, name: str | None, studies: Collection[str] = ()) -> Tables:
        """Return the sweep of this name, or else those of the study of this name, or those of `studies`. Raises `UserError` for a name
        that none of them has.
        """
        if not self.sources:
            raise UserError(self.nothing)
        if chosen := [source for source in self.sources if source.sweep == name]:
            return replace(self, sources=chosen, named=True)
        kind, studies = ("sweep", [name]) if name is not None else ("study", studies)
        for study in studies:
            own = [source.sweep for source in self.sources if source.study == study]
            if not own:
                sweeps = [source.sweep for source in self.sources if kind == "sweep"]
                raise unknown(kind, study, {*sweeps, *(source.study for source in self.sources)})
            if name is not None:
                say(f"{name} is a study; its sweeps: {', '.join(own)}")
        chosen = [source for source in self.sources if source.study in studies]
        return replace(self, sources=chosen) if studies else self

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
        """The entries of all sweeps in the order of their studies, a row each, with their `EntryFacts`, the `TableFacts` of their
        sweeps, and the `page` of their row in MLflow; `finals` counts final runs, and `going` says that an entry of the scenario lacks
        some, of a sweep that has not ended.
        """
        import pandas as pd

        counts = self.finals.groupby(KEYS).size()
        rows = []
        for facts in self.facts.values():
            for entry in facts.entries:
                asked = entry.model_dump(exclude={"id", "name", "space", "row", "tuned"})
                finals = int(counts.get((facts.name, entry.id), 0))
                going = facts.ended is None and finals < finals_of(facts.study)
                names = {"sweep": facts.name, "study": facts.study_name, "entry_id": entry.id}
                page = run_page(facts.experiment, entry.row) if entry.row else ""
                whole = {"facts": facts, "entry": entry, "finals": finals, "going": going}
                rows.append({**names, **asked, **whole, "page": page})
        frame = pd.DataFrame(rows)
        frame["going"] = frame.groupby(["sweep", *Scenario._fields])["going"].transform("any")
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
        rows = self.frame(names, FINALS).to_dict("records")
        return {(row["sweep"], row["trial_id"]): history_of(row, columns) for row in rows}


def within(frame: pd.DataFrame, other: pd.DataFrame) -> Any:
    """Return which rows of a frame are of the entries of another."""
    import pandas as pd

    return pd.MultiIndex.from_frame(frame[KEYS]).isin(pd.MultiIndex.from_frame(other[KEYS]))


def each(frame: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a data frame, with its columns as attributes."""
    return frame.itertuples(index=False)


def history_of(row: Row, columns: Iterable[str]) -> History:
    """Return the evaluations of a row, whose metrics have their full names."""
    named = curve_columns(row["metric"], TASKS[row["metric"]].pooled)
    recorded = [column for column in columns if row[column] is not None]
    rounds, history = () if row["round"] is None else row["round"], []
    for at, *values in zip(rounds, *(row[c] for c in recorded), strict=True):
        entry: dict[str, float] = {"round": int(at)}
        for column, value in zip(recorded, values, strict=True):
            if value == value:
                entry[named[column]] = float(value)
        history.append(entry)
    return history


def is_lost(row: Row, metric: str) -> bool:
    """Return whether a metric has no mean over the last evaluations, or the run diverged."""
    return outcome.lost(metric, row["status"], (row["not_finite"] or "").split())


def run_id(row: Row) -> str:
    """Return the run of a row in MLflow; before it has one, a name of its own."""
    return row["run_id"] or f"{row['sweep']}/{row['trial_id']}"


def spec_of(row: Row) -> TrialSpec:
    """Return the trial that a row is of: all that it takes to run it again."""
    settings = Settings.model_validate(json.loads(row["settings"]))
    params = json.loads(row["params"])
    own = {name: value for name, value in params.items() if name not in Settings.model_fields}
    names = {name: row[name] for name in ("algorithm", *Scenario._fields, "seed")}
    return TrialSpec(params=own, settings=settings, **names)


def nothing_in(storage: object) -> str:
    """Say that a storage has no sweep yet, and what to do."""
    more = "run `suite sweep quickstart`, or name another place with --storage or --tracking-uri"
    return f"there is no sweep in {storage} yet: {more}"
