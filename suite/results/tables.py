"""The tables of several sweeps as one, and what is read of a row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from suite.results.table import PLAIN, TrialTable, curve_columns
from suite.studies.replicates import finals_of
from suite.tracking.tags import run_page
from trials.run import outcome
from trials.run.spec import Scenario, TrialSpec
from trials.scoring.metrics import TASKS
from trials.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

SEARCHED = (
    *("sweep", "entry_id", "trial_id", "kind", "replicate", "number", "params", "status"),
    *("val_score", "error"),
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


class Tables:
    """The trials of some sweeps, those of the oldest first, read where they are asked for."""

    def __init__(self, tables: Sequence[TrialTable]) -> None:
        self.tables = sorted(tables, key=lambda table: table.facts.began)
        self.facts = {table.facts.name: table.facts for table in self.tables}

    @cached_property
    def entries(self) -> pd.DataFrame:
        """The entries of all sweeps in the order of their studies, a row each, with their `EntryFacts` as `entry` and the `page` of
        their row in MLflow; `finals` counts final runs, and `going` says that an entry of the scenario lacks some, of a sweep that
        has not ended.
        """
        import pandas as pd

        counts = self.finals.groupby(KEYS).size()
        rows = []
        for facts in self.facts.values():
            for entry in facts.entries:
                finals = int(counts.get((facts.name, entry.id), 0))
                row = {
                    "sweep": facts.name,
                    "study": facts.study_name,
                    "entry_id": entry.id,
                    **entry.model_dump(exclude={"id", "name", "space", "row", "tuned"}),
                    "entry": entry,
                    "finals": finals,
                    "going": facts.ended is None and finals < finals_of(facts.study),
                    "page": run_page(facts.experiment, entry.row) if entry.row else "",
                }
                rows.append(row)
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
    return frame.set_index(KEYS).index.isin(other.set_index(KEYS).index)


def each(frame: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a data frame, with its columns as attributes."""
    return frame.itertuples(index=False)


def history_of(row: Row, columns: Iterable[str]) -> History:
    """Return the evaluations of a row, whose metrics have their full names."""
    named = curve_columns(row["metric"], TASKS[row["metric"]].pooled)
    recorded = [column for column in columns if row[column] is not None]
    history = []
    for at, round_number in enumerate(() if row["round"] is None else row["round"]):
        values = {named[column]: float(row[column][at]) for column in recorded}
        finite = {name: value for name, value in values.items() if value == value}
        history.append({"round": int(round_number), **finite})
    return history


def is_lost(row: Row, metric: str) -> bool:
    """Return whether a metric has no mean over the last evaluations, or the run diverged."""
    return outcome.lost(metric, row["status"], (row["not_finite"] or "").split())


def run_id(row: Row) -> str:
    """Return the run of a row in MLflow; before it has one, a name of its own."""
    return row["run_id"] or f"{row['sweep']}/{row['trial_id']}"


def spec_of(row: Row) -> TrialSpec:
    """Return the trial that a row is of: all that it takes to run it again."""
    settings = Settings.model_validate_json(row["settings"])
    params = json.loads(row["params"])
    own = {name: value for name, value in params.items() if name not in Settings.model_fields}
    names = {name: row[name] for name in ("algorithm", *Scenario._fields, "seed")}
    return TrialSpec(params=own, settings=settings, **names)


def nothing_in(storage: object) -> str:
    """Say that a storage has no sweep yet, and what to do."""
    more = "run `suite sweep quickstart`, or name another place with --storage or --tracking-uri"
    return f"there is no sweep in {storage} yet: {more}"
