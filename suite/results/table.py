"""The table of a sweep: a row a trial, what each column holds, and how the file is written and read.

    runs/NAME/trials.parquet

Any reader of Parquet opens it. What is one for the whole sweep (`TableFacts`) is in the metadata of its schema, under `suite`.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, field_serializer

from suite.formats import FORMAT, check_format
from suite.yaml_files import writable
from trials.algorithm import Range
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.run.spec import Scenario

if TYPE_CHECKING:
    import pandas as pd

pa: Any = Lazy("pyarrow")
parquet: Any = Lazy("pyarrow.parquet")

FILE = "trials.parquet"
"""Its name in a sweep's folder."""
KEY = b"suite"
"""What of the schema's metadata holds the facts."""


class TableColumn(NamedTuple):
    """A column: its Arrow type (`list<...>`: a curve, one value an evaluation), its unit, and its meaning."""

    name: str
    type: str
    unit: str
    meaning: str


TEXT, WHOLE, NUMBER, YES = "string", "int64", "float64", "bool_"
COLUMNS = (
    TableColumn("sweep", TEXT, "", "the sweep's name"),
    TableColumn("study", TEXT, "", "the study's name"),
    TableColumn("trial_id", TEXT, "", "the trial's id within its sweep"),
    TableColumn(
        "kind",
        TEXT,
        "",
        "`search`, `confirm` (repeats one of the best with a further seed), `final`, or `superseded`: a final run of a former best",
    ),
    TableColumn("entry_id", TEXT, "", "the entry's id: a hash of what is asked"),
    TableColumn("entry", TEXT, "", "the entry's readable name"),
    TableColumn("algorithm", TEXT, "", "the algorithm"),
    TableColumn("paper", TEXT, "", "where the algorithm is from"),
    TableColumn("dataset", TEXT, "", "the data set"),
    TableColumn("model", TEXT, "", "the model"),
    TableColumn("heterogeneity", TEXT, "", "the heterogeneity level"),
    TableColumn("metric", TEXT, "", "what the entry is ranked by: `accuracy`, `mse`, ..."),
    TableColumn("reference", YES, "", "whether it is shown without a rank"),
    TableColumn("outside", TEXT, "", "how its settings are not those that its paper assumes"),
    TableColumn("away", TEXT, "", "what its scenario lacks of its paper's own experiments"),
    TableColumn("replicate", TEXT, "", "the replicate of its entry: empty for the first, else `t2`, `d1`, `v1d1t2`"),
    TableColumn("split", WHOLE, "", "the split of that replicate, counted from 0"),
    TableColumn("partition", WHOLE, "", "the partition of that replicate, counted from 0"),
    TableColumn("tuning", WHOLE, "", "the tuning of that replicate, counted from 0"),
    TableColumn("number", WHOLE, "", "the number of the search trial that it is, or repeats"),
    TableColumn("origin", TEXT, "", "where its configuration is from: `default`, `published`, `warm`, `sampled`"),
    TableColumn("source", TEXT, "", "the search trial that it repeats; of a warm start, its source"),
    TableColumn("warm_start", TEXT, "", "the sources of the configurations that its entry started from"),
    TableColumn("params", TEXT, "JSON", "the configuration as the search chose it"),
    TableColumn("settings", TEXT, "JSON", "all settings that it ran under"),
    TableColumn("seed", WHOLE, "", "its run seed"),
    TableColumn("status", TEXT, "", "`finished`, `pruned`, `diverged`, `failed`"),
    TableColumn("feasible", YES, "", "whether it keeps the study's constraints; null without any"),
    TableColumn("not_finite", TEXT, "", "metrics without a mean, since they were not finite, between spaces"),
    TableColumn("error", TEXT, "", "the end of the traceback of a trial that failed"),
    TableColumn("last_round", WHOLE, "rounds", "the round of its last evaluation"),
    TableColumn("val_score", NUMBER, "metric", "the mean of its last three evaluations on validation data"),
    TableColumn("test_score", NUMBER, "metric", "the same on test data; of a trial that diverged, the untrained model's"),
    TableColumn("worst_clients", NUMBER, "metric", "test score of the worst 10 % of clients; of a lost run, the untrained model's"),
    TableColumn("client_spread", NUMBER, "metric", "standard deviation of the test score over clients"),
    TableColumn("client_steps", NUMBER, "steps", "all steps of all clients"),
    TableColumn("gradient_passes", NUMBER, "passes", "all full-gradient passes"),
    TableColumn("sample_gradients", NUMBER, "samples", "all samples whose gradient was taken"),
    TableColumn("uploaded_bytes", NUMBER, "bytes", "sent to the server"),
    TableColumn("downloaded_bytes", NUMBER, "bytes", "sent by the server"),
    TableColumn("peer_bytes", NUMBER, "bytes", "sent between clients"),
    TableColumn("reached", YES, "", "of a final run of a study with a target: whether it was reached"),
    TableColumn("reached_round", NUMBER, "rounds", "the first evaluation at or past the target"),
    TableColumn("reached_client_steps", NUMBER, "steps", "client steps until then"),
    TableColumn("reached_bytes", NUMBER, "bytes", "bytes in all directions until then"),
    TableColumn("rounds_to_target", NUMBER, "rounds", "of a search that bounds it: when validation reached the target"),
    TableColumn("partition_fingerprint", TEXT, "", "a checksum of samples, splits and owners"),
    TableColumn("execution", TEXT, "", "how rounds were computed"),
    TableColumn("chunk", WHOLE, "clients", "how many clients were computed at once; null: all"),
    TableColumn("halved", TEXT, "JSON", "from which round on memory held a smaller chunk only"),
    TableColumn("device", TEXT, "", "`cpu`, or the name of a GPU"),
    TableColumn("model_note", TEXT, "", "how a model of others was computed, and why"),
    TableColumn("data_note", TEXT, "", "how the columns of a table were made features"),
    TableColumn("seconds", NUMBER, "seconds", "how long it took"),
    TableColumn("version", TEXT, "", "the version of suite-fl"),
    TableColumn("torch_version", TEXT, "", "the version of PyTorch"),
    TableColumn("numba_version", TEXT, "", "the version of Numba"),
    TableColumn("git_commit", TEXT, "", "the commit of a checkout of suite"),
    TableColumn("run_id", TEXT, "", "its run in MLflow; empty until it is recorded"),
)  # fmt: skip
"""What a row says besides the history of its trial."""
CURVES = (
    TableColumn("round", "list<int32>", "rounds", "the round of each evaluation, the untrained model's (0) first"),
    TableColumn("val", "list<double>", "metric", "the ranked metric on validation data"),
    TableColumn("test", "list<double>", "metric", "the ranked metric on test data"),
    TableColumn("val_loss", "list<double>", "loss", "the loss on validation data"),
    TableColumn("test_loss", "list<double>", "loss", "the loss on test data"),
    TableColumn("train_loss", "list<double>", "loss", "the mean minibatch loss of the round's local training"),
    TableColumn("test_top5_accuracy", "list<double>", "share", "top-5 accuracy on test data"),
    TableColumn("test_worst10", "list<double>", "metric", "the mean of the worst 10 % of clients: untrained and final model"),
    TableColumn("test_spread", "list<double>", "metric", "the standard deviation over clients: untrained and final model"),
    TableColumn("test_personal", "list<double>", "metric", "the mean over clients, each with its own model on its own data"),
    TableColumn("test_fine_tuned", "list<double>", "metric", "the same once clients trained the final model further"),
    TableColumn("test_unseen", "list<double>", "metric", "the mean over clients that took no part in training"),
    TableColumn("client_steps_curve", "list<double>", "steps", "client steps until then"),
    TableColumn("sample_gradients_curve", "list<double>", "samples", "samples whose gradient was taken until then"),
    TableColumn("uploaded_bytes_curve", "list<double>", "bytes", "sent to the server until then"),
    TableColumn("downloaded_bytes_curve", "list<double>", "bytes", "sent by the server until then"),
    TableColumn("peer_bytes_curve", "list<double>", "bytes", "sent between clients until then"),
    TableColumn("simulated_time_curve", "list<double>", "seconds", "simulated time until then, where a level has speeds"),
)  # fmt: skip
"""The history of a trial: of one of the search `round`, `val` and `test` alone. NaN where an evaluation lacks the metric,
null where all do. They are read only where they are asked for.
"""
SEARCH_CURVES = ("round", "val", "test")
OBJECTS = {c.name for c in COLUMNS + CURVES if c.type not in (WHOLE, NUMBER)}
PLAIN = tuple(column.name for column in COLUMNS)


