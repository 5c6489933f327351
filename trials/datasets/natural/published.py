"""Published files of any packing: a file or its .gz, a folder or a tar archive of it."""

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from trials.common import randomness
from trials.datasets.base import Array, DatasetFamily, FileReport, md5, moments, report

BROKEN = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)
"""What unpacking a damaged file raises."""


@dataclass(frozen=True)
class Content:
    """A published file, plain or as .gz: its path below the data root and the md5 of its plain content."""

    path: str
    md5: str

    def find(self, root: Path) -> Path | None:
        """The plain file, else the .gz."""
        places = (root / self.path, root / f"{self.path}.gz")
        return next((place for place in places if place.is_file()), None)

    def read(self, root: Path) -> bytes:
        """The plain content."""
        place = self.find(root)
        if place is None:
            raise FileNotFoundError(self.path)
        content = place.read_bytes()
        return gzip.decompress(content) if place.suffix == ".gz" else content

    def stamp(self, root: Path) -> str:
        """The md5 of the file as it lies there."""
        place = self.find(root)
        return md5(place) if place else "absent"

    def report(self, root: Path, remedy: str) -> FileReport:
        """The md5 of what is in the file."""
        place = self.find(root)
        found = None
        if place:
            try:
                content = self.read(root)
                found = f"md5 {hashlib.md5(content, usedforsecurity=False).hexdigest()}"
            except BROKEN as error:
                found = f"a damaged file ({error})"
        return report(self.path, place or root / self.path, f"md5 {self.md5}", found, remedy)


@dataclass(frozen=True)
class Tree:
    """A published folder of `count` files that end in `suffix`, as a folder or as a tar archive beside its
    place (`PATH.tar.gz`, `PATH.tar.xz`). `sha256` is that of all names and contents, in the order of
    names: names relative to the folder's parent, each followed by a zero byte, the content's length as 8
    bytes and the content.
    """

    path: str
    suffix: str
    count: int
    sha256: str

    def find(self, root: Path) -> Path | None:
        """The folder, else the archive."""
        place = root / self.path
        if place.is_dir():
            return place
        archives = sorted(place.parent.glob(f"{place.name}.tar.*"))
        return next(iter(archives), None)

    def members(self, root: Path) -> Iterator[tuple[str, bytes]]:
        """Names, relative to the folder's parent, and contents, in the order of names."""
        place = self.find(root)
        if place is None:
            return
        if place.is_dir():
            for path in sorted(place.rglob(f"*{self.suffix}")):
                if path.is_file():
                    yield path.relative_to(place.parent).as_posix(), path.read_bytes()
            return
        with tarfile.open(place) as archive:
            found = {}
            for member in archive:
                if member.isfile() and member.name.endswith(self.suffix):
                    opened = archive.extractfile(member)
                    found[member.name] = opened.read() if opened else b""
        yield from sorted(found.items())

    def stamp(self, root: Path) -> str:
        """The archive's md5; of a folder, that of the names and sizes."""
        place = self.find(root)
        if place is None or place.is_file():
            return md5(place) if place else "absent"
        listing = "\n".join(
            f"{path.relative_to(place)} {path.stat().st_size}" for path in sorted(place.rglob("*"))
        )
        return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest()

    def report(self, root: Path, remedy: str) -> FileReport:
        """The number of files, and the checksum of all of them."""
        place = self.find(root)
        found = None
        if place:
            digest, count = hashlib.sha256(), 0
            try:
                for name, content in self.members(root):
                    digest.update(name.encode() + b"\0" + len(content).to_bytes(8, "big") + content)
                    count += 1
                found = f"{count} files, sha256 {digest.hexdigest()}"
            except BROKEN as error:
                found = f"a damaged archive ({error})"
        expected = f"{self.count} files, sha256 {self.sha256}"
        return report(self.path, place or root / self.path, expected, found, remedy)


class PublishedData(DatasetFamily):
    """A data set made of published files, which the user has downloaded from `source`."""

    published: ClassVar[tuple[Content | Tree, ...]] = ()
    folder: ClassVar[str]
    """Where the files are, below the data root."""
    source: ClassVar[str]
    """Where the files come from, and under which licence."""

    def files(self, root: Path) -> list[FileReport]:
        return [one.report(root, self.remedy(root)) for one in self.published]

    def remedy(self, root: Path) -> str:
        return (
            f"Get the files from {self.source}, and put them into {root / self.folder} (.gz and .tar.xz "
            "are read too), or name the folder that holds it with --data-root or SUITE_DATA."
        )

    def stamp(self, root: Path) -> str:
        """What changes when one of the files changes."""
        return " ".join(one.stamp(root) for one in self.published)


def share_of_each(client: Array, share: int, seed: int) -> Array:
    """One in `share` of each owner's samples, rounded down, (N,) bool, drawn by `seed`."""
    test = np.zeros(len(client), bool)
    rng = randomness.generator("natural_test", seed)
    order = rng.permutation(len(client))
    for owner in np.unique(client):
        own = order[client[order] == owner]
        test[own[: len(own) // share]] = True
    return test


def standardised(x: Array, test: Array) -> Array:
    """Return each feature minus its training mean, divided by its training deviation; float32."""
    mean, deviation = moments(x[~test].astype(np.float64))
    return ((x - mean) / deviation).astype(np.float32)
