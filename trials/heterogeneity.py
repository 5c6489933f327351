"""Heterogeneity levels: how samples reach clients, and how much local work a client manages.

A level is written `PARTITION[+MODIFIER...]`, such as `dirichlet(0.3)+system(steps=1..20)`. A partition
is a pure function of labels, the number of clients and a generator: it gives disjoint index arrays,
one a client, none empty, or raises `UserError` saying why it cannot. A new one is one class and one
entry of `PARTITIONS` (or `MODIFIERS`).
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from trials import names, randomness
from trials.errors import UserError
from trials.names import Range

Array = npt.NDArray[Any]


class Partition(Protocol):
    """What an entry of `PARTITIONS` is."""

    summary: ClassVar[str]

    def deal(
        self, y: Array, clients: int, owner: Array | None, rng: np.random.Generator
    ) -> list[Array]:
        """Indices into `y` (N,) for each client; `owner` (N,) where data are born on clients."""
        ...


@dataclass(frozen=True)
class IID:
    """Shuffle, cut into equal parts (sizes differ by at most one)."""

    summary: ClassVar[str] = "a random equal share each"

    def deal(
        self, y: Array, clients: int, owner: Array | None, rng: np.random.Generator
    ) -> list[Array]:
        """See the class."""
        _enough(len(y), clients)
        return np.array_split(rng.permutation(len(y)), clients)


@dataclass(frozen=True)
class Dirichlet:
    """Equal sizes floor(N/n), label priors q_k ~ Dirichlet(a): recipe 8.9 (FedDyn, FedDC code).

    Until all sizes are met: a random client with room draws a label from q_k, again while that label
    is used up, and takes one unused sample of it. So sizes are exact; label shares are approximate
    late in the draw. Redrawing is done as one draw from q_k restricted to the labels left; a client
    whose whole prior is used up (its mass underflows) takes from the labels left in proportion.
    """

    summary: ClassVar[str] = "equal sizes, label shares drawn from Dirichlet(a); small a is skewed"
    a: float

    def __post_init__(self) -> None:
        if not 0 < self.a < math.inf:
            raise UserError(f"heterogeneity dirichlet(a): 0 < a < inf must hold, got {self.a:g}")

    def deal(
        self, y: Array, clients: int, owner: Array | None, rng: np.random.Generator
    ) -> list[Array]:
        """See the class."""
        _enough(len(y), clients)
        classes = int(y.max()) + 1
        size = len(y) // clients
        prior = rng.dirichlet(np.full(classes, self.a), clients)
        left = [list(rng.permutation(np.flatnonzero(y == label))) for label in range(classes)]
        room = list(range(clients))
        dealt: list[list[int]] = [[] for _ in range(clients)]
        stock = np.array([len(pool) for pool in left])
        for pick, coin in rng.random((clients * size, 2)):
            slot = int(pick * len(room))
            k = room[slot]
            mass = np.cumsum(prior[k] * (stock > 0))
            if not mass[-1] > 0:
                mass = np.cumsum(stock.astype(float))
            label = int(np.searchsorted(mass / mass[-1], coin, side="right"))
            dealt[k].append(left[label].pop())
            stock[label] -= 1
            if len(dealt[k]) == size:
                room[slot] = room[-1]
                room.pop()
        return [np.array(part) for part in dealt]


@dataclass(frozen=True)
class Labels:
    """Client k holds the labels (k + j) mod C, j < c; a label is shared equally by its holders.

    The label pattern is that of recipes 8.4 and 8.6 without their power-law sizes.
    """

    summary: ClassVar[str] = "each client holds exactly c labels"
    c: int

    def __post_init__(self) -> None:
        if self.c < 1:
            raise UserError(f"heterogeneity labels(c): c >= 1 must hold, got {self.c}")

    def deal(
        self, y: Array, clients: int, owner: Array | None, rng: np.random.Generator
    ) -> list[Array]:
        """See the class."""
        classes = int(y.max()) + 1
        if self.c > classes:
            raise UserError(f"heterogeneity labels({self.c}): the data have only {classes} labels")
        holds = (np.arange(classes) - np.arange(clients)[:, None]) % classes < self.c
        dealt: list[list[Array]] = [[] for _ in range(clients)]
        for label in range(classes):
            pool, holders = (
                rng.permutation(np.flatnonzero(y == label)),
                np.flatnonzero(holds[:, label]),
            )
            if len(pool) < len(holders):
                raise UserError(
                    f"heterogeneity labels({self.c}): label {label} has {len(pool)} training samples "
                    f"for {len(holders)} of {clients} clients; use fewer clients"
                )
            for k, part in zip(holders, np.array_split(pool, max(1, len(holders))), strict=False):
                dealt[k].append(part)
        return [np.concatenate(parts) for parts in dealt]


@dataclass(frozen=True)
class Natural:
    """Each sample stays with the client it was born on."""

    summary: ClassVar[str] = "samples stay with the client they were born on"

    def deal(
        self, y: Array, clients: int, owner: Array | None, rng: np.random.Generator
    ) -> list[Array]:
        """See the class."""
        if owner is None:
            raise UserError(
                "heterogeneity natural: this data set does not say which client a sample belongs to"
            )
        parts = [np.flatnonzero(owner == k) for k in np.unique(owner)]
        if len(parts) != clients:
            raise UserError(
                f"heterogeneity natural: the data set has {len(parts)} clients, not {clients}; "
                "leave `clients` out"
            )
        return parts


@dataclass(frozen=True)
class System:
    """Each device manages a uniform integer number of local minibatch steps, anew each round.

    FOLB and FedProx experiments (settings.md 3). The same numbers for every algorithm.
    """

    summary: ClassVar[str] = "a device manages LOW..HIGH local steps, drawn anew each round"
    steps: Range = field(kw_only=True)

    def __post_init__(self) -> None:
        if not 1 <= self.steps[0] <= self.steps[1]:
            raise UserError(
                f"heterogeneity system(steps=LOW..HIGH): 1 <= LOW <= HIGH must hold, got "
                f"{self.steps[0]}..{self.steps[1]}"
            )

    def draw(self, ids: Array, round_index: int, seed: int) -> Array:
        """Number of steps (k,) for clients `ids` (k,) in a round."""
        low, high = self.steps
        u = randomness.uniform("steps", seed, round_index, ids)
        return low + (u * (high - low + 1)).astype(np.int64)


PARTITIONS: dict[str, type[Partition]] = {
    "iid": IID,
    "dirichlet": Dirichlet,
    "labels": Labels,
    "natural": Natural,
}
MODIFIERS: dict[str, type[System]] = {"system": System}


@dataclass(frozen=True)
class Heterogeneity:
    """A parsed level: its canonical `name`, a partition, and system heterogeneity if any."""

    name: str
    partition: Partition
    system: System | None = None


def parse(text: str) -> Heterogeneity:
    """Read a level. Raises `UserError` that shows the grammar or the nearest known name."""
    first, *rest = names.split_top(text, "+")
    try:
        partition = names.parse("heterogeneity", first, PARTITIONS)
        modifiers = [names.parse("heterogeneity modifier", part, MODIFIERS) for part in rest]
    except UserError as error:
        raise UserError(f"{error} (a level is written {grammar()})") from None
    if len(modifiers) > 1:
        raise UserError(f"heterogeneity {text!r}: a modifier is given twice")
    parts = [names.spell(first.split("(")[0].strip(), partition)]
    parts += [
        names.spell(text.split("(")[0].strip(), modifier)
        for text, modifier in zip(rest, modifiers, strict=True)
    ]
    return Heterogeneity("+".join(parts), partition, *modifiers)


def grammar() -> str:
    """One line: how a level is written."""
    bases = " | ".join(names.usage(name, cls) for name, cls in PARTITIONS.items())
    modifiers = " | ".join(names.usage(name, cls) for name, cls in MODIFIERS.items())
    return f"{bases}, optionally +{modifiers}"


def _enough(samples: int, clients: int) -> None:
    if samples < clients:
        raise UserError(f"{samples} training samples cannot be dealt to {clients} clients")
