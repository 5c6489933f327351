"""What a data set is, where its files lie, and how they are checked before anything is read.

A data set is a frozen dataclass whose fields are the arguments of its name (`synthetic(1,1)`) and
whose `load` returns a `Dataset`. One that has files says in `files` which they are and what they must
be; `fetch` refuses a file that is not that, and gets absent ones where it can.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from trials.common.errors import UserError
from trials.scoring.metrics import CLASSIFICATION, Task

Array = npt.NDArray[Any]


class OnDemand(ABC):
    """Samples that are computed when they are met, for more of them than memory holds.

    `shape` is (N, *shape of a sample); equal `key`s mean equal samples.
    """

    shape: tuple[int, ...]
    key: str

    @abstractmethod
    def take(self, ids: Array) -> Array:
        """Samples `ids` (b,): float32 (b, *shape), a function of the ids alone."""


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
        """Bytes of samples and labels on a device, with numbers of `size` bytes; samples that are computed
        on demand are not there.
        """
        x = 0 if isinstance(self.x, OnDemand) else self.x.size * size
        return x + self.y.nbytes


@dataclass(frozen=True)
class FileReport:
    """A file (or folder) that a data set needs, what it must be and what it is.

    `expected` and `found` are checksums (`md5 ...`) where one is published, else sizes, counts or
    what is wrong; `found` is None when the file is absent. `remedy` says how to get it, "" when sound.
    """

    name: str
    path: Path
    expected: str
    found: str | None
    sound: bool
    remedy: str


class DatasetFamily(ABC):
    """What an entry of `DATASETS` is."""

    summary: ClassVar[str] = ""
    task: ClassVar[Task] = CLASSIFICATION
    kind: ClassVar[str] = ""
    """Data sets of one kind resemble each other: what was tuned on one is tried on another. "": no others."""
    family: ClassVar[str] = ""
    """Data sets of one family are variants of the same samples or of one generator; its name if none."""

    @abstractmethod
    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Build the data set. `seed` and `clients` matter to generated ones, `root` to files.

        Raises `UserError` when a file is absent, with the remedy, or has the wrong content.
        """

    def files(self, root: Path) -> list[FileReport]:
        """The files needed below `root`; none for what is generated."""
        return []

    def remedy(self, root: Path) -> str:
        """Which files to put where, and by which command."""
        return ""

    def download(self, root: Path) -> None:
        """Get the files from the internet into `root`; raises an `OSError` when that cannot be."""
        raise OSError("no automatic download")

    def fetch(self, root: str | None) -> Path:
        """The data root, once every file is there and sound; absent ones are downloaded.

        Raises `UserError` naming the file, what is expected and what was found. A file that is there
        but wrong is left alone.
        """
        folder = data_root(root)
        reports = self.files(folder)
        self._refuse(folder, [r for r in reports if r.found is not None])
        absent = [report.name for report in reports if report.found is None]
        if absent:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                # Aside: what downloads and unpacks asks nobody before it writes and removes.
                with TemporaryDirectory(dir=folder, prefix="download-") as aside:
                    self.download(Path(aside))
                    _move(Path(aside), folder)
            except (OSError, RuntimeError, HTTPException) as error:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                shown = ", ".join(absent[:6]) + (", ..." if len(absent) > 6 else "")
                raise UserError(
                    f"{type(self).__name__} is not in {folder} (absent: {shown}) and could not be "
                    f"downloaded ({reason}).\n{self.remedy(folder)}"
                ) from None
            self._refuse(folder, self.files(folder))
        return folder

    def wrong(self, root: Path, path: Path, expected: str, found: str) -> UserError:
        """The error for a file with the wrong content."""
        return UserError(
            f"{type(self).__name__}: {path} has the wrong content: expected {expected}, "
            f"found {found}. Nothing was loaded; remove it and get it again.\n{self.remedy(root)}"
        )

    def _refuse(self, root: Path, reports: list[FileReport]) -> None:
        for report in reports:
            if not report.sound:
                raise self.wrong(root, report.path, report.expected, report.found or "nothing")


def _move(source: Path, target: Path) -> None:
    """Move the files below one folder to below another, but for those that are there."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        elif not place.exists():
            path.rename(place)


@dataclass(frozen=True)
class File:
    """A published file: its path below the data root, and its `md5 HEX`, or its size as `N bytes`
    where no checksum is published.
    """

    path: str
    expected: str

    def report(self, root: Path, remedy: str) -> FileReport:
        """The report of what lies in the file's place."""
        path = root / self.path
        found = None
        if path.is_file():
            found = md5(path) if self.expected.startswith("md5") else f"{path.stat().st_size} bytes"
        return report(path.name, path, self.expected, found, remedy)


def report(name: str, place: Path, expected: str, found: str | None, remedy: str) -> FileReport:
    """Report what was found where `expected` should be."""
    sound = found == expected
    return FileReport(name, place, expected, found, sound, "" if sound else remedy)


def md5(path: Path) -> str:
    """`md5 HEX` of a file, read in pieces."""
    with path.open("rb") as file:
        return f"md5 {hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()}"


def data_root(root: str | None) -> Path:
    """Where data files are: the argument, else SUITE_DATA, else a folder in the user's cache."""
    return Path(root or os.environ.get("SUITE_DATA") or user_cache()).expanduser()


def user_cache() -> Path:
    """A folder for data in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "suite-fl" / "data"


def joined(parts: list[Array]) -> Array:
    """The rows of all parts as one float32 array. Empties the list as it goes, so that the samples
    are not held twice.
    """
    total = sum(map(len, parts))
    x = np.empty((total, *parts[0].shape[1:]), np.float32)
    while parts:
        part = parts.pop()
        x[total - len(part) : total] = part
        total -= len(part)
    return x


def moments(train: Array) -> tuple[Array, Array]:
    """Return the mean and the deviation of each column of `train` (n, ...), float64 without NaN. The deviation of a
    column that is constant up to rounding is 1: sums of n equal numbers x err by up to n eps |x|.
    """
    mean, deviation = train.mean(0), train.std(0)
    rounding = len(train) * np.finfo(np.float64).eps * np.abs(mean)
    return mean, np.where(deviation > rounding, deviation, 1.0)


def stratified_fifth(y: Array, seed: int) -> Array:
    """A fifth of the samples, (N,) bool, drawn by `seed` with the label shares of `y`."""
    from sklearn.model_selection import train_test_split

    _, held_out = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed)
    test = np.zeros(len(y), bool)
    test[held_out] = True
    return test
