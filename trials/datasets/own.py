"""Users' own data: arrays or tables in a file, the result of a Python function, or objects in a running program."""

import hashlib
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import numpy as np

from trials.common import names, plugins
from trials.common.errors import UserError
from trials.common.files import plain, resolved
from trials.common.lazy import Lazy
from trials.common.tensors import torch
from trials.datasets.base import Array, Dataset, DatasetFamily
from trials.datasets.tables import FEW, NONE, Options, encoded, one_table
from trials.scoring.metrics import CLASSIFICATION, REGRESSION, Task

pd: Any = Lazy("pandas")
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
CLIENT = "client_train"
NUMBERED = "labels are numbered, as numpy.unique(y, return_inverse=True)[1] does"


@dataclass(frozen=True)
class Own(DatasetFamily):
    """A user's data set, named by scheme and path: `SCHEME:PATH?OPTIONS`."""

    scheme: ClassVar[str]
    path: str
    options: Options = NONE

    @classmethod
    def at(cls, text: str) -> "Own":
        """Return the data set that the text `PATH?OPTIONS` names, with an absolute path. Raise `UserError` for an invalid option or path."""
        path, _, query = text.partition("?")
        try:
            options = Options.read(query)
            for_csv = options.sep, options.decimal, options.thousands, options.absent
            if any(for_csv) and cls is not Csv:
                raise UserError("sep, decimal, thousands and absent are for csv files alone")
            return cls(cls.located(path), options)
        except UserError as error:
            raise UserError(f"data set {text}: {error}") from None

    @classmethod
    def located(cls, path: str) -> str:
        """Return `path` as an absolute path. Raise `UserError` for a broken link or an unreadable path."""
        return str(resolved(path, "data set"))

    @property
    def name(self) -> str:
        """Return the canonical name of the data set, such as `csv:/data/mine.csv?target=y`."""
        return f"{self.scheme}:{self.path}{self.options.text}"

    @property
    def task(self) -> Task:  # type: ignore[override] # by instance here
        return REGRESSION if self.options.task == "regression" else CLASSIFICATION

    @abstractmethod
    def content(self, seed: int, clients: int | None, root: str | None) -> Any:
        """Return the stored data in a form that `dataset_of` converts: arrays, tables or a `Dataset`."""

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the data as a `Dataset`. Raise `UserError` if reading fails or the data break a rule."""
        try:
            return plugins.tried(
                "reading it",
                lambda: dataset_of(self.content(seed, clients, root), self.options, seed),
            )
        except UserError as error:
            raise UserError(f"data set {self.name}: {error}") from None


@dataclass(frozen=True)
class Npz(Own):
    """your own data: arrays x_train, y_train, x_test, y_test [, client_train], used as they are, as float32"""

    scheme: ClassVar[str] = "npz"

    def content(self, seed: int, clients: int | None, root: str | None) -> Any:
        with np.load(plain(Path(self.path), "file"), allow_pickle=False) as arrays:
            return dict(arrays)


@dataclass(frozen=True)
class Csv(Own):
    """your own table: csv:PATH?target=COLUMN [&client=COLUMN &test=COLUMN_OR_SHARE &task=regression]"""

    scheme: ClassVar[str] = "csv"

    def content(self, seed: int, clients: int | None, root: str | None) -> Any:
        path, options = plain(Path(self.path), "file"), self.options
        sep = "\t" if options.sep == "tab" else options.sep or ","
        dialect: dict[str, Any] = {"sep": sep, "skipinitialspace": True, "encoding": "utf-8-sig"}
        signs = sep + (point := options.decimal or ".") + (options.thousands or "\0")
        if len(signs) != 3 or len(set(signs)) != 3:
            raise UserError("&sep=, &decimal= and &thousands= must be three different characters")
        head = pd.read_csv(path, header=None, nrows=1, dtype=str, **dialect).iloc[0]
        if len(head) == 1 and options.sep is None:
            raise UserError(f"it has one column, {head[0]!r}: name the separator by &sep=")
        if (repeated := head[head.duplicated() & head.notna()]).size:
            raise UserError(f"two columns have the name {repeated.iloc[0]!r}")
        dialect |= {"decimal": point, "thousands": options.thousands}
        dialect |= {"na_values": ["?", *options.absent], "index_col": False, "low_memory": False}
        with warnings.catch_warnings():
            # By default pandas only warns of rows that are longer than the header.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, **dialect)


@dataclass(frozen=True)
class Parquet(Own):
    """your own table as a Parquet file, with the same options as csv:PATH"""

    scheme: ClassVar[str] = "parquet"

    def content(self, seed: int, clients: int | None, root: str | None) -> Any:
        return pd.read_parquet(plain(Path(self.path), "file"), engine="pyarrow")


@dataclass(frozen=True)
class Function(Own):
    """your own data: a function's result (arrays, Dataset, one or two tables, two torch Datasets), or a class of data sets

    Examples of names are `package.module:function`, `FILE.py:function?target=y` and, for a class, `FILE.py:Class(3)`.
    """

    @classmethod
    def located(cls, path: str) -> str:
        """Return the name of a function or class, such as `FILE.py:NAME`, with an absolute file path. The file is not run."""
        bare, arguments = names.split(path)
        file, _, function = bare.rpartition(":")
        if file.endswith(".py"):
            file = super().located(file)
        return f"{file}:{function}" + ("" if arguments is None else f"({arguments.strip()})")

    @property
    def name(self) -> str:
        return f"{self.path}{self.options.text}"

    def content(self, seed: int, clients: int | None, root: str | None) -> Any:
        bare, arguments = names.split(self.path)
        code = plugins.function(bare, "data set")
        if isinstance(code, type) and issubclass(code, DatasetFamily):
            return names.make("dataset", self.path, code, arguments).load(seed, clients, root)
        if arguments is not None:
            raise UserError("a function takes no arguments")
        return code()


@dataclass(frozen=True)
class Given(Own):
    """Data passed to `suite.run(data=...)`, named `given:KEY`; only the process that passed them can load them."""

    scheme: ClassVar[str] = "given"

    @classmethod
    def located(cls, path: str) -> str:
        return path

    def content(self, seed: int, clients: int | None, root: str | None) -> Any:
        if self.path not in _given:
            raise UserError("only the process that passed it has it: name FILE.py:function")
        return _given[self.path]


_given: dict[str, Any] = {}


def given(data: Any, columns: Mapping[str, Any]) -> str:
    """Register data that a program passes, and return their name `given:KEY`. `data` has any form that `dataset_of` accepts.
    `columns` has the options of a table, by their names in `Options`. Raise `UserError` if the data break a rule.
    """
    stated = {key: value for key, value in columns.items() if value is not None}
    if isinstance(data, Dataset) and data.task.metric == REGRESSION.metric:
        stated["task"] = "regression"
    options = Options.read(urlencode(stated))
    dataset = plugins.tried("data", partial(dataset_of, data, options, 0))
    digest = hashlib.sha256()
    for array in (dataset.x, dataset.y, dataset.test, dataset.client):
        digest.update(b"" if array is None else np.ascontiguousarray(array).data)
    # A table is kept as it is, since the seed of a run draws its test rows.
    key = digest.hexdigest()[:16]
    _given[key] = dataset if options.target is None else data
    return f"{Given.scheme}:{key}{options.text}"


def dataset_of(content: Any, options: Options, seed: int) -> Dataset:
    """Convert a user's data to a checked `Dataset`. `content` is a `Dataset`, a mapping of arrays (`x_train`, ...), two torch
    Datasets (train and test), or one or two tables. A table comes from pandas or has a method `to_pandas`. `seed` draws the
    test rows of a table. Raise `UserError` if the data break a rule.
    """
    parts = content if isinstance(content, tuple | list) else [content]
    parts = [part.to_pandas() if hasattr(part, "to_pandas") else part for part in parts]
    if len(parts) in (1, 2) and all(isinstance(part, pd.DataFrame) for part in parts):
        return _compared(encoded(*one_table(parts, options), seed))
    if options != Options(task=options.task):
        raise UserError(f"{options.text[1:]}: only a table has columns")
    if isinstance(content, Dataset):
        dataset = content
        if (dataset.task.metric == REGRESSION.metric) != (options.task == "regression"):
            raise UserError("?task=regression must be given for a regression, and only then")
    elif isinstance(content, Mapping):
        dataset = from_arrays(content, options.task)
    elif len(parts) == 2 and all(hasattr(part, "__getitem__") for part in parts):
        dataset = from_arrays(pair_arrays(*parts), options.task)
    else:
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise UserError(f"must be a Dataset, arrays, tables, or two of torch, not {kinds}")
    if broken := broken_rules(dataset):
        raise UserError("; ".join(broken))
    return _compared(dataset)


def _compared(dataset: Dataset) -> Dataset:
    """Return the data set. If at least 1 % of the test samples have the features of a training sample, the data set's note says so."""
    hashes, test = np.array([hash(sample.tobytes()) for sample in dataset.x]), dataset.test
    seen, tests = np.isin(hashes[test], hashes[~test]).sum(), test.sum()
    line = f"{seen:,} of {tests:,} test samples have the features of a training sample"
    if seen < 0.01 * tests or line in dataset.note:  # a data set may be compared twice
        return dataset
    return replace(dataset, note="\n".join(filter(None, (dataset.note, line))))


