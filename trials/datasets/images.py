"""Images of torchvision's data sets, which it decodes, and what papers cut from them.

Every set has the standard training and test images. Pixels / 255 are standardised by the training
images' mean and deviation, per channel, unless its class says otherwise.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from zipfile import ZipFile

import numpy as np

from trials.common import randomness
from trials.common.errors import UserError
from trials.common.names import bounded
from trials.datasets.base import Dataset, DatasetFamily
from trials.datasets.published import Array, PublishedFile
from trials.heterogeneity.modifiers import LogNormalAbsolute, PowerLaw
from trials.heterogeneity.partitions import Labels, assign_counts


@dataclass(frozen=True)
class Pixels:
    """Images (n, channels, height, width) uint8 and labels (n,), training and test."""

    train: Array
    train_y: Array
    test: Array
    test_y: Array

    def pick(self, train: Array, test: Array) -> "Pixels":
        """Return the images at these places (indices or masks)."""
        return Pixels(self.train[train], self.train_y[train], self.test[test], self.test_y[test])

    def standardised(
        self, classes: int, mean: Sequence[float] = (), deviation: Sequence[float] = ()
    ) -> Dataset:
        """Return (pixels / 255 - mean) / deviation, both per channel; where they are not given, those of the
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
        return Dataset(x, self.y, np.arange(len(x)) >= n, classes)

    @property
    def y(self) -> Array:
        """Labels of training and test images."""
        return np.concatenate([self.train_y, self.test_y]).astype(np.int64)

    def on_devices(self, parts: list[Array], stream: str, seed: int) -> tuple[Array, Array, Array]:
        """Return images that are born on devices: x (N, channels, height, width) float32 in 0..255, test (N,)
        and owner (N,), device after device. `parts` holds each device's places in the training images
        followed by the test ones; a tenth of each is test, drawn by `seed` in the named stream.
        """
        ids, n = np.concatenate(parts), len(self.train)
        x = np.empty((len(ids), *self.train.shape[1:]), np.float32)
        early = ids < n  # two copies instead of one of all images, pooled
        x[early] = self.train[ids[early]]
        x[~early] = self.test[ids[~early] - n]
        sizes = [len(part) for part in parts]
        tenths = [
            randomness.generator(stream, seed, k).permutation(size) < size // 10
            for k, size in enumerate(sizes)
        ]
        return x, np.concatenate(tenths), np.repeat(np.arange(len(parts)), sizes)


def _moments(pixels: Array) -> tuple[float, float]:
    """Return the exact mean and deviation of pixels / 255, from their histogram; 1 where all are equal."""
    counts = np.zeros(256, np.int64)
    for start in range(0, len(pixels), 1000):
        counts += np.bincount(pixels[start : start + 1000].ravel(), minlength=256)
    values, weights = np.arange(256) / 255, counts / counts.sum()
    mean = float(values @ weights)
    return mean, float((values - mean) ** 2 @ weights) ** 0.5 or 1.0


class Torchvision(DatasetFamily):
    """Images that a class of torchvision decodes: `archive` is its name, `published` its files, `classes` how many
    labels it has. A further one is such a class and its entry in `DATASETS`.
    """

    kind = "grey images"
    archive: ClassVar[str]
    classes = 10
    scale: tuple[Sequence[float], Sequence[float]] = ((), ())
    """What is taken from pixels / 255, and what the rest is divided by, per channel; by default the training images' own."""

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the scaled images of the files below the data root, downloaded when absent."""
        return self.pixels(root).standardised(self.classes, *self.scale)

    def pixels(self, root: str | None) -> Pixels:
        """Return the images, from files that were checked: nothing else is where torchvision looks."""
        folder, arrays = self.fetch(root), []
        with TemporaryDirectory() as place:
            # torchvision unpickles what it finds, so nothing lies there but what was checked.
            self.unpack(folder, Path(place))
            for train in (True, False):
                part = self.decode(place, train)
                images = np.asarray(part.data)
                arrays.append(images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2))
                arrays.append(np.asarray(part.targets))
        return Pixels(*arrays)

    def unpack(self, folder: Path, place: Path) -> None:
        """Lay the content of the files below the data root where torchvision decodes it."""
        for file in self.layout(folder):
            file.unpack(folder, place)

    @property
    def torchvision(self) -> Any:
        """torchvision's class."""
        from trials.datasets.torchvision_import import torchvision

        return getattr(torchvision.datasets, self.archive)

    def decode(self, root: str, train: bool) -> Any:
        """Return torchvision's training or test part."""
        return self.torchvision(root, train=train)


