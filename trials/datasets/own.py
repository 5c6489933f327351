"""A person's own data: arrays or tables in a file, what a Python function returns, and what a program holds."""

import csv
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common import names, plugins
from trials.common.errors import UserError, unknown
from trials.common.files import plain, resolved
from trials.common.lazy import Lazy
from trials.datasets.base import Dataset, DatasetFamily, OnDemand, joined
from trials.datasets.published import Array, FileReport
from trials.datasets.tables import FEW, PART, Options, encoded
from trials.scoring.metrics import CLASSIFICATION, REGRESSION, Task

pd: Any = Lazy("pandas")
ARRAYS = ("x_train", "y_train", "x_test", "y_test", "client_train")
PARTS = ("train", "test")
NONE = Options()


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
        except UserError:
            raise
        except Exception as error:  # NumPy's, pandas', and those of whatever parses a member
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"cannot read data set {self.where}: {reason}") from None
        return dataset_of(self.where, content, self.options, seed)

    def read(self, path: Path) -> Any:
        """Return what is in the file, as `dataset_of` takes it."""
        raise NotImplementedError

    def files(self, root: Path) -> list[FileReport]:
        """Report the data, which are sound when they load."""
        fault, expected = "", "data that load"
        try:
            self.load(0, None, str(root))
        except UserError as error:
            fault = str(error)
        remedy = f"mend {self.name}, or name other data" if fault else ""
        place = Path(self.path)
        return [FileReport(self.name, place, expected, fault or expected, not fault, remedy)]


@dataclass(frozen=True)
class Npz(Own):
    """A user's own data: `npz:PATH` with x_train, y_train, x_test, y_test and, for `natural`,
    client_train (an integer per training sample). Values are used as they are, as float32.
    """

    summary = "your own data: arrays x_train, y_train, x_test, y_test [, client_train]"
    scheme: ClassVar[str] = "npz"

    def read(self, path: Path) -> dict[str, Array]:
        with path.open("rb") as file:  # of all else NumPy says that it is a pickle
            if file.read(2) not in (b"PK", b"\x93N"):
                raise ValueError("it is no .npz archive, as numpy.savez writes them")
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise ValueError("it holds one array without a name (.npy), not an .npz archive")
        with content:
            arrays = {name: content[name] for name in content.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ValueError(f"its member {name} is no array")
        return arrays


@dataclass(frozen=True)
class Csv(Own):
    """A table of comma-separated values with a line of names; `?`, NA and nothing are absent values."""

    summary = "your own table: csv:PATH?target=COLUMN [&client=COLUMN &test=COLUMN_OR_SHARE &task=regression]"
    scheme: ClassVar[str] = "csv"

    def read(self, path: Path) -> Any:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            sep = self.options.reading["sep"]
            lines = list(islice(csv.reader(file, delimiter=sep, skipinitialspace=True), 2))
        other = max(";\t|", key=header.count)
        if not header.strip():
            raise UserError(f"{self.where} is empty: its first line has to name the columns")
        if self.options.sep is None and other in header and "," not in header:
            spelled = "tab" if other == "\t" else other
            raise UserError(
                f"{self.where}: its columns are separated by {other!r}: add &sep={spelled}"
            )
        # pandas would take the first value of such rows for a name of the row, and shift the others.
        if len(lines) > 1 and len(lines[1]) > len(lines[0]):
            raise UserError(
                f"{self.where}: its first line names {len(lines[0])} columns, and the next has {len(lines[1])} values"
            )
        if twice := [column for column in lines[0] if column and lines[0].count(column) > 1]:
            raise UserError(f"{self.where} has two columns {twice[0]!r}")
        return pd.read_csv(path, skipinitialspace=True, low_memory=False, **self.options.reading)


@dataclass(frozen=True)
class Parquet(Own):
    """A table as a Parquet file."""

    summary = "your own table as a Parquet file, written as csv:PATH is"
    scheme: ClassVar[str] = "parquet"

    def read(self, path: Path) -> Any:
        return pd.read_parquet(path)


@dataclass(frozen=True)
class Function(Own):
    """A user's own data: `package.module:function` or `path/to/file.py:function`. The function takes
    no arguments and returns a `trials.datasets.Dataset`, the arrays of `npz:PATH` by name, a pair (train, test)
    of `torch.utils.data.Dataset`s, or a table of pandas or two (train, test), whose columns follow as in
    `FILE.py:function?target=y`. It has to return the same data every time.

    In a function's place may be a class that derives from `DatasetFamily`, whose fields are the arguments of the
    name: `path/to/file.py:Class(3)`.
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
        content = plugins.tried(what, code)
        taken = partial(dataset_of, what, content, self.options, seed)
        dataset: Dataset = plugins.tried(what, taken)
        return dataset

    def files(self, root: Path) -> list[FileReport]:
        """Report a class's own files; else the data, which are sound when they load."""
        code = self._code()
        return code.files(root) if isinstance(code, DatasetFamily) else super().files(root)

    def fetch(self, root: str | None) -> Path:
        """Return the data root, as a class's own `fetch`."""
        code = self._code()
        return code.fetch(root) if isinstance(code, DatasetFamily) else super().fetch(root)

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
                f"data set {self.name} was given by a program, and is known to its process alone: let a function "
                "in a file return it, and name that, FILE.py:function"
            )
        return _given[self.path](seed)


