"""Partitions: how samples reach clients.

A partition is a pure function of labels `y` (N,), the number of clients n and a generator: one index array a client, none
empty, or a `UserError` that says why it cannot. By `gaussian` and `groups` alone devices may share samples.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.common.names import LabelSet, Range, bounded

special = Lazy("scipy.special")

Array = npt.NDArray[Any]
Rng = np.random.Generator


class Partition(ABC):
    """An entry of `PARTITIONS`: a frozen dataclass that says who gets which sample (examples/own_partition.py). One that can give
    clients any sizes has a method `assign_sizes` as well (`trials.heterogeneity.modifiers.TakesSizes`), and can then be
    followed by `+sizes(lognormal(sigma))`.
    """

    summary = ""
    overlap = False  # whether clients may share samples

    @abstractmethod
    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        """Return indices into `y` (N,) for each client; `owner` (N,) where data are born on clients."""


@dataclass(frozen=True)
class IID(Partition):
    """Shuffle, cut into equal parts (sizes differ by at most one)."""

    summary = "a random equal share each"

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        enough(len(y), clients)
        return self.assign_sizes(y, equal(len(y), clients), rng)

    def assign_sizes(self, y: Array, sizes: Array, rng: Rng) -> list[Array]:
        """Return the samples of clients that get exactly these `sizes` (n,)."""
        return np.split(rng.permutation(len(y)), np.cumsum(sizes)[:-1])


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Equal sizes floor(N/n), label priors q_k ~ Dirichlet(a), as in the code of FedDyn and FedDC.

    Until all sizes are met: a random client with room draws a label from q_k restricted to the labels left, and takes
    one unused sample of it. A client whose whole prior is used up takes from the labels left in proportion.
    """

    summary = "equal sizes, label shares drawn from Dirichlet(a); small a is skewed"
    a: float = bounded(above=0)

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        enough(len(y), clients)
        return self.assign_sizes(y, np.full(clients, len(y) // clients), rng)

    def assign_sizes(self, y: Array, sizes: Array, rng: Rng) -> list[Array]:
        """Return the samples of clients that get exactly these `sizes` (n,), whose sum is at most N."""
        stock = stocks(y).tolist()
        prior = rng.dirichlet(np.full(len(stock), self.a), len(sizes))
        left = [rng.permutation(np.flatnonzero(y == label)).tolist() for label in range(len(stock))]
        room, free = list(range(len(sizes))), sizes.tolist()
        partitioned: list[list[int]] = [[] for _ in free]
        # q_k restricted to the labels left, cumulated; it changes only when a label is used up.
        cumulated: list[list[float] | None] = [None] * len(free)
        for pick, coin in rng.random((sum(free), 2)).tolist():
            slot = int(pick * len(room))
            k = room[slot]
            shares = cumulated[k]
            if shares is None:
                # A tiny a puts all of a prior on labels that may be used up: 0 is left of it.
                mass = np.cumsum(prior[k] * (np.array(stock) > 0))
                if mass[-1] > 0:
                    shares = cumulated[k] = (mass / mass[-1]).tolist()
                else:
                    total = sum(stock)
                    shares = [below / total for below in accumulate(stock)]
            label = bisect_right(shares, coin)
            partitioned[k].append(left[label].pop())
            stock[label] -= 1
            if stock[label] == 0:
                cumulated = [None] * len(free)
            if len(partitioned[k]) == free[k]:
                # The last one takes the place of who is full, which is quicker than moving all.
                room[slot] = room[-1]
                room.pop()
        return list(map(np.array, partitioned))


@dataclass(frozen=True)
class DirichletByClass(Partition):
    """Each label's samples are shared by proportions p_l ~ Dirichlet(a) over the n clients
    (Yurochkin et al. 2019; Li et al. 2022).

    Published code draws anew until every client has enough, which for small a never ends; here a client left with nothing
    gets one sample of the label that the largest client has most of. Proportions that overflow are equal, the limit.
    """

    summary = "each label is shared by proportions drawn from Dirichlet(a)"
    a: float = bounded(above=0)

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        enough(len(y), clients)
        stock = stocks(y)
        p = rng.dirichlet(np.full(clients, self.a), len(stock))
        p[p.sum(1) == 0] = 1 / clients
        cuts = np.minimum(np.cumsum(p, axis=1) * stock[:, None], stock[:, None]).astype(int)
        cuts[:, -1] = stock
        counts = np.diff(cuts, prepend=0).T
        for k in np.flatnonzero(counts.sum(1) == 0):
            giver = counts.sum(1).argmax()
            label = counts[giver].argmax()
            counts[giver, label] -= 1
            counts[k, label] += 1
        return assign_counts(y, counts, rng)


@dataclass(frozen=True)
class Labels(Partition):
    """Client k holds the labels (k + j) mod C, j < c; a label is shared equally by its holders.

    The label pattern is that of FedProx's MNIST and FOLB Fig. 6; `+sizes(powerlaw)` gives their sizes as well.
    """

    summary = "each client holds exactly c labels"
    c: int = bounded(low=1)

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        stock = stocks(y)
        holds = self.held(stock, clients, 1)
        # The first holders take what does not divide evenly.
        share, more = np.divmod(stock, np.maximum(1, holds.sum(0)))
        place = np.cumsum(holds, axis=0) - 1
        return assign_counts(y, holds * (share + (place < more)), rng)

    def held(self, stock: Array, clients: int, least: int) -> Array:
        """Return which client holds which label, (n, C) bool. Raises `UserError` unless the `stock` (C,) of each label
        gives each of its holders `least` samples.
        """
        if self.c > len(stock):
            raise UserError(f"the data have only {len(stock)} labels")
        holds = (np.arange(len(stock)) - np.arange(clients)[:, None]) % len(stock) < self.c
        holders = holds.sum(0)
        if (scarce := np.flatnonzero(stock < least * holders)).size:
            few = f"label {scarce[0]} has {stock[scarce[0]]} samples"
            many = f"{holders[scarce[0]]} of {clients} clients"
            raise UserError(f"{few} for {many}, each needs {least}")
        return holds


@dataclass(frozen=True)
class Shards(Partition):
    """Sort by label, cut into s n shards, give each client s of them at random
    (McMahan et al. 2017; FedAgg).

    Shard sizes differ by at most one; a shard may straddle labels. `strict` (FedUmf's blocks by category) cuts within
    labels: each label gets shards in proportion to its samples, at least one, and a client has at most s labels.
    """

    summary = "s shards of the samples sorted by label; strict: at most s labels"
    s: int = bounded(low=1)
    strict: bool = field(default=False, kw_only=True)

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        stock, shards = stocks(y), self.s * clients
        if len(y) < shards:
            raise UserError(f"{len(y)} training samples are too few for {shards} shards")
        # Sorted by label, and within a label in a random order.
        order = rng.permutation(len(y))
        order = order[np.argsort(y[order], kind="stable")]
        sizes = equal(len(y), shards)
        if self.strict:
            stock = stock[stock > 0]
            if shards < len(stock):
                few = f"{shards} shards cannot cover {len(stock)} labels"
                raise UserError(f"{few}; use more clients")
            # Each label has a shard; a further one goes to the label whose shards are the largest.
            cut = np.ones(len(stock), int)
            for _ in range(shards - len(stock)):
                cut[(stock / cut).argmax()] += 1
            sizes = np.concatenate([equal(m, parts) for m, parts in zip(stock, cut, strict=True)])
        holder = np.empty(shards, int)
        holder[rng.permutation(shards)] = np.repeat(np.arange(clients), self.s)
        return by_client(np.repeat(holder, sizes), order, clients)


@dataclass(frozen=True)
class Natural(Partition):
    """Each sample stays with the client it was born on."""

    summary = "samples stay with the client they were born on"

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        if owner is None:
            raise UserError("this data set does not say which client a sample belongs to")
        born, k = np.unique(owner, return_inverse=True)
        if (n := len(born)) != clients:
            raise UserError(f"the data have {n} clients, not {clients}; leave `clients` out")
        return by_client(k, np.arange(len(owner)), clients)


class GaussianSizes(Partition):
    """m_k = max(floor(N(mean, std^2)), 1) samples of device k's labels (SAFL).

    They are drawn without replacement within a device, which may share some with others; with replacement where the
    device's labels have fewer than m_k samples.
    """

    overlap = True
    mean: float
    std: float

    @abstractmethod
    def held(self, clients: int, present: Array, rng: Rng) -> Iterator[Array]:
        """Return the labels of one device after the other, each drawn when asked for, of those `present` in the data."""

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        present = np.flatnonzero(stocks(y))
        held = self.held(clients, present, rng)
        sizes = np.maximum(np.floor(rng.normal(self.mean, self.std, clients)), 1)
        if (most := sizes.max()) > len(y):
            raise UserError(f"a client would hold {most:.0f} samples, but there are {len(y)}")
        ids = {label: np.flatnonzero(y == label) for label in present}
        partitioned = []
        for labels, m in zip(held, sizes.astype(int), strict=True):
            # Label after label: where a sample stands decides which one a draw takes.
            pool = np.concatenate([ids[label] for label in labels])
            partitioned.append(pool[rng.choice(len(pool), m, replace=len(pool) < m)])
        return partitioned


@dataclass(frozen=True)
class Gaussian(GaussianSizes):
    """SAFL section V: Gaussian sizes, and `labels` random labels a device: a number for all, or
    LOW..HIGH for a uniform one each.

    Reading: the paper's variance 100 is std 10; its "at most 7 digits" is 7 for every device, or 1..7.
    """

    summary = "SAFL: Gaussian sizes, a few random labels (7, or 1..7); devices share samples"
    labels: int | Range = bounded(7, low=1, kw_only=True)
    mean: float = bounded(600.0, above=0, kw_only=True)
    std: float = bounded(10.0, low=0, kw_only=True)

    def held(self, clients: int, present: Array, rng: Rng) -> Iterator[Array]:
        low, high = self.labels if isinstance(self.labels, tuple) else (self.labels, self.labels)
        if high > len(present):
            raise UserError(f"the data have only {len(present)} labels")
        numbers = (low if low == high else rng.integers(low, high + 1) for _ in range(clients))
        return (rng.choice(present, number, replace=False) for number in numbers)


@dataclass(frozen=True)
class Groups(GaussianSizes):
    """SAFL Fig. 4: two groups of devices with Gaussian sizes. The first `share` of the devices holds
    the labels `first`, the others `second`, at least one device each.

    Reading: the paper does not say how many devices a group has; half of them by default.
    """

    summary = "SAFL Fig. 4: two groups of devices, each with labels of its own"
    first: LabelSet = LabelSet({1, 2, 5, 7, 9})
    second: LabelSet = LabelSet({2})
    share: float = bounded(0.5, above=0, below=1, kw_only=True)
    mean: float = bounded(600.0, above=0, kw_only=True)
    std: float = bounded(10.0, low=0, kw_only=True)

    def held(self, clients: int, present: Array, rng: Rng) -> Iterator[Array]:
        if clients < 2:
            raise UserError("two groups need two clients at least")
        if lost := sorted((self.first | self.second) - set(present.tolist())):
            raise UserError(f"no training sample has label {lost[0]}")
        leading = min(max(round(self.share * clients), 1), clients - 1)
        groups = [np.array(sorted(labels)) for labels in (self.first, self.second)]
        return (groups[k >= leading] for k in range(clients))


def enough(samples: int, clients: int) -> None:
    """Raise `UserError` when there are fewer samples than clients."""
    if samples < clients:
        raise UserError(f"{samples} training samples cannot be partitioned to {clients} clients")


def equal(samples: int, parts: int) -> Array:
    """Return sizes (parts,) that differ by at most one, the larger ones first."""
    return samples // parts + (np.arange(parts) < samples % parts)


def stocks(y: Array) -> Array:
    """Count the samples of each label 0, 1, ..., (C,). Raises `UserError` when targets are no labels."""
    if y.dtype.kind not in "iu":
        raise UserError("the targets of these data are real numbers, no labels; use iid or natural")
    return np.bincount(y)


def assign_counts(y: Array, counts: Array, rng: Rng) -> list[Array]:
    """Return random samples so that client k gets `counts[k, l]` of label l, `counts` (n, C)."""
    holder, ids = [], []
    for label, wanted in enumerate(counts.T):
        pool = rng.permutation(np.flatnonzero(y == label))
        ids.append(pool[: wanted.sum()])
        holder.append(np.repeat(np.arange(len(counts)), wanted))
    return by_client(np.concatenate(holder), np.concatenate(ids), len(counts))


def by_client(holder: Array, ids: Array, clients: int) -> list[Array]:
    """Return each client's `ids`, in their order. `holder` (N,) names the client of each of the N ids."""
    ends = np.cumsum(np.bincount(holder, minlength=clients))
    return np.split(ids[np.argsort(holder, kind="stable")], ends[:-1])
