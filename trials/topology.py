"""Who talks to whom in decentralised learning: names of graphs, and mixing matrices.

Edges weigh 1 / (1 + max(degree_i, degree_j)) and a node keeps the rest (Metropolis and Hastings), so
that a mixing matrix is symmetric and doubly stochastic; in a regular graph of degree l all weights
are 1 / (l + 1). A new topology is one class and one entry of `TOPOLOGIES`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from trials.common import names, randomness
from trials.common.errors import UserError
from trials.common.lazy import Lazy

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = Lazy("networkx")

Array = npt.NDArray[Any]


class Topology(Protocol):
    """What an entry of `TOPOLOGIES` is."""

    def matrix(self, n: int, seed: int) -> Array:
        """Mixing matrix (n, n) of n clients."""
        ...


@dataclass(frozen=True)
class Ring:
    """Each client and its `degree` / 2 neighbours on either side of a circle (DeFed Fig. 2).

    Where the circle has fewer others than `degree` it is the complete graph.
    """

    degree: int = 2

    def __post_init__(self) -> None:
        if self.degree < 2 or self.degree % 2:
            raise UserError(f"topology ring: degree must be even and at least 2, got {self.degree}")

    def matrix(self, n: int, seed: int) -> Array:
        """The ring's mixing matrix (n, n)."""
        return metropolis(nx.circulant_graph(n, range(1, min(self.degree, n) // 2 + 1)))


@dataclass(frozen=True)
class Complete:
    """Everybody with everybody: exact averaging."""

    def matrix(self, n: int, seed: int) -> Array:
        """The complete graph's mixing matrix (n, n)."""
        return metropolis(nx.complete_graph(n))


@dataclass(frozen=True)
class Star:
    """Everybody with client 0."""

    def matrix(self, n: int, seed: int) -> Array:
        """The star's mixing matrix (n, n)."""
        return metropolis(nx.star_graph(n - 1))


@dataclass(frozen=True)
class ErdosRenyi:
    """Each pair with probability p, drawn from the seed, again until the graph is connected."""

    p: float = names.bounded(above=0, high=1)
    draws: ClassVar[int] = 100

    def matrix(self, n: int, seed: int) -> Array:
        """A random graph's mixing matrix (n, n); raises `UserError` when no draw was connected."""
        for draw in range(self.draws):
            number = int(randomness.bits("topology", seed, draw)[0])
            graph = nx.gnp_random_graph(n, self.p, seed=number % 2**32)
            if nx.is_connected(graph):
                return metropolis(graph)
        raise UserError(
            f"topology erdos_renyi({self.p:g}): {self.draws} draws with {n} clients were not "
            "connected; use a larger p"
        )


@dataclass(frozen=True)
class FromFile:
    """A mixing matrix of the user's, `.npy` or `.csv`."""

    path: str

    def matrix(self, n: int, seed: int) -> Array:
        """The file's matrix; raises `UserError` when the matrix does not mix n clients."""
        where = f"topology file:{self.path}"
        path = Path(self.path).expanduser()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # an empty file; its shape tells
                found = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",")
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{where} cannot be read as a matrix of numbers: {error}") from None
        if found.dtype.kind not in "iuf":
            raise UserError(f"{where} must hold real numbers, not {found.dtype}")
        return checked(found.astype(np.float64), n, where)


TOPOLOGIES: dict[str, type[Topology]] = {
    "ring": Ring,
    "complete": Complete,
    "star": Star,
    "erdos_renyi": ErdosRenyi,
}


def parse(text: str) -> Topology | FromFile:
    """The topology a name stands for, or `file:PATH`; raises `UserError` for anything else."""
    if not isinstance(text, str):
        raise UserError(f"topology {text!r} must be a name, such as ring(2)")
    kind, _, path = text.partition(":")
    if kind == "file":
        return FromFile(path)
    topology: Topology = names.parse("topology", text, TOPOLOGIES)
    return topology


def canonical(text: str) -> str:
    """The canonical spelling of a topology's name; a file's path is made absolute, since workers run
    elsewhere.
    """
    found = parse(text)
    if isinstance(found, FromFile):
        return f"file:{Path(found.path).expanduser().resolve()}"
    return names.spell(text.split("(")[0].strip(), found)


def metropolis(graph: nx.Graph) -> Array:
    """Metropolis-Hastings weights of a graph, (n, n)."""
    n = graph.number_of_nodes()
    mixing = np.zeros((n, n))
    for i, j in graph.edges:
        mixing[i, j] = mixing[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    np.fill_diagonal(mixing, 1 - mixing.sum(1))
    return mixing


def checked(mixing: Array, n: int, where: str) -> Array:
    """Return the matrix, if it is (n, n), finite, not negative, symmetric, doubly stochastic, connected and mixes:
    DeFed needs lambda < 1, lambda the largest absolute eigenvalue but for the first. Raises `UserError` saying what it is not.
    """
    if mixing.shape != (n, n):
        raise UserError(f"{where} must be {n} x {n} for {n} clients, but is {mixing.shape}")
    if not np.isfinite(mixing).all():
        raise UserError(f"{where} must hold finite numbers only")
    if (mixing < 0).any():
        i, j = np.argwhere(mixing < 0)[0]
        raise UserError(f"{where} must not be negative, but entry ({i}, {j}) is {mixing[i, j]:g}")
    if not np.allclose(mixing, mixing.T, rtol=0, atol=1e-8):
        i, j = np.argwhere(~np.isclose(mixing, mixing.T, rtol=0, atol=1e-8))[0]
        raise UserError(
            f"{where} must be symmetric, but entries ({i}, {j}) and ({j}, {i}) are "
            f"{mixing[i, j]:g} and {mixing[j, i]:g}"
        )
    sums = mixing.sum(1)
    if not np.allclose(sums, 1, rtol=0, atol=1e-6):
        row = int(np.abs(sums - 1).argmax())
        raise UserError(f"{where} must be doubly stochastic, but row {row} sums to {sums[row]:g}")
    if not nx.is_connected(nx.from_numpy_array(mixing)):
        raise UserError(f"{where} must be connected, but some clients never hear of the others")
    # A connected graph may still only pass models to and fro: the swap of two clients has the eigenvalue -1.
    if np.abs(np.linalg.eigvalsh(mixing - 1 / n)).max() > 1 - 1e-9:
        raise UserError(
            f"{where} must mix, but its clients only swap models: lambda is 1, and DeFed needs lambda < 1. Let a "
            "client keep a part of its own model (a positive diagonal)"
        )
    return mixing
