"""Data that a program holds: samples one at a time, as `torch.utils.data.Dataset`s have them, and tables."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trials.common.errors import UserError
from trials.datasets.base import Array, Dataset, OnDemand
from trials.datasets.own.files import Own, from_arrays
from trials.datasets.own.tables import TEST_COLUMN, Columns, encoded
from trials.scoring.metrics import Task

PARTS = ("train", "test")


def is_pair(made: object) -> bool:
    """Whether something is a training part and a test part of samples: `(train, test)`."""
    return (
        isinstance(made, tuple | list)
        and len(made) == len(PARTS)
        and all(hasattr(part, "__len__") and hasattr(part, "__getitem__") for part in made)
    )


def pair_arrays(name: str, pair: Any) -> dict[str, Array]:
    """x_train, y_train, x_test and y_test of `(train, test)`, whose samples are pairs (x, y); each is asked for
    once, in order. Raises `UserError` naming the sample that does not fit.
    """
    found: dict[str, Array] = {}
    for part, samples in zip(PARTS, pair, strict=True):
        x: list[Array] = []
        y: list[Array] = []
        for i, (one, label) in _samples(f"{name}: sample {{}} of {part}", samples):
            if x and one.shape != x[0].shape:
                raise UserError(
                    f"{name}: samples must have one shape, but sample {i} of {part} has {one.shape} and "
                    f"sample 0 {x[0].shape}"
                )
            x.append(one)
            y.append(label)
        if not x:
            raise UserError(f"{name}: the {part} part has no samples")
        found |= {f"x_{part}": np.stack(x), f"y_{part}": np.stack(y)}
    return found


def _samples(what: str, samples: Any) -> Iterator[tuple[int, tuple[Array, Array]]]:
    for i in range(len(samples)):
        sample = samples[i]
        if not isinstance(sample, tuple | list) or len(sample) != 2:
            raise UserError(
                f"{what.format(i)} must be a pair (x, y), but is {type(sample).__name__}"
            )
        x, y = (np.asarray(value) if _plain(value) else None for value in sample)
        if x is None or x.dtype.kind not in "iufb":
            kind = type(sample[0]).__name__
            raise UserError(
                f"{what.format(i)} must have numbers as its x, but it is {kind}: use a transform that makes "
                "tensors"
            )
        if y is None or y.size != 1 or y.dtype.kind not in "iufb":
            raise UserError(
                f"{what.format(i)} must have one number as its y, but it is {sample[1]!r}"
            )
        yield i, (x, y.reshape(()))


def _plain(value: Any) -> bool:
    """Whether a value is numbers: a picture of Pillow is an array of pixels too, laid out otherwise."""
    return not type(value).__module__.startswith("PIL.")


@dataclass(frozen=True)
class Given(Own):
    """Data that `suite.run(data=...)` was given, `given:KEY`: known to that process alone."""

    scheme: ClassVar[str] = "given"

    @classmethod
    def at(cls, path: str, head: str) -> "Given":
        return cls(path)

    @property
    def task(self) -> Task:  # type: ignore[override] # by instance here
        return self.load(0, None, None).task

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """The data; raises `UserError` in another process."""
        if self.path not in _given:
            raise UserError(
                f"data set {self.name} was given by a program, and is known to its process alone: let a function "
                "in a file return it, and name that, FILE.py:function"
            )
        return _given[self.path](seed)


_given: dict[str, Callable[[int], Dataset]] = {}


def given(data: Any, columns: Mapping[str, Any]) -> str:
    """The name of data that a program holds, from here on: two torch Datasets (train, test), one table or two
    (pandas', pyarrow's, or whatever has `to_pandas`), arrays by the names of `npz:PATH`, or a `Dataset`. `columns`
    are what a table's are for, as `Columns`. Raises `UserError` where they do not fit.
    """
    asked = {key: value for key, value in columns.items() if value is not None}
    load = _loader(data, asked)
    made, text = load(0), repr(sorted(asked.items()))
    key = hashlib.sha256(text.encode())
    x = made.x.key.encode() if isinstance(made.x, OnDemand) else made.x
    for array in (x, made.y, made.test, *([] if made.client is None else [made.client])):
        key.update(np.ascontiguousarray(array).data if isinstance(array, np.ndarray) else array)
    _given[name := key.hexdigest()[:16]] = load
    return f"{Given.scheme}:{name}"


def _loader(data: Any, asked: dict[str, Any]) -> Callable[[int], Dataset]:
    parts = data if isinstance(data, tuple | list) else (data,)
    tables = [_table(part) for part in parts]
    if tables and all(table is not None for table in tables):
        return _of_tables(tables, asked)
    if asked:
        raise UserError(f"{', '.join(asked)}: only a table has columns, and data is {_kind(data)}")
    if isinstance(data, Dataset):
        return lambda seed: data
    if is_pair(data):
        made = from_arrays("data", pair_arrays("data", data))
    elif isinstance(data, Mapping):
        made = from_arrays("data", {key: np.asarray(value) for key, value in data.items()})
    else:
        raise UserError(
            f"data: must be two torch Datasets (train, test), one table or two with target=, arrays by name, or "
            f"a trials.datasets.Dataset, not {_kind(data)}"
        )
    return lambda seed: made


def _of_tables(tables: list[Any], asked: dict[str, Any]) -> Callable[[int], Dataset]:
    if "target" not in asked:
        raise UserError("target: a table needs the column to predict, as in target='label'")
    if len(tables) > len(PARTS):
        raise UserError(f"data: one table, or two (train, test), but there are {len(tables)}")
    if len(tables) == 1:
        return lambda seed: encoded("data", tables[0], Columns(**asked), seed)
    import pandas as pd

    marked = [
        table.assign(**{TEST_COLUMN: part}) for part, table in zip(PARTS, tables, strict=True)
    ]
    columns = Columns(**{**asked, "test": TEST_COLUMN})
    return lambda seed: encoded("data", pd.concat(marked, ignore_index=True), columns, seed)


def _table(data: Any) -> Any:
    """A pandas table of it; None where it is none."""
    if hasattr(data, "to_pandas"):
        return data.to_pandas()
    return data if type(data).__name__ == "DataFrame" and hasattr(data, "iloc") else None


def _kind(data: Any) -> str:
    if isinstance(data, tuple | list):
        return f"a {type(data).__name__} of {', '.join(type(part).__name__ for part in data)}"
    return type(data).__name__
