"""What a data set is, where its files lie, and how they are checked before anything is read.

A data set is a frozen dataclass whose fields are the arguments of its name (`synthetic(1,1)`) and
whose `load` returns a `Dataset`. One that has files says in `published` or `files` which they are and what they
must be; `fetch` refuses a file that is not that, and gets absent ones where it can.
"""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common.errors import UserError
from trials.datasets.published import Array, FileReport, PublishedFile, user_cache
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
    """What an entry of `DATASETS` is."""

    summary: ClassVar[str] = ""
    task: ClassVar[Task] = CLASSIFICATION
    kind: ClassVar[str] = ""
    """Data sets of one kind resemble each other: what was tuned on one is tried on another. "": no others."""
    family: ClassVar[str] = ""
    """Data sets of one family are variants of the same samples or of one generator; its name if none."""
    published: ClassVar[tuple[PublishedFile, ...]] = ()
    """The files it is made of, where their checksums are published."""
    source: ClassVar[str] = ""
    """Where a person gets the files, and under which licence."""

    @abstractmethod
    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Build the data set. `seed` and `clients` matter to generated ones, `root` to files.

        Raises `UserError` when a file is absent, with the remedy, or has the wrong content.
        """

    def layout(self, root: Path) -> tuple[PublishedFile, ...]:
        """Return the published files that are wanted below `root`."""
        return self.published

    def files(self, root: Path) -> list[FileReport]:
        """Report the files needed below `root`; none for what is generated."""
        remedy = self.remedy(root)
        return [file.report(root, remedy) for file in self.layout(root)]

    def remedy(self, root: Path) -> str:
        """Say which files to put where, and by which command."""
        commands = "".join(f"{file.command(root)}\n" for file in self.published if file.url)
        by_hand = [root / file.path for file in self.published if not file.url]
        text = f"Where there is a network:\n{commands}" if commands else ""
        if by_hand:
            places = sorted({str(path.parent) for path in by_hand})
            text += (
                f"Get {', '.join(path.name for path in by_hand)} from {self.source}, and put them into "
                f"{', '.join(places)} (.gz and .tar.xz are read too),\n"
            )
        return f"{text}or name the folder that holds them with --data-root or SUITE_DATA."

    def fetch(self, root: str | None) -> Path:
        """Return the data root, once every file is there and sound; absent ones are downloaded.

        Raises `UserError` naming the file, what is expected and what was found. A file that is there
        but wrong is left alone.
        """
        folder = data_root(root)
        absent = self._absent(folder)  # before anything is downloaded, what is there must be sound
        try:
            for file in self.layout(folder) if absent else ():
                if file.find(folder) is None:
                    file.download(folder)
            absent = absent and self._absent(folder)
            if absent:
                raise OSError("no automatic download")
        except (OSError, RuntimeError, HTTPException) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            shown = ", ".join(absent[:6]) + (", ..." if len(absent) > 6 else "")
            raise UserError(
                f"{type(self).__name__} is not in {folder} (absent: {shown}) and could not be "
                f"downloaded ({reason}).\n{self.remedy(folder)}"
            ) from None
        return folder

    def _absent(self, folder: Path) -> list[str]:
        """Return the names of absent files; raises `UserError` for one that is there and wrong."""
        reports = self.files(folder)
        for report in reports:
            if report.found is not None and not report.sound:
                raise self.wrong(folder, report.path, report.expected, report.found)
        return [report.name for report in reports if report.found is None]

    def wrong(self, root: Path, path: Path, expected: str, found: str) -> UserError:
        """Return the error for a file with the wrong content."""
        return UserError(
            f"{type(self).__name__}: {path} has the wrong content: expected {expected}, "
            f"found {found}. Nothing was loaded; remove it and get it again.\n{self.remedy(root)}"
        )


def data_root(root: str | None) -> Path:
    """Return where data files are: the argument, else SUITE_DATA, else a folder in the user's cache."""
    return Path(root or os.environ.get("SUITE_DATA") or user_cache()).expanduser()


def joined(parts: list[Array]) -> Array:
    """Return the rows of all parts as one float32 array. Empties the list as it goes, so that the samples
    are not held twice.
    """
    total = sum(map(len, parts))
    x = np.empty((total, *parts[0].shape[1:]), np.float32)
    while parts:
        part = parts.pop()
        x[total - len(part) : total] = part
        total -= len(part)
    return x


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