def _idx_files(archive: str, url: str, *md5: str) -> tuple[PublishedFile, ...]:
    """Return the four files of a set in MNIST's format; checksums are those of the unpacked ones."""
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in KINDS]
    return tuple(
        PublishedFile(f"{archive}/raw/{name}", of, f"{url}{name}.gz")
        for name, of in zip(names, md5, strict=True)
    )


KINDS = ("images-idx3", "labels-idx1")


@dataclass(frozen=True)
class MNIST(Torchvision):
    """MNIST (LeCun et al. 1998) through torchvision: 60,000 / 10,000 images 28x28, standardised by
    the training set's mean 0.1307 and deviation 0.3081; with the flag `unit` pixels / 255, in [0, 1].
    """

    family = "mnist"
    summary = "MNIST 28x28 through torchvision, 10 classes"
    archive = "MNIST"
    mean = 0.1307
    deviation = 0.3081
    published = _idx_files(
        "MNIST",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    )

    unit: bool = field(default=False, kw_only=True)

    @property
    def scale(self) -> tuple[list[float], list[float]]:  # type: ignore[override] # by instance here
        """The mean and the deviation of the training images, or nothing with `unit`."""
        return ([0.0], [1.0]) if self.unit else ([self.mean], [self.deviation])


@dataclass(frozen=True)
class FashionMNIST(MNIST):
    """Fashion-MNIST (Xiao et al. 2017): the same layout, mean 0.2860, deviation 0.3530."""

    family = "fashion_mnist"
    summary = "Fashion-MNIST 28x28 through torchvision, 10 classes"
    archive = "FashionMNIST"
    mean = 0.2860
    deviation = 0.3530
    published = _idx_files(
        "FashionMNIST",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    )


@dataclass(frozen=True)
class MNIST01(MNIST):
    """DeFed's binary subset of MNIST: 1,000 training images drawn at random from labels 0 and 1, and
    1,000 test images drawn in the same way from the test set. Standardised as MNIST.

    Reading: 1,000 in all, not of each label (MNIST's test set has only 980 zeros); `seed` draws them,
    without replacement and without regard to the label.
    """

    summary = "DeFed's MNIST 0 against 1: 1,000 random images to train, 1,000 to test"

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        pixels, rng = self.pixels(root), randomness.generator("binary_subset", seed)
        train, test = (
            rng.choice(np.flatnonzero(y < 2), 1000, replace=False)
            for y in (pixels.train_y, pixels.test_y)
        )
        return pixels.pick(train, test).standardised(2, *self.scale)


