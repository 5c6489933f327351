"""The table of a sweep, a Parquet file `runs/NAME/trials.parquet` with a row per trial, and several tables read as one.

docs/table.md says what each column means. The metadata of the file's schema has the facts of the whole sweep (`TableFacts`)
under the key `suite`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter

from suite.formats import FORMAT, check_format
from suite.studies.replicates import finals_of
from suite.tracking.tags import run_page
from suite.yaml_files import replacing, writing
from trials.algorithm import Range
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.common.mappings import only, without
from trials.run import outcome
from trials.run.spec import Scenario, TrialSpec
from trials.scoring.metrics import TASKS
from trials.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

pa: Any = Lazy("pyarrow")
parquet: Any = Lazy("pyarrow.parquet")

FILE = "trials.parquet"
"""The name of the table's file in a sweep's folder."""
KEY = b"suite"
"""The key of `TableFacts` in the metadata of the file's schema."""
_TYPES = (
    ("string", "sweep study trial_id kind entry_id entry algorithm paper dataset model"),
    ("string", "heterogeneity metric"),
    ("bool", "reference"),
    ("string", "outside away replicate"),
    ("int64", "split partition tuning number"),
    ("string", "origin source warm_start params settings"),
    ("int64", "seed"),
    ("string", "status"),
    ("bool", "feasible"),
    ("string", "not_finite error"),
    ("int64", "last_round"),
    ("float64", "val_score test_score worst_clients client_spread client_steps gradient_passes"),
    ("float64", "sample_gradients uploaded_bytes downloaded_bytes peer_bytes"),
    ("bool", "reached"),
    ("float64", "reached_round reached_client_steps reached_bytes"),
    ("string", "partition_fingerprint execution"),
    ("int64", "chunk"),
    ("string", "halved device model_note data_note"),
    ("float64", "seconds"),
    ("string", "version torch_version numba_version git_commit run_id"),
)
COLUMNS = {name: kind for kind, names in _TYPES for name in names.split()}
"""The Arrow type of each column except the curves, in the order of the file."""
PLAIN = tuple(COLUMNS)
NEEDED = ["trial_id", "kind", "replicate", "number", "seed", "status", "metric"]
"""Columns that have a value in each row."""
CLIENTS = ("worst10", "spread", "personal", "fine_tuned", "unseen")
CURVES = (
    *("round", "val", "test", "val_loss", "test_loss", "train_loss", "test_top5_accuracy"),
    *(f"test_{end}" for end in CLIENTS),
    *("client_steps_curve", "sample_gradients_curve", "uploaded_bytes_curve"),
    *("downloaded_bytes_curve", "peer_bytes_curve", "simulated_time_curve"),
)
"""Columns with a list per trial, a value per evaluation. Search trials have only `SEARCH_CURVES`. A missing value is NaN, a missing curve null."""
SEARCH_CURVES = ("round", "val", "test")
SEARCHED = (
    *("sweep", "entry_id", "trial_id", "kind", "replicate", "number", "params", "status"),
    *("val_score", "error"),
)
"""The columns to read of search trials, as few as possible, since there are many such trials."""
SEARCHES, FINALS = ("search", "confirm"), ("final",)
KEYS = ["sweep", "entry_id"]
"""The columns that identify an entry."""
Key = tuple[str, str]
"""The name of a sweep, and the id of one of its entries or trials."""
Row = Mapping[Any, Any]
"""A row of a table: its values by column."""
History = list[dict[str, float]]
"""The evaluations of a trial: each has its `round`, and those requested metrics that are finite."""


def curve_columns(metric: str, pooled: str) -> dict[str, str]:
    """Return the metric of each curve column, such as {"test": "test_accuracy"}. Metrics of clients' scores are named after `pooled`."""
    ends = {f"test_{end}": f"test_{pooled}_{end}" for end in CLIENTS}
    named = {"val": f"val_{metric}", "test": f"test_{metric}", **ends}
    return {name: named.get(name, name.removesuffix("_curve")) for name in CURVES}


class EntryFacts(BaseModel, extra="forbid", frozen=True):
    """An entry of a sweep. After the sweep, `row` is the MLflow run of its leaderboard row, and `tuned` its tuned configuration."""

    id: str
    name: str
    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    metric: str
    reference: bool
    space: dict[str, Range]
    row: str = ""
    tuned: str = ""
    own_models: bool = False
    test_samples: int = 0


class TableFacts(BaseModel, extra="forbid", frozen=True):
    """Facts about a sweep. `cut` says how a deadline shortened the search. `code` has the SHA-256 of third-party code by
    name. `looks` has the numbers of final runs per entry in earlier, smaller rankings. `journal` is the journal's size in bytes.
    """

    format: int = FORMAT
    name: str
    id: str
    study_name: str
    study: dict[str, Any]
    entries: list[EntryFacts]
    began: float
    ended: float | None = None
    cut: str = ""
    code: dict[str, str] = {}
    looks: list[int] = []
    versions: dict[str, str] = {}
    journal: int = 0
    experiment: str = ""
    run_id: str = ""