_given: dict[str, Callable[[int], Dataset]] = {}


def given(data: Any, columns: Mapping[str, Any]) -> str:
    """Return the name of data that a program holds, from here on, whatever `dataset_of` takes. `columns` are what a
    table's are for, as `Options`. Raises `UserError` where they do not fit.
    """
    asked = {key: value for key, value in columns.items() if value is not None}
    if isinstance(data, Dataset) and data.task.metric == REGRESSION.metric:
        asked |= {"task": "regression"}
    options = Options(**asked)
    dataset = dataset_of("data", data, options, 0)
    digest, x = hashlib.sha256(repr(sorted(asked.items())).encode()), dataset.x
    x = np.frombuffer(x.key.encode(), np.uint8) if isinstance(x, OnDemand) else x
    for array in (x, dataset.y, dataset.test, dataset.client):
        digest.update(b"" if array is None else np.ascontiguousarray(array).data)
    # Only what a table becomes depends on the seed, which draws its test rows.
    load = partial(dataset_of, "data", data, options)
    _given[key := digest.hexdigest()[:16]] = load if dataset.note else lambda seed: dataset
    return f"{Given.scheme}:{key}"


def dataset_of(name: str, content: Any, options: Options, seed: int) -> Dataset:
    """Return what a person has as a data set: a `Dataset`, arrays by the names of `npz:PATH`, two torch Datasets
    (train, test), or one table or two of pandas, pyarrow or whatever has `to_pandas`. Raises `UserError` where it does
    not fit.
    """
    parts = content if isinstance(content, tuple | list) else (content,)
    tables = [_table(part) for part in parts]
    if tables and all(table is not None for table in tables):
        if len(tables) > len(PARTS):
            raise UserError(f"{name}: one table, or two (train, test), but there are {len(tables)}")
        if len(tables) == 1:
            return encoded(name, tables[0], options, seed)
        if set(tables[0]) ^ set(tables[1]):
            odd = sorted(map(str, set(tables[0]) ^ set(tables[1])))[0]
            raise UserError(f"{name}: only one of training and test table has the column {odd!r}")
        marked = [table.assign(**{PART: part}) for part, table in zip(PARTS, tables, strict=True)]
        both = pd.concat(marked, ignore_index=True)
        return encoded(name, both, Options(**{**vars(options), "test": PART}), seed)
    for key, value in vars(options).items():
        if key != "task" and value != getattr(NONE, key):
            raise UserError(f"{name}: {key}: only a table has columns, and it is {_kind(content)}")
    regression = options.task == "regression"
    if isinstance(content, Dataset):
        if (content.task.metric == REGRESSION.metric) != regression:
            asked = "no regression" if regression else "a regression: add ?task=regression"
            raise UserError(f"{name} is {asked}")
        for rule in broken_rules(content):
            raise UserError(f"{name}: {rule}")
        return content
    if _is_pair(content):
        content = pair_arrays(name, content)
    if not isinstance(content, Mapping):
        raise UserError(
            f"{name} must be a trials.datasets.Dataset, a dict of x_train, y_train, x_test, y_test [, client_train], "
            f"two torch Datasets (train, test), or one table or two with target=, not {_kind(content)}"
        )
    return from_arrays(name, content, options.task)


def _table(data: Any) -> Any:
    """Return a pandas table of it; None where it is none."""
    if hasattr(data, "to_pandas"):
        return data.to_pandas()
    return data if type(data).__name__ == "DataFrame" and hasattr(data, "iloc") else None


