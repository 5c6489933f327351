"""Published image sets, read from the files that torchvision knows, and what is cut from them.

Every set has the standard training and test images. Pixels / 255 are standardised by the training
images' mean and deviation, per channel, unless its class says otherwise.
"""

import gzip
import tarfile
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from zipfile import ZipFile

import numpy as np

from trials.common import randomness
from trials.common.errors import UserError
from trials.datasets.base import Array, Dataset, DatasetFamily, File, FileReport
from trials.heterogeneity.modifiers import PowerLaw
from trials.heterogeneity.partitions import Labels


@dataclass(frozen=True)
class Pixels:
    """Images (n, channels, height, width) uint8 and labels (n,), training and test."""

    train: Array
    train_y: Array
    test: Array
    test_y: Array

    def pick(self, train: Array, test: Array) -> "Pixels":
        """The images at these places (indices or masks)."""
        return Pixels(self.train[train], self.train_y[train], self.test[test], self.test_y[test])

    def standardised(
        self, classes: int, mean: Iterable[float] = (), deviation: Iterable[float] = ()
    ) -> Dataset:
        """(pixels / 255 - mean) / deviation, both per channel; where they are not given, those of the
        training images. One float32 array, worked on in place.
        """
        n, channels = len(self.train), self.train.shape[1]
        scales = np.array([*mean, *deviation]).reshape(2, -1)
        if not scales.size:
            scales = np.array([_moments(self.train[:, c]) for c in range(channels)]).T
        x = np.empty((n + len(self.test), *self.train.shape[1:]), np.float32)
        x[:n], x[n:] = self.train, self.test
        shift, scale = scales.astype(np.float32).reshape(2, channels, 1, 1)
        x /= np.float32(255)
        x -= shift
        x /= scale
        y = np.concatenate([self.train_y, self.test_y]).astype(np.int64)
        return Dataset(x, y, np.arange(len(y)) >= n, classes)


def _moments(pixels: Array) -> tuple[float, float]:
    """Exact mean and deviation of pixels / 255, from their histogram; 1 where all are equal."""
    counts = np.zeros(256, np.int64)
    for start in range(0, len(pixels), 1000):
        counts += np.bincount(pixels[start : start + 1000].ravel(), minlength=256)
    values, weights = np.arange(256) / 255, counts / counts.sum()
    mean = float(values @ weights)
    return mean, float((values - mean) ** 2 @ weights) ** 0.5 or 1.0


class Images(DatasetFamily):
    """Images in published files, which may lie below the data root in more than one way."""

    kind = "grey images"
    layouts: ClassVar[tuple[tuple[File, ...], ...]]
    """Ways the files may lie, the published archives first; the one of which most is there is taken."""
    url: ClassVar[str]
    """Where the published archives are; their names follow."""

    @abstractmethod
    def pixels(self, root: str | None) -> Pixels:
        """The images, from files that were checked."""

    def layout(self, root: Path) -> tuple[File, ...]:
        """The layout of which most is there, the first of equals."""
        return max(
            self.layouts, key=lambda files: np.mean([(root / f.path).is_file() for f in files])
        )

    def files(self, root: Path) -> list[FileReport]:
        return [file.report(root, self.remedy(root)) for file in self.layout(root)]

    def remedy(self, root: Path) -> str:
        commands = [
            f"curl -L --create-dirs -o {root / file.path} {self.url}{Path(file.path).name}\n"
            for file in self.layouts[0]
        ]
        either = " or ".join(files[0].path for files in self.layouts)
        return (
            f"Where there is a network:\n{''.join(commands)}"
            f"or name the folder below which {either} lies with --data-root or SUITE_DATA."
        )

    def download(self, root: Path) -> None:
        """Fetch what is absent through torchvision."""
        from trials.datasets.torchvision_import import torchvision

        self._torchvision(torchvision.datasets, root)

    @abstractmethod
    def _torchvision(self, known: Any, root: Path) -> None:
        """Have one of torchvision's data sets (`known`) download itself into `root`."""


