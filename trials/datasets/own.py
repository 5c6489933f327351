"""A person's own data: arrays or tables in a file, what a Python function returns, and what a program holds."""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common import names, plugins
from trials.common.errors import UserError
from trials.common.files import plain, resolved
from trials.common.lazy import Lazy
from trials.datasets.base import Dataset, DatasetFamily, OnDemand
from trials.datasets.published import LOADS, Array, FileReport
from trials.datasets.tables import FEW, PART, Options, encoded
from trials.scoring.metrics import CLASSIFICATION, REGRESSION, Task

pd: Any = Lazy("pandas")
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
CLIENT = "client_train"
PARTS = ("train", "test")
NONE = Options()
NUMBERED = "labels are numbered, as numpy.unique(y, return_inverse=True)[1] does"


@dataclass(frozen=True)
class Own(DatasetFamily):
    """Data that are named by where they are, `SCHEME:PATH?OPTIONS`."""

    scheme: ClassVar[str]
    path: str
    options: Options = NONE

    @classmethod
    def at(cls, text: str, head: str) -> "Own":
        """Return the data at a path as a person writes it; `head` is what stands before the colon."""
        if head.strip() != cls.scheme:
            raise UserError(f"dataset {head!r}: the form is {cls.scheme}:PATH")
        place, _, query = text.rpartition("?") if "?" in text else (text, "", "")
        options = Options.read(f"{cls.scheme}:{place}", query)
        return cls(str(resolved(place, "data set")), options)

    @property
    def where(self) -> str:
        """The name without its options."""
        return f"{self.scheme}:{self.path}"

    @property
    def name(self) -> str:
        """The canonical spelling."""
        return f"{self.where}{self.options.text}"

    @property
    def task(self) -> Task:  # type: ignore[override] # by instance here
        return REGRESSION if self.options.task == "regression" else CLASSIFICATION

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the data; raises `UserError` saying what does not fit."""
        path = plain(Path(self.path), f"data set {self.scheme}:")
        try:
            content = self.read(path)
        except Exception as error:  # NumPy's, pandas', and those of whatever parses a member
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"cannot read data set {self.where}: {reason}") from None
        return dataset_of(self.where, content, self.options, seed)

    def read(self, path: Path) -> Any:
        """Return what is in the file, as `dataset_of` takes it."""
        raise NotImplementedError

    def files(self, root: Path) -> list[FileReport]:
        return [FileReport(self.name, Path(self.path), LOADS, self.fault(root) or LOADS)]


@dataclass(frozen=True)
class Npz(Own):
    """Arrays, which are used as they are, as float32; client_train (a whole number per training sample) is for `natural`."""

    summary = "your own data: arrays x_train, y_train, x_test, y_test [, client_train]"
    scheme: ClassVar[str] = "npz"

    def read(self, path: Path) -> dict[str, Array]:
        with np.load(path, allow_pickle=False) as content:  # which an array alone (.npy) is not
            return dict(content)


@dataclass(frozen=True)
class Csv(Own):
    """A table of comma-separated values with a line of names; `?`, NA and nothing are absent values."""

    summary = "your own table: csv:PATH?target=COLUMN [&client=COLUMN &test=COLUMN_OR_SHARE &task=regression]"
    scheme: ClassVar[str] = "csv"

    def read(self, path: Path) -> Any:
        sep = {"tab": "\t", None: ","}.get(self.options.sep, self.options.sep)
        form = {"sep": sep, "skipinitialspace": True, "encoding": "utf-8-sig"}
        head = pd.read_csv(path, header=None, nrows=1, dtype=str, **form).iloc[0]
        if len(head) == 1 and self.options.sep is None:
            raise ValueError(f"its one column is {head[0]!r}: what separates columns is &sep=")
        if (twice := head[head.duplicated() & head.notna()]).size:
            raise ValueError(f"two columns have the name {twice.iloc[0]!r}")
        with warnings.catch_warnings():
            # Of rows that are longer than the line of names pandas would only warn.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path,
                index_col=False,
                low_memory=False,
                decimal=self.options.decimal or ".",
                thousands=self.options.thousands,
                na_values=["?", *self.options.absent],
                **form,
            )


@dataclass(frozen=True)
class Parquet(Own):
    """A table as a Parquet file."""

    summary = "your own table as a Parquet file, written as csv:PATH is"
    scheme: ClassVar[str] = "parquet"

    def read(self, path: Path) -> Any:
        return pd.read_parquet(path)


@dataclass(frozen=True)
class Function(Own):
    """What a function of `package.module:function` or `FILE.py:function?target=y` returns, the same every time, as
    `dataset_of` takes it; or a class that derives from `DatasetFamily`, with its arguments, `FILE.py:Class(3)`.
    """

    summary = (
        "your own data: a function without arguments that returns the arrays of npz, a Dataset, a table, or two of "
        "torch (train, test); or a class of data sets, with its arguments"
    )
    scheme: ClassVar[str] = "function"

    @classmethod
    def at(cls, text: str, head: str = "") -> "Function":
        """Return the function as a person writes it; a file's path is made absolute. No code runs."""
        named, _, query = text.partition("?")
        bare, arguments = names.split(named)
        place, _, function = bare.rpartition(":")
        if place.endswith(".py"):
            place = str(resolved(place, "data set"))
        path = f"{place}:{function}" + ("" if arguments is None else f"({arguments.strip()})")
        return cls(path, Options.read(f"data set {path}", query))

    @property
    def where(self) -> str:
        return self.path

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return its data set. Raises `UserError` saying what is wrong with the code or its data."""
        what, code = f"data set {self.path}", self._code()
        if isinstance(code, DatasetFamily):
            code = partial(code.load, seed, clients, root)
        dataset: Dataset = plugins.tried(what, lambda: dataset_of(what, code(), self.options, seed))
        return dataset

    def _code(self) -> Any:
        """Return what the name stands for: a function, or a data set with its arguments."""
        bare, arguments = names.split(self.path)
        code = plugins.function(bare, "data set")
        if isinstance(code, type) and issubclass(code, DatasetFamily):
            make = partial(names.make, "dataset", self.path, code, arguments)
            return plugins.tried(f"data set {self.path}", make)
        if arguments is not None:
            raise UserError(f"data set {self.path}: a function takes no arguments")
        return code


@dataclass(frozen=True)
class Given(Own):
    """Data that `suite.run(data=...)` was given, `given:KEY`: known to that process alone."""

    scheme: ClassVar[str] = "given"

    @classmethod
    def at(cls, text: str, head: str) -> "Given":
        return cls(text)

    @property
    def task(self) -> Task:  # type: ignore[override] # by instance here
        return self.load(0, None, None).task

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the data; raises `UserError` in another process."""
        if self.path not in _given:
            raise UserError(
                f"{self.name} is known to the process alone that gave it: name FILE.py:function"
            )
        return _given[self.path](seed)