def _kind(data: Any) -> str:
    if isinstance(data, tuple | list):
        return f"a {type(data).__name__} of {', '.join(type(part).__name__ for part in data)}"
    return type(data).__name__


def _is_pair(data: object) -> bool:
    """Return whether something is a training part and a test part of samples."""
    return (
        isinstance(data, tuple | list)
        and len(data) == len(PARTS)
        and all(hasattr(part, "__len__") and hasattr(part, "__getitem__") for part in data)
    )


def pair_arrays(name: str, pair: Any) -> dict[str, Array]:
    """Return x_train, y_train, x_test and y_test of `(train, test)`, whose samples are pairs (x, y); each is asked for
    once, in order. Raises `UserError` naming the sample that does not fit.
    """
    arrays: dict[str, Array] = {}
    for part, samples in zip(PARTS, pair, strict=True):
        x: list[Array] = []
        y: list[Array] = []
        for i in range(len(samples)):
            sample, what = samples[i], f"{name}: sample {i} of {part}"
            if not isinstance(sample, tuple | list) or len(sample) != 2:
                raise UserError(f"{what} must be a pair (x, y), but is {type(sample).__name__}")
            features, label = map(_numbers, sample)
            if features is None:
                raise UserError(
                    f"{what} must have numbers as its x, but it is {type(sample[0]).__name__}: use a transform that "
                    "makes tensors"
                )
            if label is None or label.size != 1:
                raise UserError(f"{what} must have one number as its y, but it is {sample[1]!r}")
            if x and features.shape != x[0].shape:
                raise UserError(
                    f"{name}: samples must have one shape, but sample {i} of {part} has {features.shape} and "
                    f"sample 0 {x[0].shape}"
                )
            x.append(features)
            y.append(label.reshape(()))
        if not x:
            raise UserError(f"{name}: the {part} part has no samples")
        arrays |= {f"x_{part}": np.stack(x), f"y_{part}": np.stack(y)}
    return arrays


def _array(value: Any) -> Array:
    """Return an array of anything, tensors of any precision, device and gradient among it."""
    if hasattr(value, "detach"):  # NumPy knows neither bfloat16 nor gradients
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    return np.asarray(value)


def _numbers(value: Any) -> Array | None:
    """Return numbers as an array; None for anything else: a picture of Pillow is an array of pixels too, laid out
    otherwise.
    """
    if type(value).__module__.startswith("PIL."):
        return None
    with suppress(TypeError, ValueError, RuntimeError):
        array = _array(value)
        return array if array.dtype.kind in "iufb" else None
    return None


def from_arrays(name: str, content: Mapping[str, Any], task: str | None) -> Dataset:
    """Return a data set of x_train, y_train, x_test, y_test [, client_train]; labels may be columns.

    Raises `UserError` naming the array that is missing or does not fit.
    """
    if missing := sorted(set(ARRAYS[:4]) - set(content)):
        has = ", ".join(map(str, content)) or "nothing"
        raise UserError(f"{name} lacks {', '.join(missing)}; it has {has}")
    arrays, regression = {}, task == "regression"
    for key, value in content.items():
        if key not in ARRAYS:
            raise UserError(f"{name}: {unknown('array', str(key), ARRAYS)}")
        arrays[key] = _checked(name, key, value, regression)
    for a, b in (("x_train", "y_train"), ("x_test", "y_test"), ("x_train", "client_train")):
        if b in arrays and len(arrays[a]) != len(arrays[b]):
            raise UserError(f"{name}: {a} has {len(arrays[a])} rows, but {b} has {len(arrays[b])}")
    shapes = [arrays[key].shape[1:] for key in ("x_train", "x_test")]
    if shapes[0] != shapes[1]:
        raise UserError(
            f"{name}: a sample of x_train has shape {shapes[0]}, one of x_test {shapes[1]}"
        )
    y = np.concatenate([arrays["y_train"], arrays["y_test"]])
    y = y.astype(np.float32) if regression else _labels(name, y, task)
    test = np.arange(len(y)) >= len(arrays["y_train"])
    client = None
    if "client_train" in arrays:
        _, index = np.unique(arrays["client_train"], return_inverse=True)
        client = np.concatenate([index, np.full(int(test.sum()), -1)])
    x = joined([arrays["x_train"], arrays["x_test"]])
    if regression:
        return Dataset(x, y, test, 1, client, REGRESSION)
    return Dataset(x, y, test, int(y.max()) + 1, client)


