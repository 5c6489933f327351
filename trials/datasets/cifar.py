"""CIFAR-10 and CIFAR-100: colour images of the official python batches."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.datasets.base import Array, Dataset
from trials.datasets.images import File, Images, Pixels, contents


@dataclass(frozen=True)
class CIFAR10(Images):
    """CIFAR-10 (Krizhevsky 2009) through torchvision, the official python batches: 50,000 / 10,000
    colour images 32x32, standardised per channel by the training images (mean about 0.491 0.482
    0.447, deviation about 0.247 0.243 0.262).
    """

    kind = "colour images"
    summary: ClassVar[str] = "CIFAR-10 32x32 colour through torchvision, 10 classes"
    archive: ClassVar[str] = "CIFAR10"
    url: ClassVar[str] = "https://www.cs.toronto.edu/~kriz/"
    labels: ClassVar[str] = "labels"
    classes: ClassVar[int] = 10
    layouts: ClassVar[tuple[tuple[File, ...], ...]] = (
        (File("cifar-10-python.tar.gz", "md5 c58f30108f718f92721af3b95e74349a"),),
        (
            File("cifar-10-batches-py/data_batch_1", "md5 c99cafc152244af753f735de768cd75f"),
            File("cifar-10-batches-py/data_batch_2", "md5 d4bba439e000b95fd0a9bffe97cbabec"),
            File("cifar-10-batches-py/data_batch_3", "md5 54ebc095f3ab1f0389bbae665268c751"),
            File("cifar-10-batches-py/data_batch_4", "md5 634d18415352ddfa80567beed471001a"),
            File("cifar-10-batches-py/data_batch_5", "md5 482c414d41f54cd18b22e5b47cb7c3cb"),
            File("cifar-10-batches-py/test_batch", "md5 40351d587109b95175f43aff81a1287e"),
        ),
    )

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        return self.pixels(root).standardised(self.classes)

    def pixels(self, root: str | None) -> Pixels:
        """The images of the files. Unpickles only what has the published checksum."""
        folder = self.fetch(root)
        *train, test = (Path(file.path).name for file in self.layouts[1])
        found = contents(folder, self.layout(folder), [*train, test])
        x, y = self._batches([found.pop(name) for name in train])
        return Pixels(x, y, *self._batches([found.pop(test)]))

    def _batches(self, packed: list[bytes]) -> tuple[Array, Array]:
        batches = [pickle.loads(data, encoding="latin1") for data in packed]
        x = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        return x, np.concatenate([batch[self.labels] for batch in batches])

    def remedy(self, root: Path) -> str:
        return (
            f"{super().remedy(root)}\nA copy that is not the official files, byte for byte, can be "
            "used as your own data (npz:PATH, folder:PATH; docs/data.md)."
        )

    def _torchvision(self, known: Any, root: Path) -> None:
        getattr(known, self.archive)(root, download=True)


@dataclass(frozen=True)
class CIFAR100(CIFAR10):
    """CIFAR-100 (Krizhevsky 2009), fine labels: as CIFAR-10, 500 / 100 images of each of 100 classes."""

    summary: ClassVar[str] = "CIFAR-100 32x32 colour through torchvision, 100 classes"
    archive: ClassVar[str] = "CIFAR100"
    labels: ClassVar[str] = "fine_labels"
    classes: ClassVar[int] = 100
    layouts: ClassVar[tuple[tuple[File, ...], ...]] = (
        (File("cifar-100-python.tar.gz", "md5 eb9058c3a382ffc7106e4002c42a8d85"),),
        (
            File("cifar-100-python/train", "md5 16019d7e3df5f24257cddd939b257f8d"),
            File("cifar-100-python/test", "md5 f0ef6b0ae62326f3e7ffdfab6717acfc"),
        ),
    )