def contents(root: Path, files: Iterable[File], wanted: Iterable[str]) -> dict[str, bytes]:
    """The bytes of each wanted file by name: as it is, gzipped, in a zip of gzips, or in a tar."""
    names, found = set(wanted), {}
    for path in (root / file.path for file in files):
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for entry in archive:
                    file = archive.extractfile(entry)
                    if Path(entry.name).name in names and file is not None:
                        found[Path(entry.name).name] = file.read()
        elif path.suffix == ".zip":
            with ZipFile(path) as archive:
                for member in archive.namelist():
                    if Path(member).stem in names:
                        found[Path(member).stem] = gzip.decompress(archive.read(member))
        elif path.suffix == ".gz":
            found[path.stem] = gzip.decompress(path.read_bytes())
        else:
            found[path.name] = path.read_bytes()
    return found


def idx(data: bytes) -> Array:
    """An idx file of bytes (LeCun's format): 0, 0, 8, number of dimensions, sizes (big-endian)."""
    dimensions = data[3] if len(data) > 3 and data[:3] == b"\0\0\x08" else 0
    shape = np.frombuffer(data, ">i4", dimensions, 4)
    start = 4 + 4 * dimensions
    if not dimensions or len(data) - start != np.prod(shape, dtype=np.int64):
        raise ValueError(f"an idx file of {len(data)} bytes that do not fit its header")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _mnist_layouts(archive: str, *sums: tuple[str, str, str]) -> tuple[tuple[File, ...], ...]:
    """(name, md5 of the gzipped file, md5 of the file) -> the two ways the files may lie."""
    raw = f"{archive}/raw"
    return (
        tuple(File(f"{raw}/{name}.gz", f"md5 {packed}") for name, packed, _ in sums),
        tuple(File(f"{raw}/{name}", f"md5 {plain}") for name, _, plain in sums),
    )