_given: dict[str, Callable[[int], Dataset]] = {}


def given(data: Any, columns: Mapping[str, Any]) -> str:
    """Return the name of data that a program holds, from here on, whatever `dataset_of` takes. `columns` are what a
    table's are for, as `Options`. Raises `UserError` where they do not fit.
    """
    asked = {key: value for key, value in columns.items() if value is not None}
    if isinstance(data, Dataset) and data.task.metric == REGRESSION.metric:
        asked["task"] = "regression"
    load = partial(dataset_of, "data", data, Options(**asked))
    dataset = load(0)
    digest, x = hashlib.sha256(repr(sorted(asked.items())).encode()), dataset.x
    x = np.frombuffer(x.key.encode(), np.uint8) if isinstance(x, OnDemand) else x
    for array in (x, dataset.y, dataset.test, dataset.client):
        digest.update(b"" if array is None else np.ascontiguousarray(array).data)
    # Only what a table becomes depends on the seed, which draws its test rows.
    key = digest.hexdigest()[:16]
    _given[key] = load if dataset.note else lambda seed: dataset
    return f"{Given.scheme}:{key}"


def dataset_of(name: str, content: Any, options: Options, seed: int) -> Dataset:
    """Return what a person has as a data set: a `Dataset`, arrays by the names of `npz:PATH`, two torch Datasets
    (train, test), or one table or two of pandas, pyarrow or whatever has `to_pandas`. Raises `UserError` where it does
    not fit.
    """
    try:
        return _taken(content, options, seed)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def _taken(content: Any, options: Options, seed: int) -> Dataset:
    parts = [_table(part) for part in (content if isinstance(content, tuple | list) else [content])]
    if len(parts) in (1, 2) and all(isinstance(part, pd.DataFrame) for part in parts):
        if len(parts) == 1:
            return encoded(parts[0], options, seed)
        if set(parts[0]) != set(parts[1]):
            raise UserError("training and test table must have the same columns")
        marked = [table.assign(**{PART: part}) for part, table in zip(PARTS, parts, strict=True)]
        return encoded(pd.concat(marked, ignore_index=True), replace(options, test=PART), seed)
    for key, value in vars(options).items():
        if key != "task" and value != getattr(NONE, key):
            raise UserError(f"{key}: only a table has columns")
    if isinstance(content, Dataset):
        dataset = content
        if (dataset.task.metric == REGRESSION.metric) != (options.task == "regression"):
            raise UserError("a regression is named with ?task=regression, and nothing else")
    elif isinstance(content, Mapping):
        dataset = from_arrays(content, options.task)
    elif len(parts) == len(PARTS) and all(hasattr(part, "__getitem__") for part in parts):
        dataset = from_arrays(pair_arrays(parts), options.task)
    else:
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise UserError(
            "must be a trials.datasets.Dataset, a dict of x_train, y_train, x_test, y_test [, client_train], two torch "
            f"Datasets (train, test), or one table or two with target=, not {kinds}"
        )
    for rule in broken_rules(dataset):
        raise UserError(rule)
    return dataset


