"""EMNIST (Cohen et al. 2017), and the two federated sets that are made of the same NIST forms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common import randomness
from trials.common.errors import UserError
from trials.datasets.base import Array, Dataset, File
from trials.datasets.images import Images, Pixels, contents, idx, on_devices
from trials.datasets.leaf import Leaf
from trials.heterogeneity.modifiers import LogNormalAbsolute
from trials.heterogeneity.partitions import Labels, assign_counts

ARCHIVE = File("EMNIST/raw/gzip.zip", "md5 58c8d27c78d21e728a6bc7b3cc06412e")


def emnist_layouts(split: str, train: int, test: int) -> tuple[tuple[File, ...], ...]:
    """NIST's archive, or the four unpacked files, of which only the sizes are published."""
    raw = f"EMNIST/raw/emnist-{split}"
    files = []
    for part, images in (("train", train), ("test", test)):
        files.append(File(f"{raw}-{part}-images-idx3-ubyte", f"{16 + 784 * images} bytes"))
        files.append(File(f"{raw}-{part}-labels-idx1-ubyte", f"{8 + images} bytes"))
    return (ARCHIVE,), tuple(files)


class EMNIST(Images):
    """A split of EMNIST, 28x28, turned upright (the files hold transposed images).

    NIST's archive has a checksum; of unpacked files the size and the labels are checked.
    """

    family = "emnist"
    url: ClassVar[str] = "https://biometrics.nist.gov/cs_links/EMNIST/"
    split: ClassVar[str]
    first: ClassVar[int] = 0
    """The file's lowest label."""
    each: ClassVar[tuple[int, int] | None] = None
    """Training and test images of every label, where the split is balanced."""
    total: ClassVar[int]
    """Number of labels."""

    def pixels(self, root: str | None) -> Pixels:
        folder = self.fetch(root)
        files = self.layout(folder)
        names = [Path(file.path).name for file in self.layouts[1]]
        found = contents(folder, files, names)
        arrays = []
        for i, name in enumerate(names):
            path = folder / (files[i] if len(files) == len(names) else files[0]).path
            try:
                arrays.append(idx(found.pop(name)))
            except (KeyError, ValueError) as error:
                raise self.wrong(folder, path, f"{name}, an idx file", str(error)) from None
            if i % 2:
                arrays[-1] = arrays[-1].astype(np.int64) - self.first
                self._check_labels(folder, path, arrays[-1], i // 2)
        x, y, test_x, test_y = arrays
        return Pixels(x[:, None].swapaxes(2, 3), y, test_x[:, None].swapaxes(2, 3), test_y)

    def _check_labels(self, folder: Path, path: Path, y: Array, part: int) -> None:
        if y.min() < 0 or y.max() >= self.total:
            expected = f"labels {self.first}..{self.first + self.total - 1}"
            found = f"{y.min() + self.first}..{y.max() + self.first}"
            raise self.wrong(folder, path, expected, found)
        counts = np.bincount(y, minlength=self.total)
        low, high = (1, None) if self.each is None else (self.each[part], self.each[part])
        if counts.min() < low or (high is not None and counts.max() > high):
            expected = f"{'at least 1' if high is None else high} of each of {self.total} labels"
            raise self.wrong(folder, path, expected, f"{counts.min()}..{counts.max()}")

    def _torchvision(self, known: Any, root: Path) -> None:
        known.EMNIST(root, split=self.split, download=True)


@dataclass(frozen=True)
class EMNISTLetters(EMNIST):
    """EMNIST Letters: 124,800 / 20,800 images of 26 letters, upper and lower case merged, labels
    0..25; standardised by the training images that are used.

    `letters` keeps the first so many: emnist_letters(10), 48,000 / 8,000, is the set of FedDC's code.
    """

    summary: ClassVar[str] = "EMNIST Letters 28x28, 26 classes, or the first `letters` (FedDC: 10)"
    split: ClassVar[str] = "letters"
    first: ClassVar[int] = 1
    each: ClassVar[tuple[int, int] | None] = (4800, 800)
    total: ClassVar[int] = 26
    layouts: ClassVar[tuple[tuple[File, ...], ...]] = emnist_layouts("letters", 124800, 20800)
    letters: int = 26

    def __post_init__(self) -> None:
        if not 2 <= self.letters <= 26:
            raise UserError(
                f"emnist_letters(letters): 2 <= letters <= 26 must hold, got {self.letters}"
            )

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        pixels = self.pixels(root)
        kept = pixels.pick(pixels.train_y < self.letters, pixels.test_y < self.letters)
        return kept.standardised(self.letters)


@dataclass(frozen=True)
class EMNISTByClass(EMNIST):
    """EMNIST by class: 697,932 / 116,323 images of 62 classes (digits, upper case, lower case),
    unbalanced; standardised by the training images. On 200 clients under `labels(2)+sizes(powerlaw)` it
    is FOLB's FEMNIST; it names no writers, for those see `femnist`.
    """

    summary: ClassVar[str] = "EMNIST by class 28x28, 62 classes, without writers"
    split: ClassVar[str] = "byclass"
    total: ClassVar[int] = 62
    layouts: ClassVar[tuple[tuple[File, ...], ...]] = emnist_layouts("byclass", 697932, 116323)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        return self.pixels(root).standardised(62)


@dataclass(frozen=True)
class FEMNIST10(EMNISTByClass):
    """FedProx's FEMNIST (Li et al. 2020): the lower-case letters a..j of EMNIST by class, pixels / 255,
    on 200 devices. Training and test images are pooled, up to 4,000 of a letter.

    Device u has the letters (u + j) mod 10, j < `labels`, and max(2, floor(n_u / labels)) images of
    each, n_u = floor(LogNormal(4, 1) + 5). A tenth of each device's images is test.

    Reading: 5 labels as in the paper (femnist10(3) is its code). In the code all devices share the
    first images of a letter, which would put one image in two splits: here each image is partitioned once,
    two to every device that has the letter and the others in turn while they last.
    """

    summary: ClassVar[str] = "FedProx's FEMNIST: 10 lower-case letters on 200 devices (natural)"
    labels: int = 5

    def __post_init__(self) -> None:
        if not 1 <= self.labels <= 10:
            raise UserError(f"femnist10(labels): 1 <= labels <= 10 must hold, got {self.labels}")

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """The images of `clients` devices (default 200)."""
        pixels = self.pixels(root)
        letter = np.concatenate([pixels.train_y, pixels.test_y]) - 36
        partitioned = self._partition(
            letter, clients or 200, randomness.generator("femnist10", seed)
        )
        x, test, client = on_devices(pixels, partitioned, "femnist10_test", seed)
        x /= np.float32(255)
        return Dataset(x, letter[np.concatenate(partitioned)], test, 10, client)

    def _partition(self, letter: Array, devices: int, rng: np.random.Generator) -> list[Array]:
        stock = np.minimum(np.bincount(letter[letter >= 0], minlength=10)[:10], 4000)
        try:
            counts = LogNormalAbsolute(4, 1).counts(Labels(self.labels), stock, devices, rng)
        except UserError as error:
            raise UserError(f"femnist10: {error}") from None
        return assign_counts(letter, counts, rng)


@dataclass(frozen=True)
class FEMNIST(Leaf):
    """FEMNIST of LEAF (Caldas et al. 2018): characters of 62 classes by writer, 28x28, pixels as LEAF
    writes them, in [0, 1] with a white background of 1. LEAF's own training and test parts.
    """

    kind = "grey images"
    family = "emnist"
    summary: ClassVar[str] = "LEAF's FEMNIST 28x28 by writer (natural), 62 classes"
    folder: ClassVar[str] = "femnist"
    classes: ClassVar[int] = 62

    def convert(self, x: list[list[float]], y: list[int]) -> tuple[Array, Array]:
        """Images of 784 pixels each, and their labels."""
        return np.array(x, np.float32).reshape(len(x), 1, 28, 28), np.array(y, np.int64)
