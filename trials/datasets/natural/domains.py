"""One task in two domains: digits of MNIST and of USPS."""

import bz2
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from trials.common import randomness
from trials.common.errors import UserError
from trials.common.tensors import torch
from trials.datasets.base import Array, Dataset, FileReport
from trials.datasets.images import MNIST
from trials.datasets.natural.published import Content

USPS = "cran.r-project.org/src/contrib/Archive/ElemStatLearn (its folder data; GPL-2)"
REALS = 0x20E
"""What comes before the numbers of an R matrix: their type, then how many there are."""


@dataclass(frozen=True)
class MNISTUSPS(MNIST):
    """MNIST and USPS (Hull 1994): the same ten digits, scanned and cut out in two ways; the client of an image is its
    domain. `mnist_usps(each=10)` partitions each domain evenly over ten clients, drawn by `data_seed`.

    USPS has 7,291 training and 2,007 test images of 16x16. They are made 28x28 (bilinear), and a value v in [-1, 1]
    becomes the pixel (v + 1) / 2. All images are standardised by MNIST's mean and deviation, 0.1307 and 0.3081, but
    for the flag `unit`.
    """

    summary: ClassVar[str] = "MNIST and USPS: digits in two domains (natural by domain)"
    usps: ClassVar[tuple[tuple[Content, int], ...]] = (
        (Content("usps/zip.train.RData", "3e37e46fa4937e76cf4c92db29460640"), 7291),
        (Content("usps/zip.test.RData", "213610705fb453b9dfe916a02f6c7be6"), 2007),
    )
    each: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if not 1 <= self.each <= 1000:
            raise UserError(f"mnist_usps(each): 1 <= each <= 1000 must hold, got {self.each}")

    def files(self, root: Path) -> list[FileReport]:
        """MNIST's own, and USPS's two."""
        remedy = (
            f"Get zip.train.RData and zip.test.RData from {USPS} and put them into {root / 'usps'}."
        )
        return [*super().files(root), *(content.report(root, remedy) for content, _ in self.usps)]

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images, ((mean,), (deviation,)) = super().load(seed, clients, root), self.scale
        assert isinstance(images.x, np.ndarray)
        parts = [_read(content.read(self.fetch(root)), rows) for content, rows in self.usps]
        pixels, y = (np.concatenate(both) for both in zip(*parts, strict=True))
        x = np.concatenate([images.x, (pixels - np.float32(mean)) / np.float32(deviation)])
        test = np.concatenate([images.test, np.arange(len(y)) >= self.usps[0][1]])
        domain = np.repeat([0, 1], [len(images.y), len(y)])
        rng = randomness.generator("domains", seed)
        within = [rng.permutation(len(some)) % self.each for some in (images.y, y)]
        client = domain * self.each + np.concatenate(within)
        return Dataset(x, np.concatenate([images.y, y]), test, images.classes, client)


def _read(file: bytes, rows: int) -> tuple[Array, Array]:
    """Pixels (rows, 1, 28, 28) in [0, 1] and labels (rows,) of an R matrix: a label and 256 values a row."""
    content, head = bz2.decompress(file), struct.pack(">ii", REALS, rows * 257)
    start = content.index(head) + len(head)
    table = np.frombuffer(content, ">f8", rows * 257, start).reshape(257, rows).T
    small = torch.from_numpy(((table[:, 1:] + 1) / 2).astype(np.float32)).unflatten(1, (1, 16, 16))
    large = torch.nn.functional.interpolate(small, size=(28, 28), mode="bilinear")
    return large.numpy(), table[:, 0].astype(np.int64)