def _table(data: Any) -> Any:
    """Return a pandas table of it, where it is a table of another library."""
    return data.to_pandas() if hasattr(data, "to_pandas") else data


def pair_arrays(pair: Any) -> dict[str, Array]:
    """Return x_train, y_train, x_test and y_test of `(train, test)`, whose samples are pairs (x, y); each is asked for
    once, in order. Raises `UserError` naming the sample that does not fit.
    """
    arrays: dict[str, Array] = {}
    for part, samples in zip(PARTS, pair, strict=True):
        columns: tuple[list[Array], list[Array]] = ([], [])
        for i in range(len(samples)):
            sample = samples[i]
            if not isinstance(sample, tuple | list) or len(sample) != 2:
                sample = (None, None)
            x, y = map(_numbers, sample)
            if x is None or y is None or y.size != 1 or x.shape != (columns[0] or [x])[0].shape:
                rule = "a pair (x, y): tensors x of one shape, no pictures, and a number y"
                raise UserError(f"sample {i} of {part} must be {rule}")
            columns[0].append(x)
            columns[1].append(y.reshape(()))
        if not len(samples):
            raise UserError(f"the {part} part has no samples")
        arrays |= {f"x_{part}": np.stack(columns[0]), f"y_{part}": np.stack(columns[1])}
    return arrays


def _numbers(value: Any) -> Array | None:
    """Return numbers as an array, tensors of any precision, device and gradient among them; None for anything else:
    NumPy makes arrays of Pillow's pictures, laid out otherwise, and of masked ones, with what is behind the mask.
    """
    if type(value).__module__.startswith("PIL.") or isinstance(value, np.ma.MaskedArray):
        return None
    if hasattr(value, "detach"):  # NumPy knows neither bfloat16 nor gradients
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    with suppress(TypeError, ValueError, RuntimeError):
        array = np.asarray(value)
        return array if array.dtype.kind in "iufb" else None
    return None