def _labels(name: str, y: Array, task: str | None) -> Array:
    """Return labels (N,) that count 0, 1, ..."""
    meant = "; for a regression add ?task=regression (from Python task='regression')"
    if (largest := y.max()) >= len(y):
        raise UserError(
            f"{name}: the largest label is {largest}, but labels count 0, 1, ... and there are {len(y)} "
            f"samples{meant}"
        )
    if smallest := int(y.min()):
        raise UserError(
            f"{name}: the smallest label is {smallest}, but labels count 0, 1, ...: subtract {smallest} from "
            f"y_train and y_test{meant}"
        )
    if not largest:
        raise UserError(f"{name}: all labels are 0: two labels at least")
    # A model has an output for each label up to the largest.
    if 2 * (present := len(np.unique(y))) <= largest:
        raise UserError(
            f"{name}: the largest label is {largest}, but only {present} labels occur: number them, as "
            f"numpy.unique(y, return_inverse=True)[1] does{meant}"
        )
    if task is None and present > FEW and len(y) < 2 * present:
        raise UserError(
            f"{name}: {len(y)} samples have {present} different labels: are they numbers to predict "
            "(?task=regression), or labels (?task=classification)?"
        )
    return y.astype(np.int64)


def _checked(name: str, key: str, value: Any, regression: bool) -> Array:
    """Return samples (n, ...) of finite numbers, labels 0, 1, ... or targets (n,), or owners, whole numbers (n,)."""
    try:
        array = _array(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{name}: {key} is no array: {error}") from None
    samples = key.startswith("x_")
    if not samples and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    form = "(samples, ...)" if samples else "(samples,)"
    shown = f"is {array.dtype} of shape {array.shape}"
    fits = array.dtype.kind in "iufb" and (array.ndim > 1 if samples else array.ndim == 1)
    if not fits or not len(array):
        words = key[0] == "y" and array.dtype.kind in "USO"
        hint = ": number the labels, as numpy.unique(y, return_inverse=True)[1] does" * words
        raise UserError(f"{name}: {key} must be finite numbers of shape {form}, but {shown}{hint}")
    if not array.size:
        raise UserError(f"{name}: {key} must hold at least one value per sample, but {shown}")
    finite = np.isfinite(array)
    if not finite.all():
        at = tuple(np.argwhere(~finite)[0].tolist())
        raise UserError(f"{name}: {key} must be finite, but holds {array[at]} at {list(at)}")
    if samples and (largest := float(np.abs(array).max())) > float(np.finfo(np.float32).max):
        raise UserError(f"{name}: {key} holds values beyond float32, as {largest:g}")
    whole = key[0] == "c" or (key[0] == "y" and not regression)
    if whole and ((array != np.floor(array)).any() or (key[0] == "y" and array.min() < 0)):
        raise UserError(
            f"{name}: {key} must be whole numbers; labels count 0, 1, ... For a regression add ?task=regression "
            "(from Python task='regression')"
        )
    return array


def broken_rules(dataset: Dataset) -> Iterator[str]:
    """Yield what a data set breaks of what `Dataset` promises."""
    x, y, test, client = dataset.x, dataset.y, dataset.test, dataset.client
    classes: object = dataset.classes
    if not isinstance(classes, int) or classes < 1:
        yield f"classes is {classes!r}, but must be a whole number"
        return
    for key, value in {"y": y, "test": test, "x": x, "client": client}.items():
        if not isinstance(value, np.ndarray | OnDemand) and (key != "client" or value is not None):
            yield f"{key} must be an array, not {type(value).__name__}"
            return
    n = len(y)
    if not isinstance(x, OnDemand):
        shaped = x.dtype == np.float32 and x.ndim > 1 and len(x) == n
        if not (shaped and np.isfinite(x).all()):
            yield "x must be finite float32 of shape (samples, ...)"
    if dataset.task.metric == REGRESSION.metric:
        if y.dtype != np.float32 or y.ndim != 1:
            yield "y must be float32 of shape (samples,)"
    elif y.ndim != 1 or y.dtype != np.int64 or not n or y.min() < 0 or y.max() >= classes:
        yield "y must be int64 of shape (samples,), 0 <= y < classes"
    if test.dtype != bool or test.shape != (n,) or not 0 < int(test.sum()) < n:
        yield "test must be bool of shape (samples,), neither all nor none"
    if client is not None and (client.shape != (n,) or client.dtype.kind not in "iu"):
        yield "client must be None or whole numbers of shape (samples,)"
