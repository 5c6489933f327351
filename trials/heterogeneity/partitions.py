"""Partitions: rules that assign training samples to clients.

A partition is a function of labels `y` (N,), owners, the number of clients n and a random generator. It returns an array of
sample indices for each client, none empty. Of the partitions here only `gaussian` and `groups` let clients share samples.
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
    """The base of partitions: a frozen dataclass whose `assign` gives each client its samples (examples/own_partition.py). A
    partition with a method `assign_sizes` (see `TakesSizes`) can also be followed by `+sizes(lognormal(sigma))`.
    """

    summary = ""
    overlap = False  # whether clients may share samples

    @abstractmethod
    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        """Return the indices of each client's samples in `y` (N,), or raise `UserError`. `owner` (N,) has the samples' owners."""


@dataclass(frozen=True)
class IID(Partition):
    """The partition into random parts of equal sizes, which differ by at most one."""

    summary = "a random equal share each"

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        enough(len(y), clients)
        return self.assign_sizes(y, equal(len(y), clients), rng)

    def assign_sizes(self, y: Array, sizes: Array, rng: Rng) -> list[Array]:
        """Draw `sizes[k]` samples for each client k, and return their indices into `y` (N,). `sizes` (n,) sum to N."""
        return np.split(rng.permutation(len(y)), np.cumsum(sizes)[:-1])


@dataclass(frozen=True)
class Dirichlet(Partition):
    """The partition with equal sizes floor(N/n) and label shares q_k ~ Dirichlet(a), as in the code of FedDyn and FedDC.
    Samples are assigned one by one. A random client that is not full draws a label from q_k, restricted to labels with
    samples left, and takes one of these. If q_k has no such label, the client draws in proportion to the samples left.
    """

    summary = "equal sizes, label shares drawn from Dirichlet(a); small a is skewed"
    a: float = bounded(above=0)

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        enough(len(y), clients)
        return self.assign_sizes(y, np.full(clients, len(y) // clients), rng)

    def assign_sizes(self, y: Array, sizes: Array, rng: Rng) -> list[Array]:
        """Draw `sizes[k]` samples for each client k, and return their indices into `y` (N,). `sizes` (n,) sum to at most N."""
        stock = stocks(y).tolist()
        prior = rng.dirichlet(np.full(len(stock), self.a), len(sizes))
        left = [rng.permutation(np.flatnonzero(y == label)).tolist() for label in range(len(stock))]
        room, free = list(range(len(sizes))), sizes.tolist()
        partitioned: list[list[int]] = [[] for _ in free]
        # Cumulative q_k restricted to the labels left; None where it must be computed anew.
        cumulated: list[list[float] | None] = [None] * len(free)
        for pick, coin in rng.random((sum(free), 2)).tolist():
            slot = int(pick * len(room))
            k = room[slot]
            shares = cumulated[k]
            if shares is None:
                # With a tiny a all of q_k may be on labels that are used up.
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
                # Overwriting a full client by the last one is quicker than deleting from the list.
                room[slot] = room[-1]
                room.pop()
        return list(map(np.array, partitioned))


@dataclass(frozen=True)
class DirichletByClass(Partition):
    """The partition that shares each label l among the n clients by p_l ~ Dirichlet(a), as in Yurochkin et al. (2019) and Li et
    al. (2022). Their code draws anew until every client has enough samples, which for small a never ends. Here a client
    without samples takes one from the largest client, of the label most frequent there. If a is so large that p_l overflows,
    p_l is 1/n.
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
            largest = counts.sum(1).argmax()
            label = counts[largest].argmax()
            counts[largest, label] -= 1
            counts[k, label] += 1
        return assign_counts(y, counts, rng)


