"""A user's own tables: a row is a sample, a column its target, the others its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import parse_qsl, quote

import numpy as np

from trials.common import names, randomness
from trials.common.errors import UserError, unknown
from trials.common.files import plain, resolved
from trials.common.lazy import Lazy
from trials.datasets.base import Array, Dataset, moments
from trials.datasets.own.files import NoOptions, Own
from trials.scoring.metrics import CLASSIFICATION, REGRESSION, Task

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")

MOST = 1000
"""Different values of a column of words, at most: each is a feature."""
TEST_COLUMN = "(part)"
"""The column that says which rows are test where training and test rows are two tables."""
TEST = {"test": True, "train": False, "1": True, "0": False, "true": True, "false": False}
"""What a column that says which rows are test may hold, in lower case."""


@dataclass(frozen=True)
class Columns:
    """What columns are for. `test` is a column too, or the share of rows that are test; `drop` are left out."""

    target: str
    client: str | None = None
    test: str | float = 0.2
    drop: tuple[str, ...] = ()
    task: Literal["classification", "regression"] = "classification"

    @classmethod
    def read(cls, what: str, given: Sequence[tuple[str, str]]) -> Columns:
        """The columns of `target=y&client=hospital`; raises `UserError` naming the key that is wrong."""
        known = [field.name for field in fields(cls)]
        for key, _ in given:
            if key not in known:
                raise UserError(f"{what}: {unknown('key', key, known)}")
        found: dict[str, Any] = dict(given)
        if "target" not in found:
            raise UserError(f"{what} needs the column to predict, as in {what}?target=COLUMN")
        found["drop"] = tuple(value for key, value in given if key == "drop")
        task = found.get("task", "classification")
        if task not in ("classification", "regression"):
            raise UserError(f"{what}: task is {task!r}, but must be classification or regression")
        return cls(**found | {"test": _share(found.get("test", "0.2"))})

    @property
    def text(self) -> str:
        """The canonical spelling of what is not the default."""
        given: list[tuple[str, Any]] = [("target", self.target), ("client", self.client)]
        given += [("test", self.test)] if self.test != Columns.test else []
        given += [("drop", name) for name in self.drop]
        given += [("task", self.task)] if self.task != Columns.task else []
        return "&".join(f"{key}={quote(str(v), safe=' /:.')}" for key, v in given if v is not None)


def _share(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class TableFile(Own):
    """A table in a file: `SCHEME:PATH?target=COLUMN&client=COLUMN&test=COLUMN_OR_SHARE&drop=COLUMN&task=regression`."""

    @classmethod
    def at(cls, path: str, head: str) -> TableFile:
        names.parse("dataset", head, {cls.scheme: NoOptions})
        place, _, given = path.rpartition("?") if "?" in path else (path, "", "")
        columns = Columns.read(f"{cls.scheme}:{place}", parse_qsl(given, keep_blank_values=True))
        return cls(str(resolved(place, "data set")), columns)

    @property
    def name(self) -> str:
        return f"{self.scheme}:{self.path}?{self.options.text}"

    @property
    def task(self) -> Task:  # type: ignore[override] # by instance here
        return REGRESSION if self.options.task == "regression" else CLASSIFICATION

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """The table's rows; raises `UserError` saying what does not fit."""
        path = plain(Path(self.path), f"data set {self.scheme}:")
        try:
            table = self._read(path)
        except Exception as error:  # pandas', pyarrow's, and those of whatever parses a file
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"cannot read data set {self.scheme}:{self.path}: {reason}") from None
        return encoded(f"{self.scheme}:{self.path}", table, self.options, seed)

    def _read(self, path: Path) -> pd.DataFrame:
        raise NotImplementedError


@dataclass(frozen=True)
class Csv(TableFile):
    """A table of comma-separated values with a line of names; `?`, NA and nothing are absent values."""

    summary: ClassVar[str] = (
        "your own table: csv:PATH?target=COLUMN [&client=COLUMN &test=COLUMN_OR_SHARE &task=regression]"
    )
    scheme: ClassVar[str] = "csv"

    def _read(self, path: Path) -> pd.DataFrame:
        return pd.read_csv(path, na_values=["?"], skipinitialspace=True, low_memory=False)


@dataclass(frozen=True)
class Parquet(TableFile):
    """A table as a Parquet file."""

    summary: ClassVar[str] = "your own table as a Parquet file, written as csv:PATH is"
    scheme: ClassVar[str] = "parquet"

    def _read(self, path: Path) -> pd.DataFrame:
        return pd.read_parquet(path)


