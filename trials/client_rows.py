"""A row of weights for each client that has one."""

from __future__ import annotations

from collections.abc import Callable

from trials.tensors import Tensor, torch
from trials.transfer import sent


class ClientRows:
    """A (n, d) table of per-client state that stores only the rows ever written.

    `rows[ids]` (k, d) gives a client that was never written its `default(ids)` row.
    """

    def __init__(self, clients: int, default: Callable[[Tensor], Tensor]) -> None:
        self.default = default
        self.slot = torch.full((clients,), -1)
        self._table: Tensor | None = None
        self._used = 0

    @property
    def values(self) -> Tensor | None:
        """The rows ever written, in the order of `slot`."""
        return None if self._table is None else self._table[: self._used]

    @values.setter
    def values(self, rows: Tensor | None) -> None:
        self._table, self._used = rows, 0 if rows is None else len(rows)

    def __getitem__(self, ids: Tensor) -> Tensor:
        slot = self.slot[ids]
        new = slot < 0
        if self.values is None or bool(new.all()):
            return self.default(ids)
        rows = self.values[sent(slot.clamp(min=0), self.values.device)]
        if bool(new.any()):
            rows[sent(new.nonzero()[:, 0], rows.device)] = self.default(ids[new])
        return rows

    def write(self, ids: Tensor, rows: Tensor) -> None:
        """Set the rows of clients `ids` (k,) to `rows` (k, d), in place."""
        new = torch.unique(ids[self.slot[ids] < 0])
        needed = self._used + len(new)
        self.slot[new] = torch.arange(self._used, needed)
        if self._table is None or needed > len(self._table):
            # Twice what is needed, so that a table that grows is not copied at each write.
            grown = rows.new_empty(min(2 * needed, len(self.slot)), rows.shape[1])
            if self._table is not None:
                grown[: self._used] = self._table[: self._used]
            self._table = grown
        self._used = needed
        self._table[sent(self.slot[ids], rows.device)] = rows

    def mean(self, weights: Tensor) -> Tensor:
        """sum_k weights_k rows_k (d,) over all clients, `weights` (n,)."""
        blocks = torch.arange(len(self.slot)).split(64)
        return sum(weights[ids[0] : ids[-1] + 1] @ self[ids] for ids in blocks)  # type: ignore[return-value]
