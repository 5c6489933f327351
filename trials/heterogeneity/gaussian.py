"""SAFL's partitions: Gaussian sizes, few labels a device, samples shared between devices."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar

import numpy as np

from trials.common.errors import UserError
from trials.common.names import LabelSet, Range
from trials.heterogeneity.partitions import Array, Partition, held_skew, stocks

SAFL_FIRST, SAFL_SECOND = LabelSet({1, 2, 5, 7, 9}), LabelSet({2})
"""The labels of the two groups of SAFL Fig. 4."""


class GaussianSizes(Partition):
    """m_k = max(floor(N(mean, std^2)), 1) samples of device k's labels.

    Samples are drawn without replacement within a device and independently across devices, which
    therefore share some; with replacement where the device's labels have fewer than m_k samples.
    """

    own_sizes: ClassVar[str] = "Gaussian"
    overlap: ClassVar[bool] = True
    level: ClassVar[str]
    """Its name, for messages."""
    mean: float
    std: float

    @abstractmethod
    def check(self, present: Array, clients: int) -> None:
        """Raise `UserError` when the devices cannot have their labels of those `present` in the data."""

    @abstractmethod
    def held(self, k: int, clients: int, present: Array, rng: np.random.Generator) -> Array:
        """The labels of device k."""

    def assign(
        self, y: Array, clients: int, owner: Array | None, rng: np.random.Generator
    ) -> list[Array]:
        present = np.flatnonzero(stocks(self.level, y))
        self.check(present, clients)
        sizes = np.maximum(np.floor(rng.normal(self.mean, self.std, clients)), 1)
        if sizes.max() > len(y):
            raise UserError(
                f"heterogeneity {self.level}(mean={self.mean:g}, std={self.std:g}): client "
                f"{sizes.argmax()} would hold {sizes.max():.0f} samples, but there are {len(y)}"
            )
        of_label = {label: np.flatnonzero(y == label) for label in present}
        partitioned = []
        for k, m in enumerate(sizes.astype(int)):
            mine = self.held(k, clients, present, rng)
            pool = np.concatenate([of_label[label] for label in mine])
            partitioned.append(pool[rng.choice(len(pool), m, replace=len(pool) < m)])
        return partitioned

    def _check_sizes(self) -> None:
        if not (0 < self.mean < math.inf and 0 <= self.std < math.inf):
            raise UserError(
                f"heterogeneity {self.level}(mean, std): 0 < mean < inf and 0 <= std < inf must hold, "
                f"got {self.mean:g}, {self.std:g}"
            )


@dataclass(frozen=True)
class Gaussian(GaussianSizes):
    """SAFL section V: Gaussian sizes, and `labels` random labels a device: a number for all, or
    LOW..HIGH for a uniform one each.

    Reading: the paper's variance 100 is std 10; its "at most 7 digits" is 7 for every device. The
    other reading of it is labels=1..7.
    """

    summary: ClassVar[str] = (
        "SAFL: Gaussian sizes, a few random labels (7, or 1..7); devices share samples"
    )
    level: ClassVar[str] = "gaussian"
    labels: int | Range = field(default=7, kw_only=True)
    mean: float = field(default=600.0, kw_only=True)
    std: float = field(default=10.0, kw_only=True)

    def __post_init__(self) -> None:
        low, high = self._range
        if not 1 <= low <= high:
            raise UserError(
                "heterogeneity gaussian(labels): labels >= 1, or 1 <= LOW <= HIGH of LOW..HIGH, must "
                f"hold, got {low}" + (f"..{high}" if high != low else "")
            )
        self._check_sizes()

    @property
    def _range(self) -> Range:
        return self.labels if isinstance(self.labels, tuple) else (self.labels, self.labels)

    def check(self, present: Array, clients: int) -> None:
        """Enough labels."""
        high = self._range[1]
        if high > len(present):
            raise UserError(
                f"heterogeneity gaussian(labels={high}): the data have only {len(present)} labels"
            )

    def held(self, k: int, clients: int, present: Array, rng: np.random.Generator) -> Array:
        """Random ones, each at most once."""
        low, high = self._range
        number = low if low == high else rng.integers(low, high, endpoint=True)
        return rng.choice(present, number, replace=False)

    def skew(self, labels: int) -> float:
        """The mean over the numbers of labels that a device may have."""
        low, high = self._range
        return fmean(held_skew(held, labels) for held in range(low, high + 1))


@dataclass(frozen=True)
class Groups(GaussianSizes):
    """SAFL Fig. 4: two groups of devices with Gaussian sizes. The first `share` of the devices holds
    the labels `first`, the others `second`, at least one device each.

    Reading: the paper does not say how many devices a group has; half of them by default.
    """

    summary: ClassVar[str] = (
        "SAFL Fig. 4: two groups of devices, each with labels of its own; devices share samples"
    )
    level: ClassVar[str] = "groups"
    first: LabelSet = SAFL_FIRST
    second: LabelSet = SAFL_SECOND
    share: float = field(default=0.5, kw_only=True)
    mean: float = field(default=600.0, kw_only=True)
    std: float = field(default=10.0, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UserError(
                f"heterogeneity groups(share): 0 < share < 1 must hold, got {self.share:g}"
            )
        self._check_sizes()

    def check(self, present: Array, clients: int) -> None:
        """Every label is there, and there is a device for each group."""
        if clients < 2:
            raise UserError("heterogeneity groups: two groups need two clients at least")
        for label in sorted((self.first | self.second) - set(present.tolist()))[:1]:
            raise UserError(f"heterogeneity groups: no training sample has label {label}")

    def held(self, k: int, clients: int, present: Array, rng: np.random.Generator) -> Array:
        """The labels of the client's group."""
        leading = min(max(round(self.share * clients), 1), clients - 1)
        return np.array(sorted(self.first if k < leading else self.second))

    def skew(self, labels: int) -> float:
        """Of the groups, weighted by their shares of the devices."""
        first, second = (held_skew(len(held), labels) for held in (self.first, self.second))
        return self.share * first + (1 - self.share) * second