def encoded(name: str, table: pd.DataFrame, columns: Columns, seed: int) -> Dataset:
    """The rows as samples. Numbers are standardised by the training rows, and an absent one is their mean; a
    column of words is an indicator of each value among the training rows, of which an absent one is another. Targets
    of a regression are standardised too. Raises `UserError` naming the column that does not fit.
    """
    table = table.rename(columns=str)
    if not len(table):
        raise UserError(f"{name} has no rows")
    said = {"target": columns.target, "client": columns.client}
    said |= {"test": columns.test} if isinstance(columns.test, str) else {}
    for key, column in [*said.items(), *(("drop", column) for column in columns.drop)]:
        if column is not None and column not in table:
            raise UserError(f"{name}: {key}: {unknown('column', column, [*table])}")
    if twice := [column for column in table if list(table).count(column) > 1]:
        raise UserError(f"{name} has two columns {twice[0]!r}")
    for key, column in said.items():
        if column is not None and (absent := int(table[column].isna().sum())):
            raise UserError(
                f"{name}: {key}: column {column!r} has no value in {absent} of {len(table)} rows: fill them in, or "
                "leave these rows out"
            )
    client = None
    if columns.client is not None:
        _, client = np.unique(table[columns.client].astype(str), return_inverse=True)
    y, classes = _targets(name, table[columns.target], columns.task == "regression")
    test = _test(name, table, columns, seed, y if client is None else client)
    features = table.drop(columns=list({*filter(None, said.values()), *columns.drop}))
    if not features.shape[1]:
        raise UserError(f"{name} has no column but {', '.join(map(repr, table))}: no features")
    x, note = _features(name, features, test)
    if columns.task == "classification":
        return Dataset(x, y, test, classes, client, note=note)
    mean, deviation = moments(y[~test])
    note += f"; target standardised by mean {mean:.6g} and deviation {deviation:.6g}"
    y = ((y - mean) / deviation).astype(np.float32)
    return Dataset(x, y, test, 1, client, REGRESSION, note)


def _targets(name: str, column: pd.Series[Any], regression: bool) -> tuple[Array, int]:
    """Labels and how many there are, or numbers."""
    numeric = pd.api.types.is_numeric_dtype(column)
    if regression:
        if not numeric:
            odd = next(v for v in column if not isinstance(v, int | float))
            raise UserError(
                f"{name}: target: column {column.name!r} must hold numbers for task=regression, but holds {odd!r}"
            )
        y = column.to_numpy(np.float64)
        if not np.isfinite(y).all():
            raise UserError(f"{name}: target: column {column.name!r} must hold finite numbers")
        return y, 1
    if numeric and (broken := column[column % 1 != 0]).size:
        raise UserError(
            f"{name}: target: column {column.name!r} holds {broken.iloc[0]:g}, which is no label: for a regression "
            "add &task=regression"
        )
    labels, y = np.unique(column if numeric else column.astype(str), return_inverse=True)
    if len(labels) < 2:
        raise UserError(
            f"{name}: target: column {column.name!r} holds one value only, {labels[0]!s}: two labels at least"
        )
    return y.astype(np.int64), len(labels)


def _test(name: str, table: pd.DataFrame, columns: Columns, seed: int, group: Array) -> Array:
    """Which rows are test, (N,): those that a column says, or a share of each client, else of each label, drawn."""
    if isinstance(columns.test, str):
        said = table[columns.test].astype(str).str.lower().str.removesuffix(".0")
        if odd := sorted(set(said) - set(TEST)):
            raise UserError(
                f"{name}: test: column {columns.test!r} holds {odd[0]!r}, but must hold train and test, 0 and 1, or "
                "false and true"
            )
        test = said.map(TEST).to_numpy(bool)
    else:
        if not 0 < columns.test < 1:
            raise UserError(f"{name}: test is {columns.test:g}, but must be a column, or in (0, 1)")
        group = group if group.dtype.kind in "iu" else np.zeros(len(group), np.int64)
        order = randomness.generator("table_test", seed).permutation(len(table))
        test = np.zeros(len(table), bool)
        for one in np.unique(group):
            own = order[group[order] == one]
            test[own[: round(columns.test * len(own))]] = True
    if test.all() or not test.any():
        raise UserError(f"{name}: test: {int(test.sum())} of {len(test)} rows are test")
    return test


def _features(name: str, table: pd.DataFrame, test: Array) -> tuple[Array, str]:
    """x (N, features), and how it was made."""
    parts: list[Array] = []
    numbers = words = filled = 0
    for column in table:
        found = table[column]
        if pd.api.types.is_numeric_dtype(found):
            part, absent = _standardised(name, found, test)
            numbers, filled = numbers + 1, filled + absent
        else:
            part = _indicators(name, found, test)
            words += 1
        parts.append(part)
    x = np.concatenate(parts, 1)
    return x, (
        f"{numbers} columns of numbers standardised by training rows, {filled} absent values replaced by the mean; "
        f"{words} columns of words as {x.shape[1] - numbers} indicators"
    )


def _standardised(name: str, column: pd.Series[Any], test: Array) -> tuple[Array, int]:
    x = column.to_numpy(np.float64, na_value=np.nan)
    if np.isinf(x).any():
        raise UserError(f"{name}: column {column.name!r} holds an infinite number")
    train = x[~test & ~np.isnan(x)]
    if not len(train):
        raise UserError(
            f"{name}: column {column.name!r} has no value in the training rows: leave it out by "
            f"&drop={quote(str(column.name), safe=' ')}"
        )
    absent = np.isnan(x)
    mean, deviation = moments(train)
    x = np.where(absent, 0.0, (x - mean) / deviation)
    return x.astype(np.float32)[:, None], int(absent.sum())


def _indicators(name: str, column: pd.Series[Any], test: Array) -> Array:
    if odd := [value for value in column.dropna() if not isinstance(value, str)]:
        raise UserError(
            f"{name}: column {column.name!r} holds {type(odd[0]).__name__}, neither numbers nor words: leave it out "
            f"by &drop={quote(str(column.name), safe=' ')}"
        )
    values = column.astype(object).where(column.notna(), "").astype(str).to_numpy(str)
    known = np.unique(values[~test])
    if len(known) > MOST:
        raise UserError(
            f"{name}: column {column.name!r} has {len(known):,} different values, and each would be a feature: leave "
            f"it out by &drop={quote(str(column.name), safe=' ')}"
        )
    return (values[:, None] == known).astype(np.float32)
