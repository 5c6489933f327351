"""Image data sets that torchvision decodes, and the subsets of them that papers use.

Pixels / 255 are standardised per channel by the training images' mean and deviation, unless the class says otherwise.
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
from trials.datasets.base import Array, Dataset, DatasetFamily, Published
from trials.heterogeneity.modifiers import LogNormalAbsolute, PowerLaw
from trials.heterogeneity.partitions import Labels, assign_counts

Scale = tuple[Sequence[float], Sequence[float]]
"""Mean and standard deviation of pixels / 255, per channel."""
UNIT: Scale = ((0.0,), (1.0,))


def standardised(images: Dataset, scale: Scale | None = None) -> Dataset:
    """Return images with standardised pixels (p / 255 - mean) / deviation, for p in 0..255. `scale` holds mean and deviation
    per channel. By default they are those of the training images, and a constant channel is only centred.
    """
    if scale is None:
        moments = []
        for pixels in images.x[~images.test].swapaxes(0, 1):
            # A histogram gives the moments in float64 without a float64 copy of all images.
            values, counts = np.unique(pixels, return_counts=True)
            values, weights = values / 255, counts / counts.sum()
            centre = float(values @ weights)
            moments.append((centre, float((values - centre) ** 2 @ weights) ** 0.5 or 1.0))
        scale = tuple(zip(*moments, strict=True))
    mean, deviation = (np.array(channels, np.float32)[:, None, None] for channels in scale)
    x = images.x.astype(np.float32)
    x /= np.float32(255)
    x -= mean
    x /= deviation
    return replace(images, x=x)


def on_devices(images: Dataset, parts: list[Array], stream: str, seed: int) -> Dataset:
    """Return the images of all devices, one device after the other. `parts[k]` holds the indices of device k's images.
    Pixels are float32 in 0..255. `stream` and `seed` choose a tenth of each device's images as test images.
    """
    ids, test, client = np.concatenate(parts), [], []
    for k, part in enumerate(parts):
        order = randomness.generator(stream, seed, k).permutation(len(part))
        test.append(order < len(part) // 10)
        client.append(np.full(len(part), k))
    x, drawn, owner = images.x[ids].astype(np.float32), np.concatenate(test), np.concatenate(client)
    return replace(images, x=x, y=images.y[ids], test=drawn, client=owner)


class Torchvision(DatasetFamily):
    """A data set of images that torchvision's class `archive` decodes. To add one, list a subclass in `DATASETS`."""

    kind = "grey images"
    archive: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}  # further arguments of torchvision's class
    classes = 10
    scale: ClassVar[Scale | None] = None  # None: mean and deviation of the training images

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the standardised images. Download the files that the data root lacks."""
        return standardised(self.pixels(root), self.scale)

    def pixels(self, root: str | None) -> Dataset:
        """Check the data set's files and return its images (N, channels, height, width), uint8, training images first."""
        from trials.datasets.torchvision_import import torchvision

        folder, decode = self.fetch(root), getattr(torchvision.datasets, self.archive)
        with TemporaryDirectory() as scratch:
            # torchvision unpickles the files that it reads, so the folder holds checked content only.
            self.unpack(folder, Path(scratch))
            parts = [decode(scratch, train=train, **self.options) for train in (True, False)]
        # torchvision has tensors for MNIST and its like, arrays and lists for CIFAR.
        x = np.concatenate([np.asarray(part.data) for part in parts])
        y = np.concatenate([np.asarray(part.targets) for part in parts]).astype(np.int64)
        x = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
        return Dataset(x, y, np.arange(len(y)) >= len(parts[0]), self.classes)

    def unpack(self, folder: Path, target: Path) -> None:
        """Unpack this data set's files from the data root `folder` into `target`, which torchvision reads."""
        for file in self.published:
            for name, content in file.members(folder):
                path = target / Path(file.path).parent / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


