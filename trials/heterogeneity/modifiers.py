"""Modifiers of a level: clients' sizes, how much local work devices manage, how fast, who answers.

What a device does is a function of (run seed, round, client), so that it is the same for every algorithm.
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
    """An entry of `MODIFIERS`: a frozen dataclass whose hooks change nothing unless it defines them. Clients are `ids` (k,)."""

    summary = ""
    changes_work = False  # whether devices do different amounts of work, which an algorithm may refuse as `system`
    timed = False  # whether it says how fast devices are, so that runs record their simulated time
    deadline: float = math.inf
    """Simulated seconds at which a round ends: a client does the local steps that fit in, and at least one."""

    def applied(self, partition: Partition) -> Partition:
        """Return the partition with this modifier; raises `UserError` when the two do not go together."""
        return partition

    def unseen(self, clients: int, rng: Rng) -> Array:
        """Return those of `clients` that take no part in training, ascending; the final model is scored on them."""
        return np.empty(0, np.int64)

    def local_steps(
        self, asked: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """Return local steps (k,) in a round, in place of `asked` (k,), where `per_epoch` (k,) are a pass over the data."""
        return asked

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """Return those of the selected clients that answer in a round, at least one."""
        return ids

    def step_seconds(self, ids: Array, seed: int) -> Array | float:
        """Return the factors (k,) of the simulated seconds of a client's local step."""
        return 1.0

    def waiting_seconds(self, ids: Array, seed: int) -> Array | float:
        """Return the simulated seconds (k,) of a client's part in a round beside its local steps."""
        return 0.0


@runtime_checkable
class TakesSizes(Protocol):
    """A partition that can give clients any sizes."""

    def assign_sizes(self, y: Array, sizes: Array, rng: Rng) -> list[Array]:
        """Return the samples of each client, exactly `sizes` (n,) of them; their sum is at most N."""


@dataclass(frozen=True)
class LogNormal:
    """m_k ~ LogNormal(log(N/n), sigma), rescaled to the sum N and rounded down; the first client takes what rounding leaves
    (FedDyn's and FedDC's code; FedUmf's "unbalanced"). A client without any gets one sample of the largest.
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

    Each holder of a label gets 5 samples of it; the others are shared by a_k / sum a, a_k ~ LogNormal(0, 2) for each
    holding, rounded down.
    """

    on: ClassVar[type] = Labels

    def assign(self, partition: Labels, y: Array, clients: int, rng: Rng) -> list[Array]:
        stock = stocks(y)
        holds = partition.held(stock, clients, 5)
        rest = stock - 5 * holds.sum(0)  # of each label, when each holder has its 5
        a = rng.lognormal(0, 2, holds.shape) * holds
        share = a / np.where(holds.any(0), a.sum(0), 1)
        return assign_counts(y, holds * 5 + np.floor(share * rest).astype(int), rng)


