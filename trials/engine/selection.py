"""Who takes part in a round: the clients that an algorithm selects, less those that do not answer."""

from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.tensors import Tensor, torch
from trials.engine import budget
from trials.heterogeneity import Heterogeneity
from trials.settings import Settings

Array = npt.NDArray[Any]


class Selection:
    """The part of a federation of `n` clients that selects them. All it draws is a function of (seed, round)."""

    def __init__(self, n: int, level: Heterogeneity, settings: Settings, seed: int) -> None:
        self.n, self.settings, self.seed = n, settings, seed
        self.round = 0
        self._level = level
        self._absent = set[int]()

    def select(self, stream: str = "select") -> Tensor:
        """Ids (K,) of this round's clients, ascending, the same for every algorithm.

        Of n uniform numbers, one a client: the K = participation n smallest (without replacement),
        or those below `participation`, at least one (independent). With replacement: K draws, ids
        may repeat. Another `stream` gives another set. Under `+dropout(rate)` some of them do not
        answer and are left out, at least one stays: nothing is sent to them and they do nothing.
        """
        s = self.settings
        if s.selection == "with_replacement":
            return self.draw(torch.ones(self.n, dtype=torch.float64), stream)
        u = randomness.uniform(stream, self.seed, self.round, np.arange(self.n))
        k = self.count if s.selection == "without_replacement" else (u < s.participation).sum()
        return self._answering(np.sort(np.argpartition(u, max(1, k) - 1)[: max(1, k)]))

    def draw(self, p: Tensor, stream: str = "select") -> Tensor:
        """K draws with replacement with probabilities proportional to p (n,); ascending ids (K,).

        The round's uniform numbers are mapped through the cumulative p; p = 0 everywhere is uniform.
        Under `+dropout(rate)` as in `select`.
        """
        share = p.double().cpu().numpy()
        cumulative = np.cumsum(share if share.any() else np.ones_like(share))
        u = randomness.uniform(stream, self.seed, self.round, np.arange(self.count))
        ids = np.searchsorted(cumulative / cumulative[-1], u, side="right")
        return self._answering(np.sort(np.minimum(ids, self.n - 1)))

    def shuffled(self, stream: str = "select") -> Tensor:
        """Ids (n,) of all clients in this round's random order, for an algorithm that asks one after the other.
        Under `+dropout(rate)` as in `select`.
        """
        u = randomness.uniform(stream, self.seed, self.round, np.arange(self.n))
        return self._answering(np.argsort(u, kind="stable"))

    @property
    def absent(self) -> Tensor:
        """Ids of the clients that were selected in this round but do not answer."""
        return torch.tensor(sorted(self._absent), dtype=torch.int64)

    def _answering(self, ids: Array) -> Tensor:
        there = self._level.answering(ids, self.round, self.seed)
        if there is not ids:
            self._absent.update(np.setdiff1d(ids, there).tolist())
        return torch.from_numpy(there)

    @property
    def count(self) -> int:
        """K = participation n, at least 1."""
        return budget.selected(self.settings, self.n)