def curve_columns(metric: str, pooled: str) -> dict[str, str]:
    """Return the metric of a trial's history that each curve holds, where it is ranked by `metric`."""
    ends = {f"test_{end}": f"test_{pooled}_{end}" for end in CLIENTS}
    named = {"val": f"val_{metric}", "test": f"test_{metric}", **ends}
    return {c.name: named.get(c.name, c.name.removesuffix("_curve")) for c in CURVES}


CLIENTS = ("worst10", "spread", "personal", "fine_tuned", "unseen")


class EntryFacts(BaseModel):
    """An entry of a sweep: what it asks, and the ranges that it searches. `row` is its row's run in MLflow, `tuned` its
    tuned file; empty before the sweep has ended.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

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

    @property
    def scenario(self) -> Scenario:
        """The scenario's address."""
        return Scenario.of(self)

    @field_serializer("space")
    def _written(self, space: Mapping[str, Range]) -> dict[str, dict[str, Any]]:
        """Write where ranges were searched, without what is so by default."""
        keys = ("type", "low", "high", "log", "choices", "above", "at_least", "at_most")
        spans = {}
        for name, span in space.items():
            values = {key: getattr(span, key) for key in keys}
            spans[name] = {k: v for k, v in values.items() if v is not None and v is not False}
        return spans