@dataclass(frozen=True)
class LogNormalAbsolute:
    """FedProx's FEMNIST: m_k = floor(LogNormal(mu, sigma) + 5) under labels(c), however many samples
    there are. Each of a client's labels gives max(2, floor(m_k / c)).

    A label's samples go to its holders in turn: two to each, then what they want while it lasts.
    """

    on: ClassVar[type] = Labels
    mu: float = bounded(4.0)
    sigma: float = bounded(1.0, low=0)

    def assign(self, partition: Labels, y: Array, clients: int, rng: Rng) -> list[Array]:
        stock = stocks(y)
        return assign_counts(y, self.counts(partition, stock, clients, rng), rng)

    def counts(self, partition: Labels, stock: Array, clients: int, rng: Rng) -> Array:
        """Return the samples of each label for each client, (n, C), at most `stock` (C,) of a label."""
        holds = partition.held(stock, clients, 2)
        with np.errstate(over="ignore"):
            sizes = np.exp(self.mu + self.sigma * rng.standard_normal(clients))
        sizes = np.minimum(sizes, stock.sum())  # all there is, so that a huge draw is a number
        wanted = np.maximum((sizes + 5).astype(int) // partition.c, 2) - 2
        spare = stock - 2 * holds.sum(0)
        # Holders stand in a row: who comes after the stock is used up gets nothing further.
        further = np.minimum(np.cumsum(holds * wanted[:, None], axis=0), spare)
        return holds * 2 + np.diff(further, axis=0, prepend=0)


Law = LogNormal | PowerLaw | LogNormalAbsolute
LAWS: dict[str, type[Law]] = {
    "lognormal": LogNormal,
    "powerlaw": PowerLaw,
    "lognormal_absolute": LogNormalAbsolute,
}


@dataclass(frozen=True)
class Sizes(Modifier):
    """Clients' sizes follow a law of `LAWS`."""

    summary = "sizes by lognormal(sigma) go with iid and dirichlet(a), by powerlaw or lognormal_absolute with labels(c)"
    law: str

    def __post_init__(self) -> None:
        law = names.parse("law of sizes", self.law, LAWS)
        object.__setattr__(self, "law", names.spell(names.split(self.law)[0], law))

    def applied(self, partition: Partition) -> Partition:
        # The field holds the text, so that it is spelled as it is read.
        law = names.parse("law of sizes", self.law, LAWS)
        if not isinstance(partition, law.on):
            raise UserError(f"heterogeneity: {self.summary}, and not otherwise")
        return Sized(partition, law)


@dataclass(frozen=True)
class Sized(Partition):
    """A partition whose sizes follow a law."""

    partition: Partition
    law: Law

    def assign(self, y: Array, clients: int, owner: Array | None, rng: Rng) -> list[Array]:
        parts: list[Array] = self.law.assign(self.partition, y, clients, rng)  # type: ignore[arg-type] # `Sizes`
        return parts


@dataclass(frozen=True)
class System(Modifier):
    """Each device manages a uniform whole number of local minibatch steps, or of epochs, in place of the study's.

    FOLB's experiments say 1..20 steps; FedProx's, which they follow, 1..20 epochs.
    """

    summary = "a device manages LOW..HIGH local steps (or epochs), anew each round"
    changes_work = True
    steps: Range | None = bounded(None, low=1, below=2**31, kw_only=True)
    epochs: Range | None = bounded(None, low=1, below=2**31, kw_only=True)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise UserError("system: give steps=LOW..HIGH or epochs=LOW..HIGH, one of the two")

    def local_steps(
        self, asked: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """Return the drawn steps, whatever the study asks for."""
        low, high = self.steps or self.epochs or (1, 1)
        u = randomness.uniform("steps", seed, round_index, ids)
        drawn = low + (u * (high - low + 1)).astype(np.int64)
        return drawn if self.epochs is None else drawn * per_epoch


@dataclass(frozen=True)
class Speed(Modifier):
    """Device k takes exp(sigma z_k) simulated seconds for a local step, z_k ~ N(0, 1), the same in every round. A round
    takes as long as its slowest client, unless the algorithm says otherwise.
    """

    summary = "a local step of device k takes LogNormal(0, sigma) simulated seconds"
    timed = True
    sigma: float = bounded(low=0, high=10)

    def step_seconds(self, ids: Array, seed: int) -> Array:
        """Return exp(sigma z_k); z_k by Box and Muller (1958)."""
        u, v = (randomness.uniform(name, seed, ids) for name in ("speed", "speed angle"))
        z = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)
        return np.exp(self.sigma * z)


@dataclass(frozen=True)
class Dropout(Modifier):
    """A selected device fails to answer with probability `rate`: it trains and sends nothing, and its state stays as it
    was. If all would fail, the one nearest to answering does.
    """

    summary = "a selected device does not answer with probability rate"
    rate: float = bounded(low=0, below=1)

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """Return the clients whose uniform number is at least `rate`."""
        u = randomness.uniform("dropout", seed, round_index, ids)
        return ids[u >= min(self.rate, u.max())]


@dataclass(frozen=True)
class Delay(Modifier):
    """Device k needs T_k ~ Exponential(mean) for communication, the same in every round, and a round ends at the `deadline`:
    of the local steps asked for it does those that fit into deadline - T_k, at least one (FOLB section V-A).

    Reading: times are in local steps of the median device; with `+speed` those of device k take its own time. The paper
    gives no distribution over devices; the exponential is the one that it names.
    """

    summary = "communication takes Exponential(mean); steps must fit into the deadline"
    changes_work = True
    mean: float = bounded(low=0, kw_only=True)
    deadline: float = bounded(low=1, kw_only=True)

    def waiting_seconds(self, ids: Array, seed: int) -> Array:
        """Return T_k (k,)."""
        return -self.mean * np.log1p(-randomness.uniform("delay", seed, ids))