def from_arrays(content: Mapping[str, Any], task: str | None) -> Dataset:
    """Return a data set of x_train, y_train, x_test, y_test [, client_train]; labels may be columns.

    Raises `UserError` naming the array that is missing or does not fit.
    """
    if set(content) - {CLIENT} != set(ARRAYS):
        has = ", ".join(map(str, content)) or "nothing"
        raise UserError(f"must hold {', '.join(ARRAYS)} [, {CLIENT}], but holds {has}")
    arrays: dict[str, Array] = {}
    for key, value in content.items():
        array = _numbers(value)
        if array is not None and key[0] != "x" and array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array is None or not array.size or (array.ndim > 1) != (key[0] == "x"):
            form = "(samples, ...)" if key[0] == "x" else "(samples,)"
            raise UserError(f"{key} must be numbers of shape {form}; {NUMBERED}")
        arrays[key] = array
    for a, b in (("x_train", "y_train"), ("x_test", "y_test"), ("x_train", CLIENT)):
        if b in arrays and len(arrays[a]) != len(arrays[b]):
            raise UserError(f"{a} has {len(arrays[a])} rows, but {b} has {len(arrays[b])}")
    if arrays["x_train"].shape[1:] != arrays["x_test"].shape[1:]:
        raise UserError("samples of x_train and x_test must have one shape")
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.concatenate(
            [arrays["x_train"], arrays["x_test"]], dtype=np.float32, casting="unsafe"
        )
    y = np.concatenate([arrays["y_train"], arrays["y_test"]])
    test = np.arange(len(y)) >= len(arrays["y_train"])
    client = None
    if CLIENT in arrays:
        if (arrays[CLIENT] % 1 != 0).any():
            raise UserError(f"{CLIENT} must be whole numbers")
        _, index = np.unique(arrays[CLIENT], return_inverse=True)
        client = np.concatenate([index, np.full(int(test.sum()), -1)])
    if task == "regression":
        return Dataset(x, y.astype(np.float32), test, 1, client, REGRESSION)
    return Dataset(x, _labels(y, task), test, int(y.max()) + 1, client)


def _labels(y: Array, task: str | None) -> Array:
    """Return labels (N,) that count 0, 1, ..."""
    present = np.unique(y)
    # A model has an output for each label up to the largest.
    if (present % 1 != 0).any() or present[0] or not 1 <= present[-1] < 2 * len(present):
        rule = f"labels must count 0, 1, ..., but go from {present[0]} to {present[-1]}; {NUMBERED}"
        raise UserError(
            f"{rule}; for a regression add ?task=regression, in Python task='regression'"
        )
    if task is None and len(present) > FEW:
        raise UserError(f"{len(present)} labels: say ?task=classification, or ?task=regression")
    return y.astype(np.int64)


def broken_rules(dataset: Dataset) -> Iterator[str]:
    """Yield what a data set breaks of what `Dataset` promises."""
    x, y, test, client = dataset.x, dataset.y, dataset.test, dataset.client
    if not isinstance(dataset.classes, int):
        yield "classes must be a whole number"
        return
    for key, value in {"y": y, "test": test, "x": x, "client": client}.items():
        if not isinstance(value, np.ndarray | OnDemand) and (key != "client" or value is not None):
            yield f"{key} must be an array, not {type(value).__name__}"
            return
    n = len(y)
    if not isinstance(x, OnDemand):
        shaped = x.dtype == np.float32 and x.ndim > 1 and len(x) == n and x.size > 0
        if not (shaped and np.isfinite(x).all()):
            yield "x must be finite float32 of shape (samples, ...)"
    if dataset.task.metric == REGRESSION.metric:
        if y.dtype != np.float32 or y.ndim != 1 or not np.isfinite(y).all():
            yield "y must be finite float32 of shape (samples,)"
    elif y.ndim != 1 or y.dtype != np.int64 or not n or y.min() < 0 or y.max() >= dataset.classes:
        yield "y must be int64 of shape (samples,), 0 <= y < classes"
    if test.dtype != bool or test.shape != (n,) or not 0 < int(test.sum()) < n:
        yield "test must be bool of shape (samples,), neither all nor none"
    if client is not None and (client.shape != (n,) or client.dtype.kind not in "iu"):
        yield "client must be None or whole numbers of shape (samples,)"
