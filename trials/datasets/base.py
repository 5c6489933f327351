"""Data sets, their published files, and the check of these files before they are read."""

import gzip
import hashlib
import os
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from trials.common.errors import UserError
from trials.scoring.metrics import CLASSIFICATION, Task

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dataset:
    """N samples: features `x` (N, *shape) float32, labels `y` (N,) int64 in [0, classes), and the mask `test` (N,) bool.

    Tokens are whole numbers in float32, which is exact below 2^24. A regression has one output (`classes` = 1) and float32
    targets `y`. `client` (N,) is each sample's owner, if samples have owners. `note` says how a user's table became samples.
    """

    x: Array
    y: Array
    test: Array
    classes: int
    client: Array | None = None
    task: Task = CLASSIFICATION
    note: str = ""
    partitions: dict[str, tuple[Array, ...]] = field(default_factory=dict, init=False, repr=False)
    """Partitions of these samples as arrays of sample ids, by `TrialSpec.data_key`. They are sent to other processes with
    the samples, so that a sweep computes each partition once (`trials.run.trial.partition_data`)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of a sample: (features,), (tokens,) or (channels, height, width)."""
        return tuple(self.x.shape[1:])


@dataclass(frozen=True)
class Published:
    """A published file, or a folder of files with one of the `suffixes`, identified by the MD5 of its unpacked content.
    `path`, relative to the data root, is where the file or folder lies. Beside it a packed copy may lie instead (.gz,
    .tar.gz, .tar.xz, or an archive named as in the `url`). The `md5` of a folder is computed from a text with one line
    `NAME MD5` per file, sorted by name. If no checksum is published, `md5` is "", and content is checked when it is loaded.
    """

    path: str
    md5: str = ""
    url: str = ""
    suffixes: tuple[str, ...] = ()

    def places(self, root: Path) -> list[Path]:
        """Return all paths below the data root at which the file may lie. A download goes to the last path."""
        path = root / self.path
        packed = [path.with_name(path.name + end) for end in (".gz", ".tar.xz", ".tar.gz")]
        return [path, *packed, *([path.with_name(Path(self.url).name)] if self.url else [])]

    def find(self, root: Path) -> Path | None:
        """Return the path at which the file, folder or archive lies below the data root; None if it is absent."""
        return next((path for path in self.places(root) if path.exists()), None)

    def read(self, root: Path) -> bytes:
        """Return the unpacked content. A folder or archive must hold exactly one file."""
        ((_, content),) = self.members(root)
        return content

    def members(self, root: Path) -> Iterator[tuple[str, bytes]]:
        """Yield the name and unpacked content of each file, sorted by name. A file in a folder is called `FOLDER/FILE`."""
        source = self.find(root)
        if source is None:
            raise FileNotFoundError(self.path)
        if not self.suffixes:
            content = source.read_bytes()
            packed = source != root / self.path and source.suffix == ".gz"
            yield Path(self.path).name, gzip.decompress(content) if packed else content
        elif source.is_dir():
            for path in sorted(source.rglob("*")):
                if path.is_file() and path.name.endswith(self.suffixes):
                    yield path.relative_to(source.parent).as_posix(), path.read_bytes()
        else:
            contents = {}
            with tarfile.open(source) as archive:
                for member in archive:
                    file = archive.extractfile(member)
                    if file is not None and member.name.endswith(self.suffixes):
                        contents[member.name] = file.read()
            yield from sorted(contents.items())

    def report(self, root: Path) -> dict[str, Any]:
        """Return the file's `name`, `path` and state. `expected` and `found` describe its content by a text, such as "md5 0cc1...",
        and `sound` says whether both are equal. `found` is None if there is no file.
        """
        expected = f"md5 {self.md5}" if self.md5 else "content that loads"
        path, content = self.find(root), None
        if path is not None:
            try:
                content = f"md5 {self.digest(root)}" if self.md5 else expected
            except Exception as error:  # any of gzip, tarfile, zlib or lzma
                content = f"a damaged file ({error})"
        facts = {"path": str(path or root / self.path), "expected": expected, "found": content}
        return {"name": Path(self.path).name, **facts, "sound": content == expected}

    def digest(self, root: Path) -> str:
        """Return the MD5 of the unpacked content on disk. For an undamaged file it equals `md5`."""
        if not self.suffixes:
            return _md5(self.read(root))
        lines = [f"{name} {_md5(content)}\n" for name, content in self.members(root)]
        return _md5("".join(lines).encode())

    def download(self, root: Path) -> None:
        """Download the file or archive into the data root. Raise `OSError` if it has no `url`."""
        from trials.datasets.torchvision_import import torchvision

        if not self.url:
            raise OSError("no automatic download")
        path = self.places(root)[-1]
        part = path.with_name(f"{path.name}.part")  # renamed when it is complete
        torchvision.datasets.utils.download_url(self.url, str(part.parent), part.name)
        part.rename(path)


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class DatasetFamily(ABC):
    """The base class of data sets. A subclass is a frozen dataclass; a name such as `Moons(20,noise=0.3)` sets its fields."""

    summary: ClassVar[str] = ""
    """The data set's line in listings: by default the first line of the class's docstring."""
    task: ClassVar[Task] = CLASSIFICATION
    kind: ClassVar[str] = ""
    """The type of the samples, such as "grey images". A search on one data set can start from hyperparameters that were
    tuned on another of the same kind; "" for no kind."""
    family: ClassVar[str] = ""
    """A name shared by variants of the same samples or of one generator; "" for a data set without variants."""
    published: ClassVar[tuple[Published, ...]] = ()
    source: ClassVar[str] = ""
    """Where to get files that are not downloaded automatically, and their licence."""

    def __init_subclass__(cls) -> None:
        cls.summary = vars(cls).get("summary") or (cls.__doc__ or "").partition("\n")[0].strip(".")

    @abstractmethod
    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the data set. `seed` determines random parts, such as a test split. A generator makes data for `clients`
        owners (None: its default). Raise `UserError` if a file below the data root `root` is missing or wrong.
        """

    def files(self, root: str | None) -> list[dict[str, Any]]:
        """Return each data file's path, its expected and actual checksum (if one is known), and whether the file is sound. Download nothing."""
        return [file.report(data_root(root)) for file in self.published]

    def fetch(self, root: str | None) -> Path:
        """Download missing files, check all files, and return the data root. Raise `UserError` if a download or a check fails."""
        folder = data_root(root)
        for file in self.published:
            if file.find(folder) is None:
                try:
                    file.download(folder)
                except Exception as error:  # any of the network, the disk or torchvision
                    reason = (str(error).splitlines() or [type(error).__name__])[0]
                    problem = f"{folder / file.path} is absent, and no download: {reason}"
                    raise self.refusal(folder, problem) from None
            report = file.report(folder)
            if not report["sound"]:
                problem = "{path} has the wrong content: expected {expected}, found {found}."
                ways = "Nothing was loaded; remove it and get it again."
                raise self.refusal(folder, f"{problem.format(**report)} {ways}")
        return folder

    def refusal(self, root: Path, problem: str) -> UserError:
        """Return an error about the data files, which says where each file must lie and where to get it."""
        lines = [f"{root / file.path} from {file.url or self.source}" for file in self.published]
        head = "These files are needed, as they are or packed (.gz, .tar.gz, .tar.xz); --data-root or SUITE_DATA name another folder:"
        return UserError("\n".join([f"{type(self).__name__}: {problem}", head, *lines]))


def data_root(root: str | None) -> Path:
    """Return the folder of data files: `root`, else the variable SUITE_DATA, else a folder in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(root or os.environ.get("SUITE_DATA") or cache / "suite-fl" / "data").expanduser()


def drawn_of_each(
    group: Array, rng: np.random.Generator, number: Callable[[Array], Array]
) -> Array:
    """Return a mask (N,) of random samples from each group in `group` (N,). `number` maps group sizes to numbers of samples."""
    order = rng.permutation(len(group))
    _, k, sizes = np.unique(group[order], return_inverse=True, return_counts=True)
    nth = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # within its group
    drawn = np.zeros(len(group), bool)
    drawn[order[np.argsort(k, kind="stable")]] = nth < np.repeat(number(sizes), sizes)
    return drawn