@dataclass(frozen=True)
class TrialTable:
    """The trials of one sweep. `source` is a `pyarrow.Table`, or the path of a file whose columns are read on demand."""

    facts: TableFacts
    source: Any

    def columns(self, names: Sequence[str], kinds: Collection[str] = ()) -> pd.DataFrame:
        """Return the named columns as a data frame. `kinds`, such as `final`, limit the trials. Raise `UserError` for a damaged file."""
        import pyarrow.compute as pc

        rows = self.whole([*dict.fromkeys([*names, "kind"])])
        if kinds:
            rows = rows.filter(pc.is_in(rows["kind"], pa.array(list(kinds))))
        frame: pd.DataFrame = rows.select(list(names)).to_pandas()
        for name in names:  # some versions of pandas have NaN for null
            if COLUMNS.get(name) not in ("int64", "float64"):
                frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
        if "sweep" in frame:
            frame["sweep"] = self.facts.name  # renamed if another sweep has the name in the file
        if isinstance(self.source, Path):
            with _reading(self.source):
                _check(frame, {entry.id for entry in self.facts.entries})
        return frame

    def whole(self, names: Sequence[str] = PLAIN + CURVES) -> Any:
        """Return the named columns of all trials as a `pyarrow.Table`. Raise `UserError` if the file is damaged."""
        if not isinstance(self.source, Path):
            return self.source.select(names)
        with _reading(self.source):
            file = parquet.ParquetFile(self.source, page_checksum_verification=True)
            rows = file.read(columns=list(names))
            return rows.select(names).replace_schema_metadata(None)


def schema() -> Any:
    """Return the Arrow schema of a table with all columns."""
    types = {name: pa.type_for_alias(kind) for name, kind in COLUMNS.items()}
    types |= dict.fromkeys(CURVES, pa.list_(pa.float64())) | {"round": pa.list_(pa.int32())}
    return pa.schema(types.items())


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return the rows as a `pyarrow.Table` with all columns of a sweep's table. Missing values become null."""
    return pa.Table.from_pylist(list(rows), schema=schema())


def write(path: Path, table: TrialTable) -> None:
    """Write a table to a file. An old file is replaced only by a complete new one. Raise `UserError` if writing fails."""
    # Conditions of a search are left out, and `other`, which is a function.
    conditions = {"__all__": {"when", "searched", "under", "other"}}
    excluded: Any = {"entries": {"__all__": {"space": conditions}}}
    text = table.facts.model_dump_json(exclude=excluded, exclude_none=True)
    with writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as part:
            content = table.source.replace_schema_metadata({KEY: text})
            parquet.write_table(content, part, compression="zstd", write_page_checksum=True)
    pa.default_memory_pool().release_unused()


def read(path: Path) -> TrialTable:
    """Open a table without reading its rows. Raise `UserError` if the file is missing, damaged, too large, or of another version."""
    with _reading(path):
        file = parquet.ParquetFile(path)
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        size = max(file.metadata.num_rows, sum(map(attrgetter("total_byte_size"), groups)))
        if size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            raise ValueError(f"its {size} bytes do not fit into this machine's memory")
        content = json.loads((file.schema_arrow.metadata or {}).get(KEY, "{}"))
        check_format(f"table {path}", content.get("format"))
        if not file.schema_arrow.equals(schema()):
            raise ValueError("its columns are not those of docs/table.md")
        return TrialTable(TableFacts.model_validate(content), path)


def _check(frame: pd.DataFrame, entries: Collection[str]) -> None:
    """Raise `ValueError` if a row is invalid, is repeated, or has an entry id outside `entries`."""
    for name in NEEDED:
        if name in frame and frame[name].isna().any():
            raise ValueError(f"{name} has no value in some rows")
    twice = "trial_id" in frame and frame["trial_id"].duplicated().any()
    if twice or ("entry_id" in frame and not frame["entry_id"].isin(entries).all()):
        raise ValueError("a trial is there twice, or belongs to no entry of its sweep")
    if "metric" in frame and (unknown := {*frame["metric"]} - TASKS.keys()):
        raise ValueError(f"metric {min(unknown)!r} is none of {', '.join(TASKS)}")
    params = TypeAdapter(dict[str, Any]).validate_json
    readers: Any = {"params": params, "settings": Settings.model_validate_json}
    for name, read_text in readers.items():
        for text in frame[name].unique() if name in frame else ():
            read_text(text)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors that occur in this context into a one-line `UserError` on the file `path`."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError) as error:  # errors of Arrow and pydantic are among these
        reason = str(error).splitlines()[0][:100]
        raise UserError(f"table {path} cannot be read: {reason}") from None


