"""The table of a sweep, `runs/NAME/trials.parquet`, a row a trial, and several of them as one.

docs/table.md says what each column means. Any reader of Parquet opens it. The metadata of its schema holds the facts of
the whole sweep (`TableFacts`), under `suite`.
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
"""Its name in a sweep's folder."""
KEY = b"suite"
"""The key of the facts in the schema's metadata."""
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
"""The Arrow type of each column besides the curves, in their order."""
PLAIN = tuple(COLUMNS)
NEEDED = ["trial_id", "kind", "replicate", "number", "seed", "status", "metric"]
"""Columns with a value in each row."""
CLIENTS = ("worst10", "spread", "personal", "fine_tuned", "unseen")
CURVES = (
    *("round", "val", "test", "val_loss", "test_loss", "train_loss", "test_top5_accuracy"),
    *(f"test_{end}" for end in CLIENTS),
    *("client_steps_curve", "sample_gradients_curve", "uploaded_bytes_curve"),
    *("downloaded_bytes_curve", "peer_bytes_curve", "simulated_time_curve"),
)
"""A trial's history, one value per evaluation. Search trials have `SEARCH_CURVES` only. NaN is a missing value, null a missing curve."""
SEARCH_CURVES = ("round", "val", "test")
SEARCHED = (
    *("sweep", "entry_id", "trial_id", "kind", "replicate", "number", "params", "status"),
    *("val_score", "error"),
)
"""The columns read of search trials. They are few, since these trials are many."""
SEARCHES, FINALS = ("search", "confirm"), ("final",)
KEYS = ["sweep", "entry_id"]
"""The columns that identify an entry."""
Key = tuple[str, str]
"""A sweep and one of its entries, or of its trials."""
Row = Mapping[Any, Any]
"""A row of a table, by column."""
History = list[dict[str, float]]
"""The evaluations of a trial. Each has its `round` and those of the wanted metrics that are finite."""


def curve_columns(metric: str, pooled: str) -> dict[str, str]:
    """Return the metric of the history that each curve holds, for trials ranked by `metric`."""
    ends = {f"test_{end}": f"test_{pooled}_{end}" for end in CLIENTS}
    named = {"val": f"val_{metric}", "test": f"test_{metric}", **ends}
    return {name: named.get(name, name.removesuffix("_curve")) for name in CURVES}


class EntryFacts(BaseModel, extra="forbid", frozen=True):
    """An entry: its question, its ranges, notes of its trials and, after the end, the MLflow run of its `row` and its `tuned` file."""

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
    """Facts of a whole sweep. `cut`: the trials that a deadline left; `code`: the SHA-256 of third parties' code, by
    name; `looks`: the final runs per entry at earlier rankings; `journal`: the journal's length in bytes.
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
    """The trials of one sweep: a `pyarrow.Table`, or the path of a file, which is read where columns are asked for."""

    facts: TableFacts
    source: Any

    def columns(self, names: Sequence[str], kinds: Collection[str] = ()) -> pd.DataFrame:
        """Return these columns of the rows of these kinds (none: of all). Raises `UserError` where the file is damaged."""
        import pyarrow.compute as pc

        rows = self.whole([*dict.fromkeys([*names, "kind"])])
        if kinds:
            rows = rows.filter(pc.is_in(rows["kind"], pa.array(list(kinds))))
        frame: pd.DataFrame = rows.select(list(names)).to_pandas()
        for name in names:  # else pandas, by its version, has NaN for what is null
            if COLUMNS.get(name) not in ("int64", "float64"):
                frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
        if "sweep" in frame:
            frame["sweep"] = self.facts.name  # a file may go by another name among others
        if isinstance(self.source, Path):
            with _reading(self.source):
                _check(frame, {entry.id for entry in self.facts.entries})
        return frame

    def whole(self, names: Sequence[str] = PLAIN + CURVES) -> Any:
        """Return these columns of it as a `pyarrow.Table`; raises as `columns` does."""
        if not isinstance(self.source, Path):
            return self.source.select(names)
        with _reading(self.source):
            file = parquet.ParquetFile(self.source, page_checksum_verification=True)
            rows = file.read(columns=list(names))
            return rows.select(names).replace_schema_metadata(None)


def schema() -> Any:
    """Return the Arrow schema of all columns."""
    types = {name: pa.type_for_alias(kind) for name, kind in COLUMNS.items()}
    types |= dict.fromkeys(CURVES, pa.list_(pa.float64())) | {"round": pa.list_(pa.int32())}
    return pa.schema(types.items())


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a `pyarrow.Table`; a column that a row lacks is null there."""
    return pa.Table.from_pylist(list(rows), schema=schema())


def write(path: Path, table: TrialTable) -> None:
    """Write a table at once: a concurrent reader sees the former one. Raises `UserError` where the folder takes no file."""
    # Of ranges the ends or the choices are written, not when they are searched: `other` is a function.
    ranges = {"__all__": {"when", "searched", "under", "other"}}
    apart: Any = {"entries": {"__all__": {"space": ranges}}}
    text = table.facts.model_dump_json(exclude=apart, exclude_none=True)
    with writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as part:
            content = table.source.replace_schema_metadata({KEY: text})
            parquet.write_table(content, part, compression="zstd", write_page_checksum=True)
    pa.default_memory_pool().release_unused()


