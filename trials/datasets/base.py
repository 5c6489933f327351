"""What a data set is, where its files lie, and how they are checked before anything is read."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common.errors import UserError
from trials.datasets.published import LOADS, Array, FileReport, Published, user_cache
from trials.scoring.metrics import CLASSIFICATION, Task


class OnDemand(ABC):
    """Samples that are computed when they are met, for more of them than memory holds.

    `shape` is (N, *shape of a sample); equal `key`s mean equal samples.
    """

    shape: tuple[int, ...]
    key: str

    @abstractmethod
    def take(self, ids: Array) -> Array:
        """Return samples `ids` (b,): float32 (b, *shape), a function of the ids alone."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """N samples: `x` (N, *shape) float32, `y` (N,) int64 below `classes`, `test` (N,) bool.

    `x` may be computed on demand. Tokens are whole numbers in float32, which is exact below 2^24. A regression has one output
    (`classes` = 1) and float32 `y`. `client` (N,) names the owner of each sample where data are born
    on clients, else it is None. `note` says how samples were made of what a person has.
    """

    x: Array | OnDemand
    y: Array
    test: Array
    classes: int
    client: Array | None = None
    task: Task = CLASSIFICATION
    note: str = ""
    partitions: dict[str, tuple[Array, ...]] = field(default_factory=dict, init=False, repr=False)
    """Ids of partitions that are kept, by `TrialSpec.data_key`. They go wherever the samples go, so that a
    sweep's are computed once (`trials.run.trial.partition_data`)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample: (features,), (tokens,) or (channels, height, width)."""
        return tuple(self.x.shape[1:])

    def bytes(self, size: int) -> int:
        """Count the bytes of samples and labels on a device, with numbers of `size` bytes; samples that are
        computed on demand are not there.
        """
        x = 0 if isinstance(self.x, OnDemand) else self.x.size * size
        return x + self.y.nbytes


class DatasetFamily(ABC):
    """What an entry of `DATASETS` is: a frozen dataclass whose fields are the arguments of its name."""

    summary: ClassVar[str] = ""
    task: ClassVar[Task] = CLASSIFICATION
    kind: ClassVar[str] = ""
    """Data sets of one kind resemble each other: what was tuned on one is tried on another. "": no others."""
    family: ClassVar[str] = ""
    """Data sets of one family are variants of the same samples or of one generator; its name if none."""
    published: ClassVar[tuple[Published, ...]] = ()
    """The files it is made of."""
    source: ClassVar[str] = ""
    """Where a person gets those that are not downloaded, and under which licence."""

    @abstractmethod
    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Build the data set. `seed` and `clients` matter to generated ones, `root` to files.

        Raises `UserError` when a file is absent, with the remedy, or has the wrong content.
        """

    def files(self, root: Path) -> list[FileReport]:
        """Report the files needed below `root`; none for what is generated. Those without a checksum are loaded."""
        remedy = self.remedy(root)
        reports = [file.report(root, remedy) for file in self.published]
        unchecked = any(report.expected == LOADS for report in reports)
        if unchecked and all(report.sound for report in reports):
            fault = self.fault(root)
            reports = [replace(report, found=fault or report.found) for report in reports]
        return reports

    def fault(self, root: Path) -> str:
        """Return why the data do not load, "" where they do."""
        try:
            self.load(0, None, str(root))
        except UserError as error:
            return str(error)
        return ""

    def remedy(self, root: Path) -> str:
        """Say which files to put where."""
        lines = [f"{root / file.path} from {file.url or self.source}" for file in self.published]
        head = "These files are needed, as they are or packed (.gz, .tar.gz, .tar.xz); --data-root or SUITE_DATA name another folder:"
        return "\n".join([head, *lines])

    def fetch(self, root: str | None) -> Path:
        """Return the data root, once every file is there and sound; absent ones are downloaded.

        Raises `UserError` naming the file, what is expected and what was found. A file that is there
        but wrong is left alone.
        """
        folder = data_root(root)
        for file in self.published:
            if file.find(folder) is None:
                try:
                    file.download(folder)
                except (OSError, RuntimeError, HTTPException) as error:
                    reason = (str(error).splitlines() or [type(error).__name__])[0]
                    raise UserError(
                        f"{type(self).__name__}: {folder / file.path} is absent and could not be downloaded "
                        f"({reason}).\n{self.remedy(folder)}"
                    ) from None
            report = file.report(folder)
            if not report.sound:
                raise self.wrong(folder, report.path, report.expected, str(report.found))
        return folder

    def wrong(self, root: Path, path: Path, expected: str, found: str) -> UserError:
        """Return the error for a file with the wrong content."""
        return UserError(
            f"{type(self).__name__}: {path} has the wrong content: expected {expected}, "
            f"found {found}. Nothing was loaded; remove it and get it again.\n{self.remedy(root)}"
        )


def data_root(root: str | None) -> Path:
    """Return where data files are: the argument, else SUITE_DATA, else a folder in the user's cache."""
    return Path(root or os.environ.get("SUITE_DATA") or user_cache()).expanduser()


def drawn_of_each(
    group: Array, rng: np.random.Generator, number: Callable[[Array], Array]
) -> Array:
    """Draw samples of each group, (N,) bool: `number(m)` of m, the groups' sizes."""
    order = rng.permutation(len(group))
    _, k, sizes = np.unique(group[order], return_inverse=True, return_counts=True)
    nth = np.empty(len(order), int)  # of its group's samples
    nth[np.argsort(k, kind="stable")] = np.arange(len(order)) - np.repeat(
        np.cumsum(sizes) - sizes, sizes
    )
    drawn = np.zeros(len(group), bool)
    drawn[order] = nth < number(sizes)[k]
    return drawn


def scaled(x: Array, test: Array) -> Array:
    """Return each feature (N, p) minus its training mean, divided by its training deviation; float32. An absent one,
    NaN, is the training mean; one that is constant in training, up to rounding, is only shifted.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = x.astype(np.float64)
    scaler = make_pipeline(SimpleImputer(), StandardScaler())
    standardised: Any = scaler.fit(x[~test]).transform(x)
    return standardised.astype(np.float32)