@dataclass(frozen=True)
class MNIST(Images):
    """MNIST (LeCun et al. 1998) through torchvision: 60,000 / 10,000 images 28x28, standardised by
    the training set's mean 0.1307 and deviation 0.3081; with the flag `unit` pixels / 255, in [0, 1].
    """

    family = "mnist"
    summary: ClassVar[str] = "MNIST 28x28 through torchvision, 10 classes"
    archive: ClassVar[str] = "MNIST"
    url: ClassVar[str] = "https://ossci-datasets.s3.amazonaws.com/mnist/"
    mean: ClassVar[float] = 0.1307
    deviation: ClassVar[float] = 0.3081
    parts: ClassVar[tuple[str, ...]] = (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    )
    layouts: ClassVar[tuple[tuple[File, ...], ...]] = _mnist_layouts(
        "MNIST",
        (parts[0], "f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
        (parts[1], "d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
        (parts[2], "9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
        (parts[3], "ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    )

    unit: bool = field(default=False, kw_only=True)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """The scaled images of the files below the data root, downloaded when absent."""
        return self.pixels(root).standardised(10, *self.scale)

    @property
    def scale(self) -> tuple[list[float], list[float]]:
        """What is taken from pixels / 255, and what the rest is divided by."""
        return ([0.0], [1.0]) if self.unit else ([self.mean], [self.deviation])

    def pixels(self, root: str | None) -> Pixels:
        folder = self.fetch(root)
        found = contents(folder, self.layout(folder), self.parts)
        x, y, test_x, test_y = (idx(found[name]) for name in self.parts)
        return Pixels(x[:, None], y, test_x[:, None], test_y)

    def _torchvision(self, known: Any, root: Path) -> None:
        getattr(known, self.archive)(root, download=True)


@dataclass(frozen=True)
class FashionMNIST(MNIST):
    """Fashion-MNIST (Xiao et al. 2017): the same layout, mean 0.2860, deviation 0.3530."""

    family = "fashion_mnist"
    summary: ClassVar[str] = "Fashion-MNIST 28x28 through torchvision, 10 classes"
    archive: ClassVar[str] = "FashionMNIST"
    url: ClassVar[str] = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
    mean: ClassVar[float] = 0.2860
    deviation: ClassVar[float] = 0.3530
    layouts: ClassVar[tuple[tuple[File, ...], ...]] = _mnist_layouts(
        "FashionMNIST",
        (MNIST.parts[0], "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        (MNIST.parts[1], "25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
        (MNIST.parts[2], "bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
        (MNIST.parts[3], "bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
    )


def on_devices(
    pixels: Pixels, partitioned: list[Array], stream: str, seed: int
) -> tuple[Array, Array, Array]:
    """Images that are born on devices: x (N, channels, height, width) float32 in 0..255, test (N,)
    and owner (N,), device after device. `partitioned` holds each device's places in the training images
    followed by the test ones; a tenth of each is test, drawn by `seed` in the named stream.
    """
    ids, n = np.concatenate(partitioned), len(pixels.train)
    x = np.empty((len(ids), *pixels.train.shape[1:]), np.float32)
    early = ids < n
    x[early] = pixels.train[ids[early]]
    x[~early] = pixels.test[ids[~early] - n]
    tenths = [
        randomness.generator(stream, seed, k).permutation(len(mine)) < len(mine) // 10
        for k, mine in enumerate(partitioned)
    ]
    client = np.repeat(np.arange(len(partitioned)), [len(mine) for mine in partitioned])
    return x, np.concatenate(tenths), client


def binary(pixels: Pixels, seed: int) -> Pixels:
    """1,000 training and 1,000 test images of the labels 0 and 1, drawn without replacement."""
    rng = randomness.generator("binary_subset", seed)
    train, test = (
        rng.choice(np.flatnonzero(y < 2), 1000, replace=False)
        for y in (pixels.train_y, pixels.test_y)
    )
    return pixels.pick(train, test)


@dataclass(frozen=True)
class MNIST01(MNIST):
    """DeFed's binary subset of MNIST: 1,000 training images drawn at random from labels 0 and 1, and
    1,000 test images drawn in the same way from the test set. Standardised as MNIST.

    Reading: 1,000 in all, not of each label (MNIST's test set has only 980 zeros); `seed` draws them,
    without replacement and without regard to the label.
    """

    summary: ClassVar[str] = (
        "DeFed's MNIST 0 against 1: 1,000 random images to train, 1,000 to test"
    )

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        return binary(self.pixels(root), seed).standardised(2, *self.scale)


@dataclass(frozen=True)
class FashionMNIST01(FashionMNIST):
    """DeFed's binary subset of Fashion-MNIST (T-shirt against trousers), drawn as `MNIST01`'s."""

    summary: ClassVar[str] = (
        "DeFed's Fashion-MNIST 0 against 1: 1,000 random images to train, 1,000 to test"
    )

    load = MNIST01.load


def _scale_each(x: Array, pixels: Pixels, unit: bool) -> None:
    """x <- x / 255, or (x - mean) / (deviation + 0.001), both of each pixel over all images; in place."""
    if unit:
        x /= np.float32(255)
        return
    n = len(pixels.train) + len(pixels.test)
    total, square = np.zeros((2, *pixels.train.shape[1:]))
    for images in (pixels.train, pixels.test):
        for start in range(0, len(images), 1000):
            some = images[start : start + 1000].astype(np.float64)
            total += some.sum(0)
            square += np.square(some).sum(0)
    x -= (mean := total / n).astype(np.float32)
    x /= (np.sqrt(square / n - mean**2) + 0.001).astype(np.float32)


@dataclass(frozen=True)
class MNISTPowerLaw(MNIST):
    """FedProx's MNIST (Li et al. 2020): all 70,000 images, training and test, on 1,000 devices with
    69 each in the mean; a tenth of each device's images is test.

    Device u has the digits (u + j) mod 10, j < `labels` (2; FOLB Fig. 6: 1, 2, 5, 10), with the sizes
    of `labels(c)+sizes(powerlaw)` on the pooled images. `mnist` under that level has the official
    test set and partitions 54,000 images, and thus has smaller clients.

    A pixel p of 0..255 becomes (p - mean) / (deviation + 0.001), mean and deviation of that pixel over
    all 70,000 images, as in the authors' code; with the flag `unit` p / 255.
    """

    summary: ClassVar[str] = (
        "FedProx's MNIST: 70,000 images on 1,000 devices, 2 digits each, power-law sizes (natural)"
    )
    labels: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.labels <= 10:
            raise UserError(f"mnist_powerlaw({self.labels}): 1 <= labels <= 10 must hold")

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """The images of `clients` devices (default 1000)."""
        pixels = self.pixels(root)
        y = np.concatenate([pixels.train_y, pixels.test_y]).astype(np.int64)
        try:
            rng = randomness.generator("mnist_powerlaw", seed)
            partitioned = PowerLaw().assign(Labels(self.labels), y, clients or 1000, rng)
        except UserError as error:
            raise UserError(f"mnist_powerlaw: {error}") from None
        x, test, client = on_devices(pixels, partitioned, "mnist_powerlaw_test", seed)
        _scale_each(x, pixels, self.unit)
        return Dataset(x, y[np.concatenate(partitioned)], test, 10, client)
