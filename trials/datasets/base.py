"""Data sets, the files that they are made of, and how these are checked before anything is read."""

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
    """N samples: `x` (N, *shape) float32, `y` (N,) int64 below `classes`, `test` (N,) bool.

    Tokens are whole numbers in float32, which is exact below 2^24. A regression has one output (`classes` = 1) and float32
    `y`. `client` (N,) names each sample's owner, if it has any. `note` says how samples were made from a user's data.
    """

    x: Array
    y: Array
    test: Array
    classes: int
    client: Array | None = None
    task: Task = CLASSIFICATION
    note: str = ""
    partitions: dict[str, tuple[Array, ...]] = field(default_factory=dict, init=False, repr=False)
    """The ids of kept partitions, by `TrialSpec.data_key`. They go wherever the samples go, so that a
    sweep's are computed once (`trials.run.trial.partition_data`)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of a sample: (features,), (tokens,) or (channels, height, width)."""
        return tuple(self.x.shape[1:])


@dataclass(frozen=True)
class Published:
    """A published file, or a folder of files that end in one of `suffixes`, known by its content however it is packed.

    `path` below the data root is a file, perhaps with .gz at its end, or a folder, or a tar archive of it, which may have
    its name at the `url`, too. `md5` is that of a file's content; for a folder, that of lines `NAME MD5` in order; ""
    where none is published: such files are checked when loaded.
    """

    path: str
    md5: str = ""
    url: str = ""
    suffixes: tuple[str, ...] = ()

    def places(self, root: Path) -> list[Path]:
        """Return its possible places below the data root; a download goes to the last one."""
        place = root / self.path
        packed = [place.with_name(place.name + end) for end in (".gz", ".tar.xz", ".tar.gz")]
        return [place, *packed, *([place.with_name(Path(self.url).name)] if self.url else [])]

    def find(self, root: Path) -> Path | None:
        """Return its place below the data root, or None."""
        return next((place for place in self.places(root) if place.exists()), None)

    def read(self, root: Path) -> bytes:
        """Return the content of a file."""
        ((_, content),) = self.members(root)
        return content

    def members(self, root: Path) -> Iterator[tuple[str, bytes]]:
        """Yield each file's name, relative to the folder around `path`, and its content, ordered by name."""
        place = self.find(root)
        if place is None:
            raise FileNotFoundError(self.path)
        if not self.suffixes:
            content = place.read_bytes()
            packed = place != root / self.path and place.suffix == ".gz"
            yield Path(self.path).name, gzip.decompress(content) if packed else content
        elif place.is_dir():
            for path in sorted(place.rglob("*")):
                if path.is_file() and path.name.endswith(self.suffixes):
                    yield path.relative_to(place.parent).as_posix(), path.read_bytes()
        else:
            contents = {}
            with tarfile.open(place) as archive:
                for member in archive:
                    file = archive.extractfile(member)
                    if file is not None and member.name.endswith(self.suffixes):
                        contents[member.name] = file.read()
            yield from sorted(contents.items())

    def report(self, root: Path) -> dict[str, Any]:
        """Return its name and path, what it is `expected` to be and was `found` to be (None: absent), and whether it is `sound`."""
        expected = f"md5 {self.md5}" if self.md5 else "content that loads"
        place, content = self.find(root), None
        if place is not None:
            try:
                content = f"md5 {self.digest(root)}" if self.md5 else expected
            except Exception as error:  # gzip's, tarfile's, zlib's, lzma's
                content = f"a damaged file ({error})"
        facts = {"path": str(place or root / self.path), "expected": expected, "found": content}
        return {"name": Path(self.path).name, **facts, "sound": content == expected}

    def digest(self, root: Path) -> str:
        """Return the md5 of its content."""
        if not self.suffixes:
            return _md5(self.read(root))
        lines = [f"{name} {_md5(content)}\n" for name, content in self.members(root)]
        return _md5("".join(lines).encode())

    def download(self, root: Path) -> None:
        """Download the file or archive below the data root; raise whatever the network or the disk does."""
        from trials.datasets.torchvision_import import torchvision

        if not self.url:
            raise OSError("no automatic download")
        place = self.places(root)[-1]
        half = place.with_name(f"{place.name}.part")  # what is cut off is not taken for the file
        torchvision.datasets.utils.download_url(self.url, str(half.parent), half.name)
        half.rename(place)


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class DatasetFamily(ABC):
    """An entry of `DATASETS`: a frozen dataclass whose fields are the arguments of its name (examples/own_dataset.py)."""

    summary: ClassVar[str] = ""
    """What listings say of it: by default the first line of its description."""
    task: ClassVar[Task] = CLASSIFICATION
    kind: ClassVar[str] = ""
    """Data sets of one kind are similar: what was tuned on one is tried on another. "": no kind."""
    family: ClassVar[str] = ""
    """Data sets of one family are variants of the same samples or of one generator; its name if none."""
    published: ClassVar[tuple[Published, ...]] = ()
    source: ClassVar[str] = ""
    """Where to get files that are not downloaded, and their licence."""

    def __init_subclass__(cls) -> None:
        cls.summary = vars(cls).get("summary") or (cls.__doc__ or "").partition("\n")[0].strip(".")

    @abstractmethod
    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Build the data set. `seed` and `clients` matter to generated ones, `root` to files. Raises `UserError` when a
        file is absent, with the remedy, or has the wrong content.
        """

    def files(self, root: str | None) -> list[dict[str, Any]]:
        """Return a report on each file needed below the data root (`Published.report`). Nothing is written."""
        return [file.report(data_root(root)) for file in self.published]

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
                except Exception as error:  # of the network, the disk and torchvision
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
        """Return the error for a problem of its files; it says which files to put where."""
        lines = [f"{root / file.path} from {file.url or self.source}" for file in self.published]
        head = "These files are needed, as they are or packed (.gz, .tar.gz, .tar.xz); --data-root or SUITE_DATA name another folder:"
        return UserError("\n".join([f"{type(self).__name__}: {problem}", head, *lines]))


def data_root(root: str | None) -> Path:
    """Return where data files are: the argument, else SUITE_DATA, else a folder in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(root or os.environ.get("SUITE_DATA") or cache / "suite-fl" / "data").expanduser()


def drawn_of_each(
    group: Array, rng: np.random.Generator, number: Callable[[Array], Array]
) -> Array:
    """Draw samples of each group, (N,) bool: `number(m)` of m, the groups' sizes."""
    order = rng.permutation(len(group))
    _, k, sizes = np.unique(group[order], return_inverse=True, return_counts=True)
    nth = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # of its group
    drawn = np.zeros(len(group), bool)
    drawn[order[np.argsort(k, kind="stable")]] = nth < np.repeat(number(sizes), sizes)
    return drawn
