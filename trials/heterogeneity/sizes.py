"""Laws of client sizes, for `+sizes(LAW)`. A new one is one class and one entry of `LAWS`."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from trials.common.errors import UserError
from trials.heterogeneity.partitions import Array, Labels, Partition, assign_counts, enough, stocks


@runtime_checkable
class TakesSizes(Protocol):
    """A partition that can give clients any sizes."""

    def assign_sizes(self, y: Array, sizes: Array, rng: np.random.Generator) -> list[Array]:
        """The samples of each client, exactly `sizes` (n,) of them; their sum is at most N."""
        ...


class Law(Protocol):
    """A law of sizes; `LAWS` has one of each kind."""

    follows: ClassVar[str]
    """Which partitions it can follow, in words."""

    def fits(self, partition: Partition) -> bool:
        """Whether the law can follow this partition."""
        ...

    def assign(
        self, partition: Partition, y: Array, clients: int, rng: np.random.Generator
    ) -> list[Array]:
        """The samples of each client, as `Partition.partition` gives them, in this law's sizes."""
        ...


@dataclass(frozen=True)
class LogNormal:
    """m_k ~ LogNormal(log(N/n), sigma), rescaled to the sum N and rounded down; the first client
    takes what rounding leaves. FedDyn's and FedDC's code; FedUmf's "unbalanced".

    After iid it is their Unbalanced-IID, after dirichlet(a) their unbalanced Dirichlet. A client
    that rounds to nothing gets one sample of the largest.
    """

    follows: ClassVar[str] = "iid and dirichlet(a)"
    sigma: float

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise UserError(
                f"sizes(lognormal(sigma)): 0 <= sigma < inf must hold, got {self.sigma:g}"
            )

    def fits(self, partition: Partition) -> bool:
        """Whether the partition takes any sizes."""
        return isinstance(partition, TakesSizes)

    def assign(
        self, partition: Partition, y: Array, clients: int, rng: np.random.Generator
    ) -> list[Array]:
        """Partition what `sizes` draws."""
        assert isinstance(partition, TakesSizes)
        enough(len(y), clients)
        return partition.assign_sizes(y, self.sizes(len(y), clients, rng), rng)

    def sizes(self, samples: int, clients: int, rng: np.random.Generator) -> Array:
        """m_k (n,), at least 1 each, sum `samples`."""
        z = rng.standard_normal(clients)
        # Rescaling undoes any common factor: with the largest share at 1 nothing overflows.
        share = np.exp(self.sigma * (z - z.max()))
        sizes = np.floor(share / share.sum() * samples).astype(int)
        sizes[0] += samples - sizes.sum()
        for k in np.flatnonzero(sizes == 0):
            sizes[sizes.argmax()] -= 1
            sizes[k] = 1
        return sizes


@dataclass(frozen=True)
class PowerLaw:
    """FedProx's power-law sizes under labels(c): its MNIST has c = 2, FOLB Fig. 6 others.

    Each holder of a label gets 5 samples of it; the others are shared by a_k / sum a,
    a_k ~ LogNormal(0, 2) for each holding, rounded down, so that some stay unused and the supply
    lasts. The published form, a draw for each (label, block of C users, place in the user's labels),
    is one draw a holding too. MNIST's 70,000 images on 1,000 clients: 69 each in the mean (the data
    set `mnist_powerlaw`).
    """

    follows: ClassVar[str] = "labels(c)"
    LEAST: ClassVar[int] = 5
    SIGMA: ClassVar[float] = 2.0

    def fits(self, partition: Partition) -> bool:
        """Whether clients hold given labels."""
        return isinstance(partition, Labels)

    def assign(
        self, partition: Partition, y: Array, clients: int, rng: np.random.Generator
    ) -> list[Array]:
        """Partition `LEAST` samples of each label that a client holds, and the rest in lognormal shares."""
        assert isinstance(partition, Labels)
        stock = stocks("labels(c)", y)
        holds = partition.held(stock, clients, self.LEAST)
        rest = stock - self.LEAST * holds.sum(0)
        a = rng.lognormal(0, self.SIGMA, holds.shape) * holds
        share = a / np.where(holds.any(0), a.sum(0), 1)
        counts = holds * self.LEAST + np.floor(share * rest).astype(int)
        return assign_counts(y, counts, rng)


@dataclass(frozen=True)
class LogNormalAbsolute:
    """FedProx's FEMNIST: m_k = floor(LogNormal(mu, sigma) + 5) under labels(c), however many samples
    there are. Each of a client's labels gives max(2, floor(m_k / c)).

    A label's samples go to its holders in turn: two to each, then what they want while it lasts. With
    mu 4, sigma 1 and 5 of 10 labels a client has 92 in the mean (its code: 3 labels).
    """

    follows: ClassVar[str] = "labels(c)"
    LEAST: ClassVar[int] = 2
    mu: float = 4.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mu) and 0 <= self.sigma < math.inf):
            raise UserError(
                "sizes(lognormal_absolute(mu, sigma)): a finite mu and 0 <= sigma < inf must hold, "
                f"got {self.mu:g}, {self.sigma:g}"
            )

    def fits(self, partition: Partition) -> bool:
        """Whether clients hold given labels."""
        return isinstance(partition, Labels)

    def assign(
        self, partition: Partition, y: Array, clients: int, rng: np.random.Generator
    ) -> list[Array]:
        """Partition what `counts` draws of each label."""
        assert isinstance(partition, Labels)
        stock = stocks("labels(c)", y)
        return assign_counts(y, self.counts(partition, stock, clients, rng), rng)

    def counts(
        self, partition: Labels, stock: Array, clients: int, rng: np.random.Generator
    ) -> Array:
        """Samples of each label for each client, (n, C), at most `stock` (C,) of a label."""
        holds = partition.held(stock, clients, self.LEAST)
        with np.errstate(over="ignore"):
            sizes = np.exp(self.mu + self.sigma * rng.standard_normal(clients))
        sizes = np.minimum(sizes, stock.sum())  # all there is, so that a huge draw is a number
        wanted = np.maximum((sizes + 5).astype(int) // partition.c, self.LEAST) - self.LEAST
        spare = stock - self.LEAST * holds.sum(0)
        further = np.minimum(np.cumsum(holds * wanted[:, None], axis=0), spare)
        return holds * self.LEAST + np.diff(further, axis=0, prepend=0)


LAWS: dict[str, type[Law]] = {
    "lognormal": LogNormal,
    "powerlaw": PowerLaw,
    "lognormal_absolute": LogNormalAbsolute,
}
