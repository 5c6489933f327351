"""PublishedFile files and what they must be, and arrays that are dear to make, kept in files."""

import gzip
import hashlib
import os
import tarfile
import tempfile
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
PACKED = (".gz", ".tar.gz", ".tar.xz")
"""How a file or a folder may be packed."""
BROKEN = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)
"""What unpacking a damaged file raises."""


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


def report(name: str, place: Path, expected: str, found: str | None, remedy: str) -> FileReport:
    """Report what was found where `expected` should be."""
    sound = found == expected
    return FileReport(name, place, expected, found, sound, "" if sound else remedy)


@dataclass(frozen=True)
class PublishedFile:
    """A published file, or a folder of files that end in `suffix`, known by its content however it is packed.

    `path` below the data root is a file, as it is or with .gz behind its name, or a folder, or a tar archive of it.
    `md5` is that of the content; of a folder that of all names and contents in the order of names, each name
    followed by a zero byte. `url` is where a person, or `download`, gets it.
    """

    path: str
    md5: str
    url: str = ""
    suffix: str | None = None

    def find(self, root: Path) -> Path | None:
        """Return where it lies below the data root; None where it does not."""
        place = root / self.path
        packed = (place.with_name(place.name + end) for end in PACKED)
        return next((path for path in (place, *packed) if path.exists()), None)

    def read(self, root: Path) -> bytes:
        """Return the content of a file."""
        ((_, content),) = self.members(root)
        return content

    def members(self, root: Path) -> Iterator[tuple[str, bytes]]:
        """Yield the name, relative to the folder's parent, and the content of each file in the order of names."""
        place = self.find(root)
        if place is None:
            raise FileNotFoundError(self.path)
        if self.suffix is None:
            content = place.read_bytes()
            yield place.name, content if place == root / self.path else gzip.decompress(content)
        elif place.is_dir():
            for path in sorted(place.rglob(f"*{self.suffix}")):
                if path.is_file():
                    yield path.relative_to(place.parent).as_posix(), path.read_bytes()
        else:
            contents = {}
            with tarfile.open(place) as archive:
                for member in archive:
                    file = archive.extractfile(member)
                    if file is not None and member.name.endswith(self.suffix):
                        contents[member.name] = file.read()
            yield from sorted(contents.items())

    def report(self, root: Path, remedy: str) -> FileReport:
        """Report whether it is there and sound."""
        place, found = self.find(root), None
        if place is not None:
            # Of the content: packing it again, or with another program, changes nothing that is loaded.
            digest = hashlib.md5(usedforsecurity=False)
            try:
                for name, content in self.members(root):
                    digest.update(content if self.suffix is None else name.encode() + b"\0")
                    digest.update(b"" if self.suffix is None else content)
                found = f"md5 {digest.hexdigest()}"
            except BROKEN as error:
                found = f"a damaged file ({error})"
        name = place.name if place and self.suffix is None else Path(self.path).name
        return report(name, place or root / self.path, f"md5 {self.md5}", found, remedy)

    def command(self, root: Path) -> str:
        """Return the command that gets it."""
        place = (root / self.path).with_name(Path(self.url).name)
        return f"curl -L --create-dirs -o {place} {self.url}"

    def download(self, root: Path) -> None:
        """Get it; raises an `OSError` or a `RuntimeError` where that cannot be."""
        from trials.datasets.torchvision_import import torchvision

        if not self.url:
            raise OSError("no automatic download")
        place = (root / self.path).with_name(Path(self.url).name)
        half = place.with_name(f"{place.name}.part")  # what is cut off is not taken for the file
        torchvision.datasets.utils.download_url(self.url, str(half.parent), half.name)
        half.rename(place)

    def unpack(self, root: Path, target: Path) -> None:
        """Lay the content of the file below `target`: a link to it where it is not packed."""
        source, place = self.find(root), target / self.path
        assert source is not None
        place.parent.mkdir(parents=True, exist_ok=True)
        if tarfile.is_tarfile(source):
            with tarfile.open(source) as archive:
                archive.extractall(place.parent, filter="data")
        elif source == root / self.path:
            place.symlink_to(source.resolve())
        else:
            place.write_bytes(self.read(root))


def md5(path: Path) -> str:
    """Return the `md5 HEX` of a file, read in pieces."""
    with path.open("rb") as file:
        return f"md5 {hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()}"


def user_cache() -> Path:
    """Return a folder for data in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "suite-fl" / "data"


def cached(place: Path, name: str, key: str, make: Callable[[], Arrays]) -> Arrays:
    """Return what `make` returns, or what it returned before for the same `key`, a checksum of all that
    decides it. `name` (.npz) lies in the folder `place`, or in the user's cache where that cannot be
    written to.

    A file with another key, cut off or damaged is made anew: nothing in it is run, an npz has a
    checksum of each array, and a reader never sees half of it.
    """
    paths = [folder / name for folder in (place, user_cache())]
    for path in paths:
        kept = _read(path, key)
        if kept is not None:
            return kept
    arrays = make()
    for path in paths:
        with suppress(OSError):
            _write(path, key, arrays)
            break
    return arrays


def packed(x: Array) -> Array:
    """Return numbers (...,) in the smallest of uint8 and uint16 that holds them exactly, else as they are."""
    for kind in (np.uint8, np.uint16):
        with np.errstate(invalid="ignore"):
            small = x.astype(kind)
        if np.array_equal(small, x):
            return small
    return x


def _read(path: Path, key: str) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file["key"]) == key:
                return {name: file[name] for name in file.files if name != "key"}
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
        pass
    return None


def _write(path: Path, key: str, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            np.savez(file, allow_pickle=False, key=np.array(key), **arrays)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(file.name)
            raise
