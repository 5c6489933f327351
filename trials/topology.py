"""Who talks to whom in decentralised learning: names of graphs, and mixing matrices.

Edges weigh 1 / (1 + max(degree_i, degree_j)) and a node keeps the rest (Metropolis and Hastings), so
that a mixing matrix is symmetric and doubly stochastic; in a regular graph of degree l all weights
are 1 / (l + 1). A new topology is one class and one entry of `NAMED`.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common import names, randomness
from trials.common.errors import UserError
from trials.common.lazy import Lazy

csgraph: Any = Lazy("scipy.sparse.csgraph")
Array = npt.NDArray[Any]
DRAWS = 100  # how often a random graph is drawn until it is connected


@dataclass(frozen=True)
class Ring:
    """Each client and its `degree` / 2 neighbours on either side of a circle (DeFed Fig. 2).

    Where the circle has fewer others than `degree` it is the complete graph.
    """

    degree: int = names.bounded(2, low=2)

    def __post_init__(self) -> None:
        if self.degree % 2:
            raise UserError(f"topology ring: degree must be even, got {self.degree}")

    def matrix(self, n: int, seed: int) -> Array:
        # On a circle the way back may be shorter.
        gap = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        distance = np.minimum(gap, n - gap)
        return metropolis((distance > 0) & (distance <= self.degree // 2))


@dataclass(frozen=True)
class Complete:
    """Everybody with everybody, which is exact averaging."""

    def matrix(self, n: int, seed: int) -> Array:
        return metropolis(~np.eye(n, dtype=bool))


@dataclass(frozen=True)
class Star:
    """Everybody with client 0."""

    def matrix(self, n: int, seed: int) -> Array:
        centre = np.arange(n) == 0
        return metropolis(np.not_equal.outer(centre, centre))


@dataclass(frozen=True)
class ErdosRenyi:
    """Each pair with probability p, drawn from the seed, again until the graph is connected."""

    p: float = names.bounded(above=0, high=1)

    def matrix(self, n: int, seed: int) -> Array:
        """Return a random graph's mixing matrix; raises `UserError` when no draw was connected."""
        adjacent, pairs = np.zeros((n, n), bool), np.triu_indices(n, 1)
        for draw in range(DRAWS):
            # Python's generator, pair after pair: the graphs that networkx makes of this seed.
            stream = random.Random(int(randomness.bits("topology", seed, draw)[0]) % 2**32)
            adjacent[pairs] = [stream.random() < self.p for _ in pairs[0]]
            if csgraph.connected_components(adjacent, directed=False, return_labels=False) == 1:
                return metropolis(adjacent | adjacent.T)
        raise UserError(f"topology erdos_renyi({self.p:g}): none of {DRAWS} draws is connected")


@dataclass(frozen=True)
class FromFile:
    """A mixing matrix of the user's, `.npy` or `.csv`."""

    path: str

    def matrix(self, n: int, seed: int) -> Array:
        """Return the file's matrix; raise `UserError` unless it is (n, n), finite, not negative, symmetric, doubly stochastic
        and mixes: DeFed needs lambda < 1, the largest absolute eigenvalue except the first.
        """
        where, path = f"topology file:{self.path}", Path(self.path).expanduser()
        try:
            mixing = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",")
            mixing = mixing.astype(np.float64, casting="same_kind")
        except (OSError, ValueError, EOFError, TypeError) as error:
            raise UserError(f"{where} cannot be read as a matrix of numbers: {error}") from None
        sound = mixing.shape == (n, n) and np.isfinite(mixing).all() and (mixing >= 0).all()
        sound = sound and np.allclose(mixing, mixing.T, rtol=0, atol=1e-8)
        if not sound or not np.allclose(mixing.sum(1), 1, rtol=0, atol=1e-6):
            rule = "finite numbers from 0 on, symmetric and doubly stochastic"
            raise UserError(f"{where} must be {n} x {n} for {n} clients: {rule}")
        # A connected graph may still only pass models to and fro: the swap of two clients has the eigenvalue -1.
        if np.abs(np.linalg.eigvalsh(mixing - 1 / n)).max() > 1 - 1e-9:
            rule = "all clients are connected, and some keep a part of their own model"
            raise UserError(f"{where} must mix, with lambda < 1: {rule}")
        return mixing


Topology = Ring | Complete | Star | ErdosRenyi | FromFile
NAMED = {"ring": Ring, "complete": Complete, "star": Star, "erdos_renyi": ErdosRenyi}


def parse(text: str) -> Topology:
    """Return the topology a name stands for, or `file:PATH`; raises `UserError` for anything else."""
    kind, _, path = (text := str(text)).partition(":")  # YAML may have read a number
    topology: Topology = FromFile(path) if kind == "file" else names.parse("topology", text, NAMED)
    return topology


def canonical(text: str) -> str:
    """Return the canonical spelling of a name; a file's path is made absolute, since workers run elsewhere."""
    topology = parse(text)
    if isinstance(topology, FromFile):
        return f"file:{Path(topology.path).expanduser().resolve()}"
    return names.spell(text.split("(")[0].strip(), topology)


def metropolis(adjacent: Array) -> Array:
    """Return the Metropolis-Hastings weights (n, n) of a graph, given who is next to whom (n, n) bool."""
    degree = adjacent.sum(0)
    mixing: Array = adjacent / (1 + np.maximum.outer(degree, degree))
    np.fill_diagonal(mixing, 1 - mixing.sum(1))
    return mixing