def pair_arrays(train: Any, test: Any) -> dict[str, Any]:
    """Return the arrays x_train, y_train, x_test and y_test of two torch Datasets. Raise `UserError` if items are not pairs (x, y)."""
    arrays: dict[str, Any] = {}
    for part, samples in (("train", train), ("test", test)):
        try:
            pairs = [samples[i] for i in range(len(samples))]
            collated = torch.utils.data.default_collate(pairs)
            x, y = collated if isinstance(collated, list | tuple) else (None, None)
            if not isinstance(x, torch.Tensor):
                raise TypeError(f"x is a {type(x).__name__}")
            arrays |= {f"x_{part}": x, f"y_{part}": y}
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            rule = "pairs (x, y), one at least: tensors x of one shape, no pictures, and a number y"
            raise UserError(f"samples of the {part} part must be {rule}: {error}") from None
    return arrays


def _numbers(key: str, value: Any) -> Array:
    """Return `value` as an array of numbers; labels of shape (N, 1) become (N,). Raise `UserError`, naming `key`, for other content."""
    if hasattr(value, "detach"):  # NumPy has neither bfloat16 nor gradients
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    array = np.asarray(value)
    if array.dtype.kind not in "iufb" or isinstance(value, np.ma.MaskedArray):
        raise UserError(f"{key} must be numbers; {NUMBERED}")
    return array[:, 0] if key[0] != "x" and array.ndim == 2 and array.shape[1] == 1 else array


