"""The table of a sweep, `runs/NAME/trials.parquet`: a row a trial. docs/table.md says what each column means.

Any reader of Parquet opens it. What is one for the whole sweep (`TableFacts`) is in the metadata of its schema, under `suite`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from suite.formats import FORMAT, check_format
from suite.yaml_files import replacing, writing
from trials.algorithm import Range
from trials.common.errors import UserError
from trials.common.lazy import Lazy

if TYPE_CHECKING:
    import pandas as pd

pa: Any = Lazy("pyarrow")
parquet: Any = Lazy("pyarrow.parquet")

FILE = "trials.parquet"
"""Its name in a sweep's folder."""
KEY = b"suite"
"""What of the schema's metadata holds the facts."""
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
    ("float64", "reached_round reached_client_steps reached_bytes rounds_to_target"),
    ("string", "partition_fingerprint execution"),
    ("int64", "chunk"),
    ("string", "halved device model_note data_note"),
    ("float64", "seconds"),
    ("string", "version torch_version numba_version git_commit run_id"),
)
COLUMNS = {name: kind for kind, names in _TYPES for name in names.split()}
"""The Arrow type of each column besides the curves, in their order."""
PLAIN = tuple(COLUMNS)
CLIENTS = ("worst10", "spread", "personal", "fine_tuned", "unseen")
CURVES = (
    *("round", "val", "test", "val_loss", "test_loss", "train_loss", "test_top5_accuracy"),
    *(f"test_{end}" for end in CLIENTS),
    *("client_steps_curve", "sample_gradients_curve", "uploaded_bytes_curve"),
    *("downloaded_bytes_curve", "peer_bytes_curve", "simulated_time_curve"),
)
"""The history of a trial, one value an evaluation: of one of the search `SEARCH_CURVES` alone. NaN where an evaluation lacks the
metric, null where all do. They are read only where they are asked for.
"""
SEARCH_CURVES = ("round", "val", "test")


def curve_columns(metric: str, pooled: str) -> dict[str, str]:
    """Return the metric of a trial's history that each curve holds, where it is ranked by `metric`."""
    ends = {f"test_{end}": f"test_{pooled}_{end}" for end in CLIENTS}
    named = {"val": f"val_{metric}", "test": f"test_{metric}", **ends}
    return {name: named.get(name, name.removesuffix("_curve")) for name in CURVES}


class EntryFacts(BaseModel, extra="forbid", frozen=True):
    """An entry: what it asks, the ranges that it searches, and, once the sweep has ended, its `row`'s run in MLflow and `tuned` file.
    Its trials say whether what is scored are clients' `own_models`, and how many `test_samples` there are.
    """

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
    """What is one for a whole sweep. `study` is its study, `journal` is how many bytes the
    journal had when the table was made; `cut` says how many trials a deadline left, `code` has the SHA-256 of others' code by
    name, `looks` with how many final runs an entry its leaderboard was drawn before it was extended. `experiment` and `run_id` are where MLflow has it.
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
        with _reading(self.source):
            rows = self.whole([*dict.fromkeys([*names, "kind"])])
            if kinds:
                import pyarrow.compute as pc

                rows = rows.filter(pc.is_in(rows["kind"], pa.array(list(kinds))))
            frame: pd.DataFrame = rows.select(list(names)).to_pandas()
        for name in names:  # else pandas, by its version, has NaN for what is null
            if COLUMNS.get(name) not in ("int64", "float64"):
                frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
        if "sweep" in frame:
            frame["sweep"] = self.facts.name  # a file may go by another name among others
        return frame

    def whole(self, names: Sequence[str] = PLAIN + CURVES) -> Any:
        """Return these columns of it as a `pyarrow.Table`."""
        if not isinstance(self.source, Path):
            return self.source.select(names)
        with _reading(self.source):
            rows = parquet.ParquetFile(self.source).read(columns=list(names))
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
    """Write a table whole: who reads meanwhile has the one before. Raises `UserError` where the folder takes no file."""
    with writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Of ranges the ends or the choices are written, not when they are searched.
        ranges = {"__all__": {"when", "searched", "under", "other"}}
        apart: Any = {"entries": {"__all__": {"space": ranges}}}
        text = table.facts.model_dump_json(exclude=apart, exclude_none=True)
        content = table.source.replace_schema_metadata({KEY: text})
        with replacing(path) as part:
            parquet.write_table(content, part, compression="zstd")


def read(path: Path) -> TrialTable:
    """Open a table without reading its rows. Raises `UserError` where it is absent, damaged, larger than memory, or not this version's."""
    with _reading(path):
        file = parquet.ParquetFile(path)
        groups, columns = range(file.metadata.num_row_groups), file.schema_arrow
        size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        if max(size, file.metadata.num_rows) > os.sysconf("SC_PAGE_SIZE") * os.sysconf(
            "SC_PHYS_PAGES"
        ):
            raise ValueError(f"this machine's memory does not hold the {size} bytes that it names")
        text = (columns.metadata or {}).get(KEY, b"null")
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError("its schema has no metadata `suite`")
        check_format(f"table {path}", content.get("format"))
        for field in schema():
            if field.name not in columns.names or columns.field(field.name).type != field.type:
                raise ValueError(f"it lacks the column {field.name} ({field.type})")
        return TrialTable(TableFacts.model_validate(content), path)


@contextmanager
def _reading(path: object) -> Iterator[None]:
    """Turn what is wrong with a file into one line."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"there is no table {path}") from None
    except (OSError, ValueError, MemoryError, RecursionError) as error:  # Arrow's are the first two
        lines = str(error).splitlines() or [repr(error)]
        raise UserError(f"table {path} cannot be read: {lines[0][:100]}") from None
