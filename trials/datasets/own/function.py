"""A user's own data that code makes: a function, or a class of data sets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common import names, plugins
from trials.common.errors import UserError
from trials.common.files import resolved
from trials.datasets.base import Dataset, DatasetFamily, FileReport, OnDemand
from trials.datasets.own.files import Own, from_arrays
from trials.datasets.own.samples import is_pair, pair_arrays
from trials.scoring.metrics import CLASSIFICATION


@dataclass(frozen=True)
class Function(Own):
    """A user's own data: `package.module:function` or `path/to/file.py:function`. The function takes
    no arguments and returns a `trials.datasets.Dataset`, the arrays of `npz:PATH` by name, or a pair (train, test)
    of `torch.utils.data.Dataset`s. It has to return the same data every time; it is asked for a classification.

    In a function's place may be a class that derives from `DatasetFamily`, whose fields are the arguments of the
    name: `path/to/file.py:Class(3)`.
    """

    summary: ClassVar[str] = (
        "your own data: a function without arguments that returns the arrays of npz, a Dataset, or two of torch "
        "(train, test); or a class of data sets, with its arguments"
    )
    scheme: ClassVar[str] = "function"

    @classmethod
    def at(cls, path: str, head: str = "") -> "Function":
        """The function as a person writes it; a file's path is made absolute. No code runs."""
        bare, given = names.split(path)
        place, _, function = bare.rpartition(":")
        if place.endswith(".py"):
            place = str(resolved(place, "data set"))
        return cls(f"{place}:{function}" + ("" if given is None else f"({given.strip()})"))

    @property
    def name(self) -> str:
        """The canonical spelling; there is no scheme before it."""
        return self.path

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Its data set. Raises `UserError` saying what is wrong with the code or its data."""
        found = self._found()
        if isinstance(found, DatasetFamily):
            made = self._call(partial(found.load, seed, clients, root))
        else:
            made = self._call(found)
        if isinstance(made, Dataset):
            return checked(self.path, made)
        if is_pair(made):
            made = self._call(partial(pair_arrays, f"data set {self.path}", made))
        if not isinstance(made, Mapping):
            raise UserError(
                f"data set {self.path} returned {type(made).__name__}; it must be a "
                "trials.datasets.Dataset, or a dict of x_train, y_train, x_test, y_test [, client_train], or a "
                "pair (train, test) of torch.utils.data.Dataset"
            )
        arrays = {}
        for key, value in made.items():
            try:
                arrays[key] = np.asarray(value)
            except (TypeError, ValueError, RuntimeError) as error:
                raise UserError(f"data set {self.path}: {key} is no array: {error}") from None
        return from_arrays(self.path, arrays)

    def files(self, root: Path) -> list[FileReport]:
        """A class's own files; else a report of the data, which are sound when they load."""
        found = self._found()
        return found.files(root) if isinstance(found, DatasetFamily) else super().files(root)

    def fetch(self, root: str | None) -> Path:
        """The data root, as a class's own `fetch`."""
        found = self._found()
        return found.fetch(root) if isinstance(found, DatasetFamily) else super().fetch(root)

    def _call(self, function: Callable[[], Any]) -> Any:
        return plugins.tried(f"data set {self.path}", function)

    def _found(self) -> Any:
        """What the name stands for: a function, or a data set with its arguments."""
        bare, given = names.split(self.path)
        found = plugins.function(bare, "data set")
        if isinstance(found, type) and issubclass(found, DatasetFamily):
            return self._call(partial(names.make, "dataset", self.path, found, given))
        if given is not None:
            raise UserError(f"data set {self.path}: a function takes no arguments")
        return found


def checked(name: str, made: Dataset) -> Dataset:
    """The data set, if it is what `Dataset` promises and a classification; raises `UserError` naming what is not."""
    if made.task != CLASSIFICATION:
        raise UserError(f"data set {name}: task must be a classification")
    for rule in broken_rules(made):
        raise UserError(f"data set {name}: {rule}")
    return made


def broken_rules(made: Dataset) -> Iterator[str]:
    """What a data set breaks of what `Dataset` promises."""
    if not isinstance(made.classes, int) or made.classes < 1:
        yield f"classes is {made.classes!r}, but must be a whole number"
        return
    arrays: dict[str, Any] = {"y": made.y, "test": made.test, "x": made.x}
    if made.client is not None:
        arrays["client"] = made.client
    for key, value in arrays.items():
        if not isinstance(value, np.ndarray | OnDemand):
            yield f"{key} must be an array, not {type(value).__name__}"
            return
    n = len(made.y)
    regression = made.task.metric != CLASSIFICATION.metric
    labels = (
        made.y.dtype == np.int64 and n > 0 and made.y.min() >= 0 and made.y.max() < made.classes
    )
    rules: dict[str, bool] = {
        "x must be finite float32 of shape (samples, ...)": isinstance(made.x, OnDemand)
        or (
            made.x.dtype == np.float32
            and made.x.ndim > 1
            and len(made.x) == n
            and bool(np.isfinite(made.x).all())
        ),
        "y must be float32 of shape (samples,)": not regression
        or (made.y.dtype == np.float32 and made.y.ndim == 1),
        "y must be int64 of shape (samples,), 0 <= y < classes": regression
        or (made.y.ndim == 1 and bool(labels)),
        "test must be bool of shape (samples,), neither all nor none": made.test.dtype == bool
        and made.test.shape == (n,)
        and 0 < int(made.test.sum()) < n,
        "client must be None or whole numbers of shape (samples,)": made.client is None
        or (made.client.shape == (n,) and made.client.dtype.kind in "iu"),
    }
    yield from (rule for rule, holds in rules.items() if not holds)
