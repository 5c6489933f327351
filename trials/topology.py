"""Communication graphs of decentralised learning, and their mixing matrices.

`matrix(n, seed)` of a class returns the mixing matrix (n, n) of its graph. An edge weighs 1 / (1 + max(degree_i, degree_j))
and a client's own model takes the rest of its row (Metropolis-Hastings), so that the matrix is symmetric and doubly stochastic.
In a regular graph of degree l all weights are 1 / (l + 1). A new topology is one class and one entry of `NAMED`.
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
DRAWS = 100  # attempts at a random graph that is connected


@dataclass(frozen=True)
class Ring:
    """The ring: each client is connected to its `degree` / 2 nearest neighbours on either side (DeFed Fig. 2).

    With at most `degree` + 1 clients it is the complete graph.
    """

    degree: int = names.bounded(2, low=2)

    def __post_init__(self) -> None:
        if self.degree % 2:
            raise UserError(f"topology ring: degree must be even, got {self.degree}")

    def matrix(self, n: int, seed: int) -> Array:
        # Distance on a circle is the shorter of the two ways round.
        gap = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        distance = np.minimum(gap, n - gap)
        return metropolis((distance > 0) & (distance <= self.degree // 2))


@dataclass(frozen=True)
class Complete:
    """The complete graph, in which mixing is exact averaging."""

    def matrix(self, n: int, seed: int) -> Array:
        return metropolis(~np.eye(n, dtype=bool))


@dataclass(frozen=True)
class Star:
    """The star: client 0 is connected to all others, which have no other neighbour."""

    def matrix(self, n: int, seed: int) -> Array:
        centre = np.arange(n) == 0
        return metropolis(np.not_equal.outer(centre, centre))


@dataclass(frozen=True)
class ErdosRenyi:
    """The Erdos-Renyi graph: each pair is connected with probability p. Graphs are drawn until one is connected."""

    p: float = names.bounded(above=0, high=1)

    def matrix(self, n: int, seed: int) -> Array:
        """Return the mixing matrix of a connected graph drawn from `seed`; raise `UserError` if 100 draws give none."""
        adjacent, pairs = np.zeros((n, n), bool), np.triu_indices(n, 1)
        for draw in range(DRAWS):
            # Python's generator, pair after pair, gives the same graphs as networkx with this seed.
            stream = random.Random(int(randomness.bits("topology", seed, draw)[0]) % 2**32)
            adjacent[pairs] = [stream.random() < self.p for _ in pairs[0]]
            if csgraph.connected_components(adjacent, directed=False, return_labels=False) == 1:
                return metropolis(adjacent | adjacent.T)
        raise UserError(f"topology erdos_renyi({self.p:g}): none of {DRAWS} draws is connected")


@dataclass(frozen=True)
class FromFile:
    """A mixing matrix from a user's file: `.npy`, or comma-separated text."""

    path: str

    def matrix(self, n: int, seed: int) -> Array:
        """Return the file's mixing matrix. Raise `UserError` unless it is readable, (n, n), symmetric and doubly stochastic.
        All eigenvalues but the first must be below 1 in absolute value, too (DeFed: lambda < 1).
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
        # A connected graph may swap models for ever: a swap of two clients has the eigenvalue -1.
        if np.abs(np.linalg.eigvalsh(mixing - 1 / n)).max() > 1 - 1e-9:
            rule = "connect all clients, and let some keep a part of their own model"
            raise UserError(f"{where} must mix, with lambda < 1: {rule}")
        return mixing


Topology = Ring | Complete | Star | ErdosRenyi | FromFile
NAMED = {"ring": Ring, "complete": Complete, "star": Star, "erdos_renyi": ErdosRenyi}


def parse(text: str) -> Topology:
    """Return the topology of a name such as `ring(4)`, or of `file:PATH`; raise `UserError` for any other text."""
    kind, _, path = (text := str(text)).partition(":")  # YAML may turn a name into a number
    topology: Topology = FromFile(path) if kind == "file" else names.parse("topology", text, NAMED)
    return topology


def canonical(text: str) -> str:
    """Return a topology's name in canonical spelling. A file's path is absolute, since workers run in other folders."""
    topology = parse(text)
    if isinstance(topology, FromFile):
        return f"file:{Path(topology.path).expanduser().resolve()}"
    return names.spell(text.split("(")[0].strip(), topology)


def metropolis(adjacent: Array) -> Array:
    """Return the Metropolis-Hastings weights (n, n) of a graph with the boolean adjacency matrix `adjacent` (n, n)."""
    degree = adjacent.sum(0)
    mixing: Array = adjacent / (1 + np.maximum.outer(degree, degree))
    np.fill_diagonal(mixing, 1 - mixing.sum(1))
    return mixing