class Tables:
    """The tables of several sweeps, the oldest sweep first. Their rows are read on demand."""

    def __init__(self, tables: Sequence[TrialTable]) -> None:
        self.tables = sorted(tables, key=lambda table: table.facts.began)
        self.facts = {table.facts.name: table.facts for table in self.tables}

    @cached_property
    def entries(self) -> pd.DataFrame:
        """Return a data frame with a row for each entry. Its column `facts` has the `EntryFacts`, `finals` the number of
        final runs, and `page` the address of the entry's leaderboard row in MLflow. `going` is true if the sweep is
        unfinished and an entry of the same scenario lacks final runs.
        """
        import pandas as pd

        counts, rows = self.finals.groupby(KEYS).size(), []
        for sweep in self.facts.values():
            for entry in sweep.entries:
                finals = int(counts.get((sweep.name, entry.id), 0))
                row = entry.model_dump(exclude={"id", "name", "space", "row", "tuned"}) | {
                    "sweep": sweep.name,
                    "study": sweep.study_name,
                    "entry_id": entry.id,
                    "entry": entry.name,
                    "facts": entry,
                    "finals": finals,
                    "going": sweep.ended is None and finals < finals_of(sweep.study),
                    "page": run_page(sweep.experiment, entry.row) if entry.row else "",
                }
                rows.append(row)
        frame = pd.DataFrame(rows)
        frame["going"] = frame.groupby(["sweep", *Scenario._fields])["going"].transform("any")
        return frame

    @cached_property
    def finals(self) -> pd.DataFrame:
        """Return a data frame of the final runs, without curves. A run that MLflow lacks has "SWEEP/TRIAL" as its `run_id`."""
        rows = self.frame(PLAIN, FINALS)
        names = rows["sweep"] + "/" + rows["trial_id"]
        return rows.assign(run_id=rows["run_id"].where(rows["run_id"].astype(bool), names))

    @cached_property
    def searches(self) -> dict[Key, pd.DataFrame]:
        """Return each entry's search trials and confirming runs, by (sweep, entry id). Rows are sorted by replicate and number."""
        rows = self.frame(SEARCHED, SEARCHES)
        ordered = rows.sort_values(["replicate", "number", "kind", "trial_id"])
        return {(str(s), str(e)): trials for (s, e), trials in ordered.groupby(KEYS)}

    def frame(self, columns: Iterable[str], kinds: Collection[str] = ()) -> pd.DataFrame:
        """Return the named columns of all tables as one data frame. `kinds`, such as `search` and `final`, limit the trials."""
        import pandas as pd

        names, frames = [*columns], []
        for table in self.tables:
            frame = table.columns(names, kinds)
            frames += [frame] if len(frame) else []
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)

    def histories(self, columns: Collection[str]) -> dict[Key, History]:
        """Return the evaluations of each final run by (sweep, trial id). Each evaluation has the metrics of `columns`."""
        names = ["sweep", "trial_id", "metric", "round", *columns]
        rows = self.frame(names, FINALS).to_dict("records")
        return {(row["sweep"], row["trial_id"]): history_of(row, columns) for row in rows}


def each(frame: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a data frame as named tuples."""
    return frame.itertuples(index=False)


def history_of(row: Row, columns: Iterable[str]) -> History:
    """Return the evaluations of a row's trial. Their metrics have full names: the column `test` holds `test_accuracy`, for example."""
    named = curve_columns(row["metric"], TASKS[row["metric"]].pooled)
    recorded = [column for column in columns if row[column] is not None]
    history = []
    for index, round_number in enumerate(() if row["round"] is None else row["round"]):
        evaluation: dict[str, float] = {"round": int(round_number)}
        for column in recorded:
            if not isnan(value := float(row[column][index])):
                evaluation[named[column]] = value
        history.append(evaluation)
    return history


def is_lost(row: Row, metric: str) -> bool:
    """Return whether a run diverged or its final `metric` is not finite. Such a run gets the untrained model's score."""
    return outcome.lost(metric, row["status"], (row["not_finite"] or "").split())


def spec_of(row: Row) -> TrialSpec:
    """Return the trial specification in a row, which suffices to run the trial again."""
    settings = Settings.model_validate_json(row["settings"])
    params = without(json.loads(row["params"]), Settings.model_fields)
    names = only(row, ("algorithm", *Scenario._fields, "seed"))
    return TrialSpec(params=params, settings=settings, **names)


def nothing_in(storage: object) -> str:
    """Return the message for a storage folder without sweeps, which also says what to do."""
    return (
        f"there is no sweep in {storage} yet: run one, or name another --storage or --tracking-uri"
    )
