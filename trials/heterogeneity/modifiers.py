"""Modifiers of a heterogeneity level: clients' sizes, devices' local work and speed, and which devices answer.

A device's draws are functions of (run seed, round, client), so that they are the same for every algorithm.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from trials.common import names, randomness
from trials.common.errors import UserError
from trials.common.names import Range, bounded
from trials.heterogeneity.partitions import (
    Array,
    Labels,
    Partition,
    Rng,
    assign_counts,
    enough,
    stocks,
)


class Modifier:
    """The base of modifiers: a frozen dataclass that overrides some of these methods, which change nothing by default."""

    summary = ""
    changes_work = False  # whether clients do unequal work, `system` in `Algorithm.unsupported`
    timed = False  # whether it sets devices' speed, so that runs record their simulated time
    deadline: float = math.inf
    """The simulated seconds of a round: a client does the local steps that it can finish in time, at least one."""

    def applied(self, partition: Partition) -> Partition:
        """Return the partition after this modifier's change. Raise `UserError` if the modifier does not fit the partition."""
        return partition

    def unseen(self, clients: int, rng: Rng) -> Array:
        """Return which of the `clients` do not train: their ids, from 0, in ascending order. The model is scored on their test data."""
        return np.empty(0, np.int64)

    def local_steps(
        self, planned: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """Return the clients' numbers of local steps, (k,), to replace `planned` (k,). One epoch takes `per_epoch` (k,) steps."""
        return planned

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """Return the ids of the selected clients that answer in a round, at least one."""
        return ids

    def step_seconds(self, ids: Array, seed: int) -> Array | float:
        """Return factors (k,) for the duration of the clients' local steps. Without modifiers a step takes one simulated second."""
        return 1.0

    def waiting_seconds(self, ids: Array, seed: int) -> Array | float:
        """Return the simulated seconds (k,) that clients need in a round in addition to local steps, such as for communication."""
        return 0.0


@runtime_checkable
class TakesSizes(Protocol):
    """A partition that can assign any number of samples to each client."""

    def assign_sizes(self, y: Array, sizes: Array, rng: Rng) -> list[Array]:
        """Return an array of sample indices into `y` (N,) for each client. Client k gets `sizes[k]` samples; `sizes` sum to at most N."""


@dataclass(frozen=True)
class LogNormal:
    """The size law m_k ~ LogNormal(log(N/n), sigma), rescaled to the sum N (FedDyn's and FedDC's code; FedUmf's "unbalanced").

    Sizes are rounded down, and the first client takes the remainder. A client of size 0 takes one sample from the largest.
    """

    on: ClassVar[type] = TakesSizes
    sigma: float = bounded(low=0)

    def assign(self, partition: TakesSizes, y: Array, clients: int, rng: Rng) -> list[Array]:
        enough(len(y), clients)
        z = rng.standard_normal(clients)
        # Rescaling undoes any common factor: with the largest share at 1 nothing overflows.
        share = np.exp(self.sigma * (z - z.max()))
        sizes = np.floor(share / share.sum() * len(y)).astype(int)
        sizes[0] += len(y) - sizes.sum()
        for k in np.flatnonzero(sizes == 0):  # a client without samples could not train
            sizes[sizes.argmax()] -= 1
            sizes[k] = 1
        return partition.assign_sizes(y, sizes, rng)


@dataclass(frozen=True)
class PowerLaw:
    """FedProx's power-law sizes under labels(c): its MNIST has c = 2, FOLB Fig. 6 other values.

    Each client that holds a label gets 5 samples of it. The label's other samples are shared among its holders k in
    proportion to a_k ~ LogNormal(0, 2), drawn for each label and client; shares are rounded down.
    """

    on: ClassVar[type] = Labels

    def assign(self, partition: Labels, y: Array, clients: int, rng: Rng) -> list[Array]:
        stock = stocks(y)
        holds = partition.held(stock, clients, 5)
        rest = stock - 5 * holds.sum(0)  # of each label (C,), after 5 samples for each holder
        a = rng.lognormal(0, 2, holds.shape) * holds
        share = a / np.where(holds.any(0), a.sum(0), 1)
        return assign_counts(y, holds * 5 + np.floor(share * rest).astype(int), rng)


@dataclass(frozen=True)
class LogNormalAbsolute:
    """FedProx's FEMNIST sizes under labels(c): client k wants m_k = floor(LogNormal(mu, sigma) + 5) samples, that is,
    max(2, floor(m_k / c)) of each of its labels.

    Each holder of a label gets two samples of it. Then the holders get what they want, in order, while the label lasts.
    """

    on: ClassVar[type] = Labels
    mu: float = bounded(4.0)
    sigma: float = bounded(1.0, low=0)

    def assign(self, partition: Labels, y: Array, clients: int, rng: Rng) -> list[Array]:
        stock = stocks(y)
        return assign_counts(y, self.counts(partition, stock, clients, rng), rng)

    def counts(self, partition: Labels, stock: Array, clients: int, rng: Rng) -> Array:
        """Return each client's number of samples of each label, (n, C). `stock` (C,) has the available number of samples by label."""
        holds = partition.held(stock, clients, 2)
        with np.errstate(over="ignore"):
            sizes = np.exp(self.mu + self.sigma * rng.standard_normal(clients))
        sizes = np.minimum(sizes, stock.sum())  # so that an infinite draw becomes a whole number
        wanted = np.maximum((sizes + 5).astype(int) // partition.c, 2) - 2
        spare = stock - 2 * holds.sum(0)
        # The clients are served in order, so the last ones get only two when a label is used up.
        served = np.minimum(np.cumsum(holds * wanted[:, None], axis=0), spare)
        return holds * 2 + np.diff(served, axis=0, prepend=0)


Law = LogNormal | PowerLaw | LogNormalAbsolute
LAWS: dict[str, type[Law]] = {
    "lognormal": LogNormal,
    "powerlaw": PowerLaw,
    "lognormal_absolute": LogNormalAbsolute,
}


@dataclass(frozen=True)
class Sizes(Modifier):
    """The modifier `+sizes(LAW)`: clients' sizes follow a law such as `lognormal(1)` or `powerlaw`."""

    summary = "sizes by lognormal(sigma) go with iid and dirichlet(a), by powerlaw or lognormal_absolute with labels(c)"
    law: str

    def __post_init__(self) -> None:
        law = names.parse("law of sizes", self.law, LAWS)
        object.__setattr__(self, "law", names.spell(names.split(self.law)[0], law))

    def applied(self, partition: Partition) -> Partition:
        # The field `law` holds text, so that the level's spelling can be parsed again.
        law = names.parse("law of sizes", self.law, LAWS)
        if not isinstance(partition, law.on):
            raise UserError(f"heterogeneity: {self.summary}, and not otherwise")
        return Sized(partition, law)


@dataclass(frozen=True)
class Sized(Partition):
    """A partition whose clients' sizes follow a law."""

    partition: Partition
    law: Law

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        parts: list[Array] = self.law.assign(self.partition, y, clients, rng)  # type: ignore[arg-type] # `Sizes`
        return parts


@dataclass(frozen=True)
class System(Modifier):
    """The modifier `+system`: in each round a device does a random number of local steps, or epochs, not the study's.

    The number is uniform in LOW..HIGH. FOLB's experiments have 1..20 steps; FedProx's, which they follow, 1..20 epochs.
    """

    summary = "a device manages LOW..HIGH local steps (or epochs), anew each round"
    changes_work = True
    steps: Range | None = bounded(None, low=1, below=2**31, kw_only=True)
    epochs: Range | None = bounded(None, low=1, below=2**31, kw_only=True)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise UserError("system: give steps=LOW..HIGH or epochs=LOW..HIGH, one of the two")

    def local_steps(
        self, planned: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """Return random numbers of local steps (k,), which replace `planned`. If `epochs` are drawn, an epoch has `per_epoch` (k,) steps."""
        low, high = self.steps or self.epochs or (1, 1)
        u = randomness.uniform("steps", seed, round_index, ids)
        drawn = low + (u * (high - low + 1)).astype(np.int64)
        return drawn if self.epochs is None else drawn * per_epoch


@dataclass(frozen=True)
class Speed(Modifier):
    """The modifier `+speed`: a local step takes device k exp(sigma z_k) simulated seconds in every round, z_k ~ N(0, 1). A
    round takes as long as its slowest client, unless the algorithm says otherwise.
    """

    summary = "a local step of device k takes LogNormal(0, sigma) simulated seconds"
    timed = True
    sigma: float = bounded(low=0, high=10)

    def step_seconds(self, ids: Array, seed: int) -> Array:
        """Return each client's factor exp(sigma z), (k,), for the duration of a step. z ~ N(0, 1) is drawn by Box and Muller (1958)."""
        u, v = (randomness.uniform(name, seed, ids) for name in ("speed", "speed angle"))
        z = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)
        return np.exp(self.sigma * z)


@dataclass(frozen=True)
class Dropout(Modifier):
    """The modifier `+dropout`: with probability `rate` a selected device does not answer. It then neither trains nor sends, and
    its state stays as it was. At least one device answers.
    """

    summary = "a selected device does not answer with probability rate"
    rate: float = bounded(low=0, below=1)

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """Return the clients in `ids` that answer in this round, each with probability 1 - `rate`. At least one client answers."""
        u = randomness.uniform("dropout", seed, round_index, ids)
        return ids[u >= min(self.rate, u.max())]


@dataclass(frozen=True)
class Delay(Modifier):
    """The modifier `+delay`: device k communicates for T_k ~ Exponential(mean) seconds, and a round ends at the `deadline`.

    T_k is the same in every round. Device k does as many local steps as fit into deadline - T_k, at least one (FOLB section
    V-A). Our reading: a local step takes one second, or device k's own time with `+speed`. The paper does not say how T_k
    varies over devices; the exponential is the only distribution that it names.
    """

    summary = "communication takes Exponential(mean); steps must fit into the deadline"
    changes_work = True
    mean: float = bounded(low=0, kw_only=True)
    deadline: float = bounded(low=1, kw_only=True)

    def waiting_seconds(self, ids: Array, seed: int) -> Array:
        """Return the clients' communication times T_k in simulated seconds, (k,)."""
        return -self.mean * np.log1p(-randomness.uniform("delay", seed, ids))
