"""Images of torchvision's data sets, which it decodes, and what papers cut from them.

Every set has the standard training and test images. Pixels / 255 are standardised by the training
images' mean and deviation, per channel, unless its class says otherwise.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from zipfile import ZipFile

import numpy as np

from trials.common import randomness
from trials.common.names import bounded
from trials.datasets.base import Dataset, DatasetFamily
from trials.datasets.published import Array, Published
from trials.heterogeneity.modifiers import LogNormalAbsolute, PowerLaw
from trials.heterogeneity.partitions import Labels, assign_counts

Scale = tuple[Sequence[float], Sequence[float]]
UNIT: Scale = ((0.0,), (1.0,))


@dataclass(frozen=True, eq=False)
class Images(Dataset):
    """Images (N, channels, height, width), which are there as an array."""

    x: Array


def picked(images: Images, ids: Array) -> Images:
    """Return the images at these places."""
    return replace(images, x=images.x[ids], y=images.y[ids], test=images.test[ids])


def standardised(
    images: Images, mean: Sequence[float] = (), deviation: Sequence[float] = ()
) -> Images:
    """Return (pixels / 255 - mean) / deviation of images in 0..255, both per channel; where they are not given, those
    of the training images. A channel in which all are equal is only shifted.
    """
    if not mean:
        train = images.x[~images.test]
        scales = [_moments(train[:, channel]) for channel in range(train.shape[1])]
        mean, deviation = zip(*scales, strict=True)
    x = images.x.astype(np.float32)
    x /= np.float32(255)
    x -= np.array(mean, np.float32)[:, None, None]
    x /= np.array(deviation, np.float32)[:, None, None]
    return replace(images, x=x)


def _moments(pixels: Array) -> tuple[float, float]:
    """Return the exact mean and deviation of pixels / 255, from their histogram; 1 where all are equal."""
    values, counts = np.unique(pixels, return_counts=True)
    values, weights = values / 255, counts / counts.sum()
    mean = float(values @ weights)
    return mean, float((values - mean) ** 2 @ weights) ** 0.5 or 1.0


def on_devices(images: Images, parts: list[Array], stream: str, seed: int) -> Images:
    """Return images that are born on devices, whose places `parts` holds: x float32 in 0..255, device after device. A
    tenth of each device's is test, drawn by `seed` in the named stream.
    """
    ids = np.concatenate(parts)
    tenths = [
        randomness.generator(stream, seed, k).permutation(len(part)) < len(part) // 10
        for k, part in enumerate(parts)
    ]
    client = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    x = images.x[ids].astype(np.float32)
    return replace(images, x=x, y=images.y[ids], test=np.concatenate(tenths), client=client)


class Torchvision(DatasetFamily):
    """Images that the class `archive` of torchvision decodes. A further one is such a class and its entry in `DATASETS`."""

    kind = "grey images"
    archive: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    """Further arguments of torchvision's class."""
    classes = 10
    scale: ClassVar[Scale] = ((), ())
    """What is taken from pixels / 255, and what the rest is divided by, per channel; by default the training images' own."""

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the scaled images of the files below the data root, downloaded when absent."""
        return standardised(self.pixels(root), *self.used_scale)

    @property
    def used_scale(self) -> Scale:
        """The scale of these arguments."""
        return self.scale

    def pixels(self, root: str | None) -> Images:
        """Return the images (N, channels, height, width) uint8, training ones first, from files that were checked."""
        from trials.datasets.torchvision_import import torchvision

        folder, decode = self.fetch(root), getattr(torchvision.datasets, self.archive)
        with TemporaryDirectory() as place:
            # torchvision unpickles what it finds, so nothing lies there but what was checked.
            self.unpack(folder, Path(place))
            parts = [decode(place, train=train, **self.options) for train in (True, False)]
        x = np.concatenate([np.asarray(part.data) for part in parts])
        y = np.concatenate([np.asarray(part.targets) for part in parts]).astype(np.int64)
        x = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
        return Images(x, y, np.arange(len(y)) >= len(parts[0]), self.classes)

    def unpack(self, folder: Path, place: Path) -> None:
        """Lay the content of the files below the data root where torchvision decodes it."""
        for file in self.published:
            file.unpack(folder, place)


def _idx_files(archive: str, url: str, *md5: str) -> tuple[Published, ...]:
    """Return the four files of a set in MNIST's format; checksums are those of the unpacked ones."""
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in KINDS]
    return tuple(
        Published(f"{archive}/raw/{name}", checksum, f"{url}{name}.gz")
        for name, checksum in zip(names, md5, strict=True)
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
    scale = ((0.1307,), (0.3081,))
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
    def used_scale(self) -> Scale:
        return UNIT if self.unit else self.scale


@dataclass(frozen=True)
class FashionMNIST(MNIST):
    """Fashion-MNIST (Xiao et al. 2017): the same layout, mean 0.2860, deviation 0.3530."""

    family = "fashion_mnist"
    summary = "Fashion-MNIST 28x28 through torchvision, 10 classes"
    archive = "FashionMNIST"
    scale = ((0.2860,), (0.3530,))
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
    """DeFed's binary subset of MNIST: 1,000 training images drawn from labels 0 and 1, and 1,000 test images drawn in
    the same way from the test set. Standardised as MNIST.

    Reading: 1,000 in all, not of each label (MNIST's test set has only 980 zeros), without replacement.
    """

    summary = "DeFed's MNIST 0 against 1: 1,000 random images to train, 1,000 to test"

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images, rng = self.pixels(root), randomness.generator("binary_subset", seed)
        drawn = [
            rng.choice(np.flatnonzero((images.y < 2) & part), 1000, replace=False)
            for part in (~images.test, images.test)
        ]
        subset = replace(picked(images, np.concatenate(drawn)), classes=2)
        return standardised(subset, *self.used_scale)


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
    of `labels(c)+sizes(powerlaw)`. A pixel p of 0..255 becomes (p - mean) / (deviation + 0.001), mean and deviation
    of that pixel over all 70,000 images, as in the authors' code; with the flag `unit` p / 255.
    """

    summary = "FedProx's MNIST: 70,000 images on 1,000 devices of 2 digits each (natural)"
    labels: int = bounded(2, low=1, high=10)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the images of `clients` devices (default 1000)."""
        images, rng = self.pixels(root), randomness.generator("mnist_powerlaw", seed)
        parts = PowerLaw().assign(Labels(self.labels), images.y, clients or 1000, rng)
        born = on_devices(images, parts, "mnist_powerlaw_test", seed)
        if self.unit:
            return standardised(born, *UNIT)
        pixels, n = images.x, len(images.y)
        mean = pixels.sum(0, dtype=float) / n
        square = np.square(pixels, dtype=np.uint16).sum(0, dtype=float) / n
        deviation = np.sqrt(square - mean**2) + 0.001
        return replace(born, x=(born.x - mean.astype(np.float32)) / deviation.astype(np.float32))


@dataclass(frozen=True)
class CIFAR10(Torchvision):
    """CIFAR-10 (Krizhevsky 2009), the official python batches: 50,000 / 10,000 colour images 32x32."""

    kind = "colour images"
    summary = "CIFAR-10 32x32 colour through torchvision, 10 classes"
    archive = "CIFAR10"
    published = (
        Published(
            "cifar-10-batches-py",
            "687462ed9caece54ea5dc5fc95624c68",  # of the md5 that torchvision has of each batch
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            ("batches.meta", "test_batch", *(f"data_batch_{i}" for i in range(1, 6))),
        ),
    )


@dataclass(frozen=True)
class CIFAR100(CIFAR10):
    """CIFAR-100 (Krizhevsky 2009), fine labels: as CIFAR-10, 500 / 100 images of each of 100 classes."""

    summary = "CIFAR-100 32x32 colour through torchvision, 100 classes"
    archive = "CIFAR100"
    classes = 100
    published = (
        Published(
            "cifar-100-python",
            "8e8b4c6afdfea26666f6fe4dad52bfe5",
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            ("train", "test", "meta"),
        ),
    )


class EMNIST(Torchvision):
    """A split of EMNIST (Cohen et al. 2017), 28x28, turned upright (the files hold transposed images)."""

    family = "emnist"
    archive = "EMNIST"
    published = (
        Published(
            "EMNIST/raw/gzip.zip",
            "58c8d27c78d21e728a6bc7b3cc06412e",
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        ),
    )

    def pixels(self, root: str | None) -> Images:
        transposed = super().pixels(root)
        return replace(transposed, x=transposed.x.swapaxes(2, 3))

    def unpack(self, folder: Path, place: Path) -> None:
        """Lay this split's four files there: the archive has those of six, 1.7 GB unpacked."""
        raw = place / "EMNIST" / "raw"
        raw.mkdir(parents=True)
        with ZipFile(folder / self.published[0].path) as archive:
            for name in archive.namelist():
                if f"emnist-{self.options['split']}-" in name:
                    (raw / Path(name).stem).write_bytes(gzip.decompress(archive.read(name)))


@dataclass(frozen=True)
class EMNISTLetters(EMNIST):
    """EMNIST Letters: 124,800 / 20,800 images of 26 letters, upper and lower case merged, labels 0..25. `letters` keeps
    the first so many: emnist_letters(10), 48,000 / 8,000, is the set of FedDC's code.
    """

    summary = "EMNIST Letters 28x28, 26 classes, or the first `letters` (FedDC: 10)"
    options: ClassVar = {"split": "letters"}
    letters: int = bounded(26, low=2, high=26)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images = self.pixels(root)  # whose labels count from 1
        kept = picked(images, np.flatnonzero(images.y <= self.letters))
        return standardised(replace(kept, y=kept.y - 1, classes=self.letters))


@dataclass(frozen=True)
class EMNISTByClass(EMNIST):
    """EMNIST by class: 697,932 / 116,323 images of 62 classes (digits, upper case, lower case), unbalanced. On 200
    clients under `labels(2)+sizes(powerlaw)` it is FOLB's FEMNIST; it names no writers, for those see `femnist`.
    """

    summary = "EMNIST by class 28x28, 62 classes, without writers"
    options: ClassVar = {"split": "byclass"}
    classes = 62


@dataclass(frozen=True)
class FEMNIST10(EMNISTByClass):
    """FedProx's FEMNIST (Li et al. 2020): the lower-case letters a..j of EMNIST by class, pixels / 255,
    on 200 devices. Training and test images are pooled, up to 4,000 of a letter.

    Device u has the letters (u + j) mod 10, j < `labels`, and max(2, floor(n_u / labels)) images of
    each, n_u = floor(LogNormal(4, 1) + 5). A tenth of each device's images is test.

    Reading: 5 labels as in the paper (femnist10(3) is its code). In the code all devices share the first images of a
    letter, which would put one image in two splits: here each image is partitioned once.
    """

    summary = "FedProx's FEMNIST: 10 lower-case letters on 200 devices (natural)"
    labels: int = bounded(5, low=1, high=10)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the images of `clients` devices (default 200)."""
        images, rng = self.pixels(root), randomness.generator("femnist10", seed)
        letters = replace(images, y=images.y - 36, classes=10)
        parts = self.assign(letters.y, clients or 200, rng)
        born = on_devices(letters, parts, "femnist10_test", seed)
        return standardised(born, *UNIT)

    def assign(self, letter: Array, devices: int, rng: np.random.Generator) -> list[Array]:
        """Return the places of each device's images among letters (N,), those of a..j being 0..9."""
        stock = np.minimum(np.bincount(letter[letter >= 0], minlength=10)[:10], 4000)
        counts = LogNormalAbsolute(4, 1).counts(Labels(self.labels), stock, devices, rng)
        return assign_counts(letter, counts, rng)