def from_arrays(content: Mapping[str, Any], task: str | None) -> Dataset:
    """Return the data set made of arrays x_train, y_train, x_test, y_test [, client_train]. Raise `UserError` if they break a rule."""
    if set(content) - {CLIENT} != set(ARRAYS):
        present_keys = ", ".join(map(str, content)) or "nothing"
        raise UserError(f"must hold {', '.join(ARRAYS)} [, {CLIENT}], but holds {present_keys}")
    arrays = {key: _numbers(key, value) for key, value in content.items()}
    for key, array in arrays.items():
        if len(array) != (rows := len(arrays[f"x_{key.rpartition('_')[2]}"])):
            raise UserError(f"{key} has {len(array)} rows, but there are {rows} samples")
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [arrays["x_train"], arrays["x_test"]]
        x = np.concatenate(parts, dtype=np.float32, casting="unsafe")
    y = np.concatenate([arrays["y_train"], arrays["y_test"]])
    test, client = np.arange(len(y)) >= len(arrays["y_train"]), None
    if (owner := arrays.get(CLIENT)) is not None:
        if (owner % 1 != 0).any():
            raise UserError(f"{CLIENT} must be whole numbers")
        numbered = np.unique(owner, return_inverse=True)[1]
        client = np.concatenate([numbered, np.full(int(test.sum()), -1)])  # -1: no owner
    if task == "regression":
        return Dataset(x, y.astype(np.float32), test, 1, client, REGRESSION)
    present = np.unique(y)
    # A model has an output for each label up to the largest, so most of these must occur.
    if (present % 1 != 0).any() or present[0] or not 1 <= present[-1] < 2 * len(present):
        rule = f"labels must count 0, 1, ..., but go from {present[0]} to {present[-1]}; {NUMBERED}"
        raise UserError(f"{rule}; for a regression add task=regression")
    if task is None and len(present) > FEW:
        raise UserError(f"{len(present)} labels: add task=classification or task=regression")
    return Dataset(x, y.astype(np.int64), test, int(present[-1]) + 1, client)


def broken_rules(dataset: Dataset) -> list[str]:
    """Return a sentence for each rule on types, shapes and values that a data set breaks."""
    x, y, test, client = dataset.x, dataset.y, dataset.test, dataset.client
    fields = {"x": x, "y": y, "test": test, "client": np.empty(0) if client is None else client}
    if wrong := [key for key, value in fields.items() if not isinstance(value, np.ndarray)]:
        return [f"{', '.join(wrong)} must be an array"]
    n, broken = len(y), []
    if x.dtype != np.float32 or x.ndim < 2 or len(x) != n or not x.size or not np.isfinite(x).all():
        broken.append("x must be finite float32 of shape (samples, ...)")
    if dataset.task.metric == REGRESSION.metric:
        if y.dtype != np.float32 or y.ndim != 1 or not np.isfinite(y).all():
            broken.append("y must be finite float32 of shape (samples,)")
    elif (
        y.ndim != 1 or y.dtype != np.int64 or not n or not 0 <= y.min() <= y.max() < dataset.classes
    ):
        broken.append("y must be int64 of shape (samples,), 0 <= y < classes")
    if not isinstance(dataset.classes, int):
        broken.append("classes must be a whole number")
    if test.dtype != bool or test.shape != (n,) or not 0 < test.sum() < n:
        broken.append("test must be bool of shape (samples,), neither all nor none")
    if client is not None and (client.shape != (n,) or client.dtype.kind not in "iu"):
        broken.append("client must be None or whole numbers of shape (samples,)")
    return broken