class TableFacts(BaseModel):
    """What is one for a whole sweep. `study` is its study, with `study_file` the path that a person gave; `journal` is how many bytes the
    journal had when the table was made; `cut` says how many trials a deadline left, `code` has the SHA-256 of others' code by
    name. `experiment` and `run_id` are where MLflow has it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    name: str
    id: str
    study_name: str
    study: dict[str, Any]
    study_file: str | None = None
    entries: list[EntryFacts]
    began: float
    ended: float | None = None
    cut: str = ""
    code: dict[str, str] = {}
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
        wanted = list(dict.fromkeys([*names, "kind"]))
        if isinstance(self.source, Path):
            with _reading(self.source):
                rows = parquet.ParquetFile(self.source).read(columns=wanted)
        else:
            rows = self.source.select(wanted)
        if kinds:
            import pyarrow.compute as pc  # slower to load than all the rest of it

            rows = rows.filter(pc.is_in(rows["kind"], pa.array(list(kinds))))
        with _reading(self.source):
            frame: pd.DataFrame = rows.select(list(names)).to_pandas()
        for name in set(names) & OBJECTS:  # else pandas, by its version, has NaN for what is null
            frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
        if "sweep" in frame:
            frame["sweep"] = self.facts.name  # a file may go by another name among others
        return frame

    def whole(self) -> Any:
        """Return all of it as a `pyarrow.Table`."""
        if not isinstance(self.source, Path):
            return self.source
        with _reading(self.source):
            return parquet.ParquetFile(self.source).read().replace_schema_metadata(None)


def schema() -> Any:
    """Return the Arrow schema of all columns."""
    lists = {"list<int32>": pa.int32, "list<double>": pa.float64}
    return pa.schema(
        (c.name, pa.list_(lists[c.type]()) if c.type in lists else getattr(pa, c.type)())
        for c in COLUMNS + CURVES
    )


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a `pyarrow.Table`; a column that a row lacks is null there."""
    return pa.Table.from_pylist(list(rows), schema=schema())


def write(path: Path, table: TrialTable) -> None:
    """Write a table whole: who reads meanwhile has the one before. Raises `UserError` where the folder takes no file."""
    with writable(path.parent):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = table.source.replace_schema_metadata({KEY: table.facts.model_dump_json()})
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            parquet.write_table(content, part, compression="zstd")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def read(path: Path) -> TrialTable:
    """Open a table without reading its rows. Raises `UserError` in one line where it is absent, damaged, larger than memory, none
    of a sweep's, or of another version.
    """
    with _reading(path):
        file = parquet.ParquetFile(path)
        metadata, columns = file.metadata, file.schema_arrow
        size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    facts = (columns.metadata or {}).get(KEY)
    if facts is None:
        raise UserError(f"table {path} is no table of suite: its schema has no metadata `suite`")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if max(size, metadata.num_rows) > memory:
        raise UserError(
            f"table {path} says that it has {size} bytes, which this machine's memory does not hold"
        )
    damaged = UserError(f"table {path} is damaged: its metadata cannot be read")
    try:
        version = json.loads(facts).get("format")
    except (ValueError, AttributeError, RecursionError):
        raise damaged from None
    check_format(f"table {path}", version)
    try:
        known = TableFacts.model_validate_json(facts)
    except ValueError:
        raise damaged from None
    if columns.remove_metadata() != schema():
        lacking = [c.name for c in COLUMNS + CURVES if c.name not in columns.names]
        what = f"lacks the column {lacking[0]}" if lacking else "has other columns"
        raise UserError(f"table {path} {what}")
    return TrialTable(known, path)


@contextmanager
def _reading(path: object) -> Iterator[None]:
    """Turn what Arrow says of a file that cannot be read into one line."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"there is no table {path}") from None
    except (OSError, ValueError, MemoryError) as error:  # Arrow's own errors are the first two
        lines = str(error).splitlines() or [repr(error)]
        raise UserError(f"table {path} cannot be read: {lines[0][:100]}") from None