def _idx_files(archive: str, url: str, *md5: str) -> tuple[Published, ...]:
    """Describe the four files of a data set in MNIST's format. `md5` are the checksums of the unpacked files."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = []
    for name, checksum in zip(names, md5, strict=True):
        path, address = f"{archive}/raw/{name}-ubyte", f"{url}{name}-ubyte.gz"
        files.append(Published(path, checksum, address))
    return tuple(files)


@dataclass(frozen=True)
class MNIST(Torchvision):
    """MNIST 28x28 through torchvision, 10 classes (LeCun et al. 1998). With the flag `unit` pixels are in [0, 1]."""

    family = "mnist"
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

    def __post_init__(self) -> None:
        if self.unit:
            object.__setattr__(self, "scale", UNIT)


@dataclass(frozen=True)
class FashionMNIST(MNIST):
    """Fashion-MNIST 28x28 through torchvision, 10 classes (Xiao et al. 2017)."""

    family = "fashion_mnist"
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
    """DeFed's MNIST 0 against 1: 1,000 random images to train, 1,000 to test.

    Our reading: 1,000 in all, not of each label (MNIST's test set has only 980 zeros), without replacement.
    """

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images, rng = self.pixels(root), randomness.generator("binary_subset", seed)
        drawn = []
        for part in (~images.test, images.test):
            drawn.append(rng.choice(np.flatnonzero((images.y < 2) & part), 1000, replace=False))
        ids = np.concatenate(drawn)
        x, y, test = images.x[ids], images.y[ids], images.test[ids]
        return standardised(replace(images, x=x, y=y, test=test, classes=2), self.scale)


@dataclass(frozen=True)
class FashionMNIST01(FashionMNIST):
    """DeFed's Fashion-MNIST 0 against 1: 1,000 random images to train, 1,000 to test."""

    load = MNIST01.load


@dataclass(frozen=True)
class MNISTPowerLaw(MNIST):
    """FedProx's MNIST: 70,000 images on 1,000 devices of 2 digits each (natural).

    Training and test images are pooled; a tenth of each device's images is test. Device u has the digits (u + j) mod 10,
    j < `labels` (FOLB Fig. 6: 1, 2, 5, 10), with sizes as under `labels(c)+sizes(powerlaw)`. As in the authors' code, a
    pixel p in 0..255 becomes (p - mean) / (deviation + 0.001), with the mean and deviation of that pixel over all images.
    """

    labels: int = bounded(2, low=1, high=10)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images, rng = self.pixels(root), randomness.generator("mnist_powerlaw", seed)
        parts = PowerLaw().assign(Labels(self.labels), images.y, clients or 1000, rng)
        born = on_devices(images, parts, "mnist_powerlaw_test", seed)
        if self.unit:
            return standardised(born, UNIT)
        pixels, n = images.x, len(images.y)
        mean = pixels.sum(0, dtype=float) / n
        square = np.square(pixels, dtype=np.uint16).sum(0, dtype=float) / n
        deviation = np.sqrt(square - mean**2) + 0.001
        return replace(born, x=(born.x - mean.astype(np.float32)) / deviation.astype(np.float32))


@dataclass(frozen=True)
class CIFAR10(Torchvision):
    """CIFAR-10 32x32 colour through torchvision, 10 classes (Krizhevsky 2009): the official python batches."""

    kind = "colour images"
    archive = "CIFAR10"
    published = (
        Published(
            "cifar-10-batches-py",
            "687462ed9caece54ea5dc5fc95624c68",  # made from torchvision's MD5 of each batch
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            ("batches.meta", "test_batch", *(f"data_batch_{i}" for i in range(1, 6))),
        ),
    )


@dataclass(frozen=True)
class CIFAR100(CIFAR10):
    """CIFAR-100 32x32 colour through torchvision, 100 classes (Krizhevsky 2009): fine labels."""

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
    """A split of EMNIST (Cohen et al. 2017), 28x28; the files hold transposed images, which are turned upright."""

    family = "emnist"
    archive = "EMNIST"
    published = (
        Published(
            "EMNIST/raw/gzip.zip",
            "58c8d27c78d21e728a6bc7b3cc06412e",
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        ),
    )

    def pixels(self, root: str | None) -> Dataset:
        transposed = super().pixels(root)
        return replace(transposed, x=transposed.x.swapaxes(2, 3))

    def unpack(self, folder: Path, target: Path) -> None:
        raw = target / "EMNIST" / "raw"
        raw.mkdir(parents=True)
        # Only this split's files: the archive holds six splits, 1.7 GB unpacked.
        with ZipFile(folder / self.published[0].path) as archive:
            for name in archive.namelist():
                if f"emnist-{self.options['split']}-" in name:
                    (raw / Path(name).stem).write_bytes(gzip.decompress(archive.read(name)))


@dataclass(frozen=True)
class EMNISTLetters(EMNIST):
    """EMNIST Letters 28x28, 26 classes, or the first `letters` (FedDC: 10). Upper and lower case are merged."""

    options: ClassVar = {"split": "letters"}
    letters: int = bounded(26, low=2, high=26)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images = self.pixels(root)
        kept = images.y <= self.letters
        x, y, test = images.x[kept], images.y[kept] - 1, images.test[kept]  # labels count from 1
        return standardised(replace(images, x=x, y=y, test=test, classes=self.letters))


@dataclass(frozen=True)
class EMNISTByClass(EMNIST):
    """EMNIST by class 28x28, 62 classes, without writers. FOLB uses 200 clients under `labels(2)+sizes(powerlaw)`."""

    options: ClassVar = {"split": "byclass"}
    classes = 62


@dataclass(frozen=True)
class FEMNIST10(EMNISTByClass):
    """FedProx's FEMNIST: 10 lower-case letters on 200 devices (natural).

    Training and test images of EMNIST by class are pooled, up to 4,000 of a letter; pixels are divided by 255. Device u has
    the letters (u + j) mod 10, j < `labels`, and of each letter max(2, floor(n_u / labels)) images, where
    n_u = floor(LogNormal(4, 1) + 5). A tenth of each device's images is test. Our reading: `labels` is 5, as in the paper
    (3 in its code), and no two devices share an image. In the code they do, and one may train on another's test image.
    """

    labels: int = bounded(5, low=1, high=10)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images, rng = self.pixels(root), randomness.generator("femnist10", seed)
        letters = replace(images, y=images.y - 36, classes=10)
        stock = np.minimum(np.bincount(letters.y[letters.y >= 0])[:10], 4000)
        counts = LogNormalAbsolute(4, 1).counts(Labels(self.labels), stock, clients or 200, rng)
        parts = assign_counts(letters.y, counts, rng)
        return standardised(on_devices(letters, parts, "femnist10_test", seed), UNIT)