@dataclass(frozen=True)
class Labels(Partition):
    """The partition in which client k holds the c labels (k + j) mod C, j < c, and a label's holders share it equally. FedProx's
    MNIST and FOLB Fig. 6 assign labels in this way, with sizes by `+sizes(powerlaw)`.
    """

    summary = "each client holds exactly c labels"
    c: int = bounded(low=1)

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        stock = stocks(y)
        holds = self.held(stock, clients, 1)
        # The first holders take the remainder.
        share, remainder = np.divmod(stock, np.maximum(1, holds.sum(0)))
        nth_holder = np.cumsum(holds, axis=0) - 1
        return assign_counts(y, holds * (share + (nth_holder < remainder)), rng)

    def held(self, stock: Array, clients: int, least: int) -> Array:
        """Return a bool array (n, C): whether client k holds label l. `stock` (C,) has the number of samples of each label.
        Raise `UserError` if `stock` has too few labels, or too few samples to give each holder of a label at least `least`.
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
    """The partition of samples sorted by label into s n shards, of which each client gets s at random (McMahan et al.
    2017). FedAgg uses it, too. Shard sizes differ by at most one, and a shard may hold two labels or more. With `strict`
    (FedUmf's blocks by category) a shard holds one label, so that a client has at most s labels. Each label is then cut
    into shards in proportion to its samples, at least one.
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
    """The partition of a natural federation: each sample goes to the client that owns it."""

    summary = "samples stay with the client they were born on"

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        if owner is None:
            raise UserError("this data set does not say which client a sample belongs to")
        owners, k = np.unique(owner, return_inverse=True)
        if (n := len(owners)) != clients:
            raise UserError(f"the data have {n} clients, not {clients}; leave `clients` out")
        return by_client(k, np.arange(len(owner)), clients)


class GaussianSizes(Partition):
    """A partition that gives device k m_k = max(floor(N(mean, std^2)), 1) random samples of its labels (SAFL). Devices may
    share samples. Within a device samples are drawn without replacement, or with replacement where its labels have fewer
    than m_k samples.
    """

    overlap = True
    mean: float
    std: float

    @abstractmethod
    def held(self, clients: int, present: Array, rng: Rng) -> Iterator[Array]:
        """Yield the set of classes of each device, drawn from the classes `present` in the data."""

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        present = np.flatnonzero(stocks(y))
        held = self.held(clients, present, rng)  # a generator: the sizes are drawn first
        sizes = np.maximum(np.floor(rng.normal(self.mean, self.std, clients)), 1)
        if (most := sizes.max()) > len(y):
            raise UserError(f"a client would hold {most:.0f} samples, but there are {len(y)}")
        ids = {label: np.flatnonzero(y == label) for label in present}
        partitioned = []
        for labels, m in zip(held, sizes.astype(int), strict=True):
            # The order of the pool decides which samples a draw takes, so it must not change.
            pool = np.concatenate([ids[label] for label in labels])
            partitioned.append(pool[rng.choice(len(pool), m, replace=len(pool) < m)])
        return partitioned


@dataclass(frozen=True)
class Gaussian(GaussianSizes):
    """The partition of SAFL section V: Gaussian sizes, and `labels` random labels a device. `labels` is a number for all devices,
    or LOW..HIGH for a uniform number each. The paper's variance of 100 is std 10. The paper's "at most 7 digits" can be read
    as 7 for every device, our default, or as 1..7.
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
    """The partition of SAFL Fig. 4: two groups of devices with Gaussian sizes, each with labels of its own. The first `share` of
    the devices hold the labels `first`, the others `second`; each group has at least one device. The paper does not say how
    many devices a group has; by default it is half of them.
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
        if missing := sorted((self.first | self.second) - set(present.tolist())):
            raise UserError(f"no training sample has label {missing[0]}")
        leading = min(max(round(self.share * clients), 1), clients - 1)
        groups = [np.array(sorted(labels)) for labels in (self.first, self.second)]
        return (groups[k >= leading] for k in range(clients))


def enough(samples: int, clients: int) -> None:
    """Raise `UserError` if there are fewer samples than clients."""
    if samples < clients:
        raise UserError(f"{samples} training samples cannot be partitioned to {clients} clients")


def equal(samples: int, parts: int) -> Array:
    """Return `parts` sizes that sum to `samples` and differ by at most one, the larger ones first."""
    return samples // parts + (np.arange(parts) < samples % parts)


def stocks(y: Array) -> Array:
    """Return the number of samples (C,) of each label from 0 to C - 1. Raise `UserError` for targets that are not integers."""
    if y.dtype.kind not in "iu":
        raise UserError("the targets of these data are real numbers, no labels; use iid or natural")
    return np.bincount(y)


def assign_counts(y: Array, counts: Array, rng: Rng) -> list[Array]:
    """Draw `counts[k, l]` samples of label l for each client k, and return their indices into `y`. `counts` is (n, C)."""
    holder, ids = [], []
    for label, wanted in enumerate(counts.T):
        pool = rng.permutation(np.flatnonzero(y == label))
        ids.append(pool[: wanted.sum()])
        holder.append(np.repeat(np.arange(len(counts)), wanted))
    return by_client(np.concatenate(holder), np.concatenate(ids), len(counts))


def by_client(holder: Array, ids: Array, clients: int) -> list[Array]:
    """Return the ids that each client gets, in the order of `ids` (N,). `holder` (N,) has the client of each id."""
    ends = np.cumsum(np.bincount(holder, minlength=clients))
    return np.split(ids[np.argsort(holder, kind="stable")], ends[:-1])