def read(path: Path) -> TrialTable:
    """Open a table without reading its rows. Raises `UserError` where it is absent, damaged, larger than memory, or not this version's."""
    with _reading(path):
        file = parquet.ParquetFile(path)
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        size = max(file.metadata.num_rows, sum(map(attrgetter("total_byte_size"), groups)))
        if size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            raise ValueError(f"this machine's memory does not hold the {size} bytes that it names")
        content = json.loads((file.schema_arrow.metadata or {}).get(KEY, "{}"))
        check_format(f"table {path}", content.get("format"))
        if not file.schema_arrow.equals(schema()):
            raise ValueError("its columns are not those of docs/table.md")
        return TrialTable(TableFacts.model_validate(content), path)


def _check(frame: pd.DataFrame, entries: Collection[str]) -> None:
    """Raise `ValueError` for rows that no sweep with these `entries` can have written."""
    for name in NEEDED:
        if name in frame and frame[name].isna().any():
            raise ValueError(f"{name} has no value in some rows")
    double = "trial_id" in frame and frame["trial_id"].duplicated().any()
    if double or ("entry_id" in frame and not frame["entry_id"].isin(entries).all()):
        raise ValueError("a trial is there twice, or of no entry of its sweep")
    if "metric" in frame and (strange := {*frame["metric"]} - TASKS.keys()):
        raise ValueError(f"metric {min(strange)!r} is none of {', '.join(TASKS)}")
    params = TypeAdapter(dict[str, Any]).validate_json
    readers: Any = {"params": params, "settings": Settings.model_validate_json}
    for name, read_text in readers.items():
        for text in frame[name].unique() if name in frame else ():
            read_text(text)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn an error in reading a file into a `UserError` of one line."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError) as error:  # Arrow's are among these, and pydantic's
        reason = str(error).splitlines()[0][:100]
        raise UserError(f"table {path} cannot be read: {reason}") from None


class Tables:
    """The trials of some sweeps, the oldest sweep first, read on demand."""

    def __init__(self, tables: Sequence[TrialTable]) -> None:
        self.tables = sorted(tables, key=lambda table: table.facts.began)
        self.facts = {table.facts.name: table.facts for table in self.tables}

    @cached_property
    def entries(self) -> pd.DataFrame:
        """Return a row per entry, in the order of studies: its `EntryFacts` (`facts`), the `page` of its row in MLflow,
        its number of `finals`. `going` is true while the sweep goes on and the scenario lacks final runs.
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
        """Return the final runs without their curves. `run_id` is unique, also where there is no run in MLflow."""
        rows = self.frame(PLAIN, FINALS)
        named = rows["sweep"] + "/" + rows["trial_id"]
        return rows.assign(run_id=rows["run_id"].where(rows["run_id"].astype(bool), named))

    @cached_property
    def searches(self) -> dict[Key, pd.DataFrame]:
        """Return the columns `SEARCHED` of each entry's search trials, ordered by number; entries without any are left out."""
        rows = self.frame(SEARCHED, SEARCHES)
        ordered = rows.sort_values(["replicate", "number", "kind", "trial_id"])
        return {(str(s), str(e)): trials for (s, e), trials in ordered.groupby(KEYS)}

    def frame(self, columns: Iterable[str], kinds: Collection[str] = ()) -> pd.DataFrame:
        """Return these columns of the rows of these kinds (none: of all)."""
        import pandas as pd

        names, full = [*columns], []
        for table in self.tables:
            frame = table.columns(names, kinds)
            full += [frame] if len(frame) else []
        return pd.concat(full, ignore_index=True) if full else pd.DataFrame(columns=names)

    def histories(self, columns: Collection[str]) -> dict[Key, History]:
        """Return these curves of each final run, by sweep and trial."""
        names = ["sweep", "trial_id", "metric", "round", *columns]
        rows = self.frame(names, FINALS).to_dict("records")
        return {(row["sweep"], row["trial_id"]): history_of(row, columns) for row in rows}


def each(frame: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a data frame, with its columns as attributes of any type."""
    return frame.itertuples(index=False)


def history_of(row: Row, columns: Iterable[str]) -> History:
    """Return the evaluations of a row, with the full names of metrics."""
    named = curve_columns(row["metric"], TASKS[row["metric"]].pooled)
    recorded = [column for column in columns if row[column] is not None]
    history = []
    for at, round_number in enumerate(() if row["round"] is None else row["round"]):
        evaluation: dict[str, float] = {"round": int(round_number)}
        for column in recorded:
            if not isnan(value := float(row[column][at])):
                evaluation[named[column]] = value
        history.append(evaluation)
    return history


def is_lost(row: Row, metric: str) -> bool:
    """Return whether a metric has no mean over the last evaluations, or the run diverged."""
    return outcome.lost(metric, row["status"], (row["not_finite"] or "").split())


def spec_of(row: Row) -> TrialSpec:
    """Return the spec of a row's trial: all that is needed to run it again."""
    settings = Settings.model_validate_json(row["settings"])
    params = without(json.loads(row["params"]), Settings.model_fields)
    names = only(row, ("algorithm", *Scenario._fields, "seed"))
    return TrialSpec(params=params, settings=settings, **names)


def nothing_in(storage: object) -> str:
    """Say that a storage has no sweep yet, and what to do."""
    return (
        f"there is no sweep in {storage} yet: run one, or name another --storage or --tracking-uri"
    )
