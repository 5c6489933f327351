"""Published files and what they must be, and arrays that are dear to make of them, kept in the user's cache."""

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
DAMAGED = (OSError, EOFError, zlib.error, tarfile.TarError, BadZipFile, ValueError)
"""What reading a damaged file raises."""
LOADS = "content that loads"
"""What is expected of a file whose checksum nobody publishes."""
FORMAT = "2"
"""The version of what is cached, to be changed with what is made of files."""


@dataclass(frozen=True)
class FileReport:
    """A file or a folder that a data set needs: what it must be, and what it is (None where it is absent)."""

    name: str
    path: Path
    expected: str
    found: str | None
    remedy: str = ""

    @property
    def sound(self) -> bool:
        """Whether it may be loaded."""
        return self.found == self.expected


@dataclass(frozen=True)
class Published:
    """A published file, or a folder of files that end in one of `suffixes`, known by its content however it is packed.

    `path` below the data root is a file, as it is or with .gz behind its name, or a folder or a tar archive of it, which
    may have its name at the `url`, too. `md5` is that of a file's content, of a folder that of lines `NAME MD5` in the order
    of names. It is "" where none is published: what is in such a file is checked as it is loaded.
    """

    path: str
    md5: str = ""
    url: str = ""
    suffixes: tuple[str, ...] = ()

    def places(self, root: Path) -> list[Path]:
        """Return where it may lie below the data root; what is downloaded is put into the last place."""
        place = root / self.path
        packed = [place.with_name(place.name + end) for end in (".gz", ".tar.xz", ".tar.gz")]
        return [place, *packed, *([place.with_name(Path(self.url).name)] if self.url else [])]

    def find(self, root: Path) -> Path | None:
        """Return where it lies below the data root; None where it does not."""
        return next((place for place in self.places(root) if place.exists()), None)

    def read(self, root: Path) -> bytes:
        """Return the content of a file."""
        ((_, content),) = self.members(root)
        return content

    def members(self, root: Path) -> Iterator[tuple[str, bytes]]:
        """Yield the name, relative to the folder around `path`, and the content of each file in the order of names."""
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

    def digest(self, root: Path) -> str:
        """Return the md5 of its content."""
        sums = [(name, _md5(content)) for name, content in self.members(root)]
        lines = "".join(f"{name} {md5}\n" for name, md5 in sums)
        return _md5(lines.encode()) if self.suffixes else sums[0][1]

    def report(self, root: Path, remedy: str = "") -> FileReport:
        """Report whether it is there and sound."""
        place, found = self.find(root), None
        expected = f"md5 {self.md5}" if self.md5 else LOADS
        if place is not None:
            try:
                found = f"md5 {self.digest(root)}" if self.md5 else LOADS
            except DAMAGED as error:
                found = f"a damaged file ({error})"
        remedy = "" if found == expected else remedy
        return FileReport(Path(self.path).name, place or root / self.path, expected, found, remedy)

    def download(self, root: Path) -> None:
        """Get it; raises an `OSError` or a `RuntimeError` where that cannot be."""
        from trials.datasets.torchvision_import import torchvision

        if not self.url:
            raise OSError("no automatic download")
        place = self.places(root)[-1]
        half = place.with_name(f"{place.name}.part")  # what is cut off is not taken for the file
        torchvision.datasets.utils.download_url(self.url, str(half.parent), half.name)
        half.rename(place)

    def unpack(self, root: Path, target: Path) -> None:
        """Write its content below `target`, as it would lie unpacked below a data root."""
        for name, content in self.members(root):
            place = (target / self.path).parent / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def user_cache() -> Path:
    """Return a folder for data in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "suite-fl" / "data"


def cached(name: str, key: str, make: Callable[[], Arrays]) -> Arrays:
    """Return what `make` returns, or what it returned before for the same `key`, a checksum of all that decides it.

    What is cut off or damaged is made anew: an npz has a checksum of each array, and nothing in it is run.
    """
    path = user_cache() / f"{name}-{_md5(f'{FORMAT} {key}'.encode())}.npz"
    with suppress(*DAMAGED), np.load(path) as file:
        return dict(file)
    arrays = make()
    half = path.with_name(f"{path.name}.{os.getpid()}")  # a reader never sees half of it
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with half.open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)
    return arrays