@dataclass(frozen=True)
class FashionMNIST01(FashionMNIST):
    """DeFed's binary subset of Fashion-MNIST (T-shirt against trousers), drawn as `MNIST01`'s."""

    summary = "DeFed's Fashion-MNIST 0 against 1: 1,000 random images to train, 1,000 to test"

    load = MNIST01.load


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

    summary = (
        "FedProx's MNIST: 70,000 images on 1,000 devices, 2 digits each, power-law sizes (natural)"
    )
    labels: int = bounded(2, low=1, high=10)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the images of `clients` devices (default 1000)."""
        pixels, rng = self.pixels(root), randomness.generator("mnist_powerlaw", seed)
        y = pixels.y
        try:
            parts = PowerLaw().assign(Labels(self.labels), y, clients or 1000, rng)
        except UserError as error:
            raise UserError(f"mnist_powerlaw: {error}") from None
        x, test, client = pixels.on_devices(parts, "mnist_powerlaw_test", seed)
        if self.unit:
            x /= np.float32(255)
        else:
            _standardise_each_pixel(x, pixels)
        return Dataset(x, y[np.concatenate(parts)], test, 10, client)


def _standardise_each_pixel(x: Array, pixels: Pixels) -> None:
    """Make x (x - mean) / (deviation + 0.001), both of each pixel over all images; in place."""
    n = len(pixels.train) + len(pixels.test)
    total, square = np.zeros((2, *pixels.train.shape[1:]))
    for images in (pixels.train, pixels.test):
        for start in range(0, len(images), 1000):
            some = images[start : start + 1000].astype(np.float64)
            total += some.sum(0)
            square += np.square(some).sum(0)
    mean = total / n
    x -= mean.astype(np.float32)
    x /= (np.sqrt(square / n - mean**2) + 0.001).astype(np.float32)


@dataclass(frozen=True)
class CIFAR10(Torchvision):
    """CIFAR-10 (Krizhevsky 2009) through torchvision, the official python batches: 50,000 / 10,000
    colour images 32x32, standardised per channel by the training images (mean about 0.491 0.482
    0.447, deviation about 0.247 0.243 0.262).
    """

    kind = "colour images"
    summary = "CIFAR-10 32x32 colour through torchvision, 10 classes"
    archive = "CIFAR10"
    published = (
        PublishedFile(
            "cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        ),
    )

    def layout(self, root: Path) -> tuple[PublishedFile, ...]:
        """Return the archive, or what torchvision knows to be in it where that lies in its place."""
        known = self.torchvision
        listed = [*known.train_list, *known.test_list, (known.meta["filename"], known.meta["md5"])]
        batches = tuple(PublishedFile(f"{known.base_folder}/{name}", md5) for name, md5 in listed)
        packed = self.published[0].find(root) or not any(file.find(root) for file in batches)
        return self.published if packed else batches

    def remedy(self, root: Path) -> str:
        return (
            f"{super().remedy(root)}\nA copy that is not the official files, byte for byte, can be "
            "used as your own data (npz:PATH, FILE.py:function; docs/data.md)."
        )


@dataclass(frozen=True)
class CIFAR100(CIFAR10):
    """CIFAR-100 (Krizhevsky 2009), fine labels: as CIFAR-10, 500 / 100 images of each of 100 classes."""

    summary = "CIFAR-100 32x32 colour through torchvision, 100 classes"
    archive = "CIFAR100"
    classes = 100
    published = (
        PublishedFile(
            "cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        ),
    )


class EMNIST(Torchvision):
    """A split of EMNIST (Cohen et al. 2017), 28x28, turned upright (the files hold transposed images)."""

    family = "emnist"
    archive = "EMNIST"
    published = (
        PublishedFile(
            "EMNIST/raw/gzip.zip",
            "58c8d27c78d21e728a6bc7b3cc06412e",
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        ),
    )
    split: ClassVar[str]
    first = 0
    """The files' lowest label."""

    def pixels(self, root: str | None) -> Pixels:
        transposed = super().pixels(root)
        x, test_x = (images.swapaxes(2, 3) for images in (transposed.train, transposed.test))
        return Pixels(x, transposed.train_y - self.first, test_x, transposed.test_y - self.first)

    def unpack(self, folder: Path, place: Path) -> None:
        """Lay this split's four files there: the archive has those of six."""
        raw = place / "EMNIST" / "raw"
        raw.mkdir(parents=True)
        # All six splits unpacked are 1.7 GB.
        with ZipFile(folder / self.published[0].path) as archive:
            for name in archive.namelist():
                if f"emnist-{self.split}-" in name:
                    (raw / Path(name).stem).write_bytes(gzip.decompress(archive.read(name)))

    def decode(self, root: str, train: bool) -> Any:
        return self.torchvision(root, train=train, split=self.split)


@dataclass(frozen=True)
class EMNISTLetters(EMNIST):
    """EMNIST Letters: 124,800 / 20,800 images of 26 letters, upper and lower case merged, labels
    0..25; standardised by the training images that are used.

    `letters` keeps the first so many: emnist_letters(10), 48,000 / 8,000, is the set of FedDC's code.
    """

    summary = "EMNIST Letters 28x28, 26 classes, or the first `letters` (FedDC: 10)"
    split = "letters"
    first = 1
    letters: int = bounded(26, low=2, high=26)

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

    summary = "EMNIST by class 28x28, 62 classes, without writers"
    split = "byclass"
    classes = 62


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

    summary = "FedProx's FEMNIST: 10 lower-case letters on 200 devices (natural)"
    labels: int = bounded(5, low=1, high=10)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the images of `clients` devices (default 200)."""
        pixels, rng = self.pixels(root), randomness.generator("femnist10", seed)
        letter = pixels.y - 36
        parts = self.assign(letter, clients or 200, rng)
        x, test, client = pixels.on_devices(parts, "femnist10_test", seed)
        x /= np.float32(255)
        return Dataset(x, letter[np.concatenate(parts)], test, 10, client)

    def assign(self, letter: Array, devices: int, rng: np.random.Generator) -> list[Array]:
        """Return the places of each device's images among letters (N,), those of a..j being 0..9."""
        stock = np.minimum(np.bincount(letter[letter >= 0], minlength=10)[:10], 4000)
        try:
            counts = LogNormalAbsolute(4, 1).counts(Labels(self.labels), stock, devices, rng)
        except UserError as error:
            raise UserError(f"femnist10: {error}") from None
        return assign_counts(letter, counts, rng)
