"""The bank as parquet files: its columns, reading, merging and writing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.tracking import RUNS
from suite.yaml_files import writable
from trials.common.errors import UserError
from trials.common.lazy import Lazy

if TYPE_CHECKING:
    import pandas as pd

pa = Lazy("pyarrow")
parquet = Lazy("pyarrow.parquet")

COLUMNS = {
    **dict.fromkeys(("study", "trial_id", "kind", "origin", "source"), "string"),
    **dict.fromkeys(("algorithm", "dataset", "model", "heterogeneity"), "string"),
    **dict.fromkeys(("family", "metric"), "string"),
    **dict.fromkeys(("rounds", "clients", "batch_size", "local_epochs"), "int32"),
    "participation": "float64",
    "settings": "string",
    **dict.fromkeys(("samples", "features", "classes", "weights"), "int64"),
    **dict.fromkeys(("label_skew", "size_spread"), "float64"),
    "configuration": "string",
    "seed": "int64",
    **dict.fromkeys(("tuning", "partition", "split"), "int32"),
    "status": "string",
    **dict.fromkeys(("val_score", "test_score"), "float64"),
    "evaluations": "list<int32>",
    **dict.fromkeys(("val_curve", "test_curve"), "list<float32>"),
    **dict.fromkeys(("client_steps", "sample_gradients", "bytes"), "int64"),
    "seconds": "float32",
    **dict.fromkeys(("version", "commit"), "string"),
}
"""The type of each column; docs/bank.md says what each holds."""
KEY = (
    *("study", "trial_id", "algorithm", "dataset", "model", "heterogeneity"),
    *("settings", "configuration", "seed"),
)
"""Rows that agree in these are one trial."""
ORDER = ("study", "dataset", "heterogeneity", "model", "algorithm", "trial_id")
"""Rows are sorted by these, which makes files smaller."""


def shipped() -> Path:
    """The folder of the bank that comes with the project."""
    return Path(str(files("search_spaces").joinpath("bank")))


def load(*sources: Path | str, storage: Path | str = RUNS) -> pd.DataFrame:
    """The trials of these files or folders, a row each; by default those of the shipped bank and of `bank/` below
    the storage. Raises `UserError` where one cannot be read.
    """
    given = [Path(source) for source in sources] or [shipped(), Path(storage) / "bank"]
    return merged(read(path) for path in found(given)).to_pandas()


def found(sources: Iterable[Path]) -> list[Path]:
    """The parquet files among files and folders; a folder that is not there has none."""
    paths: list[Path] = []
    for source in sources:
        folder = source.is_dir() or not source.suffix
        paths += sorted(source.glob("*.parquet")) if folder else [source]
    return paths


def table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a `pyarrow.Table` with the bank's columns."""
    return pa.Table.from_pylist(list(rows), schema=_schema())


def read(path: Path) -> Any:
    """A file's rows as a `pyarrow.Table`; raises `UserError` in one line where it is absent, damaged, or no bank."""
    try:
        content = parquet.ParquetFile(path).read()
    except FileNotFoundError:
        raise UserError(f"there is no bank {path}") from None
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        reason = str(error).splitlines()[0][:100]
        raise UserError(f"bank {path} cannot be read: {reason}") from None
    if content.schema.remove_metadata() != _schema():
        lacking = sorted(set(COLUMNS) - set(content.column_names))
        what = f"lacks the column {lacking[0]}" if lacking else "has other columns"
        raise UserError(f"bank {path} {what}: it is no file of `suite bank export`")
    return content


def merged(tables: Iterable[Any]) -> Any:
    """The rows of all tables, each trial once (the first of those that agree in `KEY`), sorted."""
    whole = pa.concat_tables([_schema().empty_table(), *tables])
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for number, key in enumerate(zip(*(whole[name].to_pylist() for name in KEY), strict=True)):
        if key not in seen:
            seen.add(key)
            kept.append(number)
    return whole.take(pa.array(kept, pa.int64())).sort_by([(name, "ascending") for name in ORDER])


def write(path: Path, content: Any) -> None:
    """Write a table, all or nothing; raises `UserError` where the folder cannot be written."""
    with writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}.{os.getpid()}")
        parquet.write_table(content, half, compression="zstd", compression_level=12)
        half.replace(path)


def _schema() -> Any:
    types = {"list<int32>": pa.list_(pa.int32()), "list<float32>": pa.list_(pa.float32())}
    named = {name: types.get(kind) or getattr(pa, kind)() for name, kind in COLUMNS.items()}
    return pa.schema(list(named.items()))
