"""A row of weights for each client that has one."""

from __future__ import annotations

from collections.abc import Callable

from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device


class ClientRows:
    """A (n, d) table of per-client state that stores only the rows ever written.

    `rows[ids]` (k, d) gives a client that was never written its `default(ids)` row. `device` (default:
    the CPU) is where rows are given; the table lies there too, or on the `host`, and rows are moved.
    """

    def __init__(
        self,
        clients: int,
        default: Callable[[Tensor], Tensor],
        device: torch.device | None = None,
        host: bool = False,
    ) -> None:
        cpu = torch.device("cpu")
        self.default, self.device = default, device or cpu
        self.home = cpu if host else self.device
        self._pinned = host and self.device.type == "cuda"
        self.slot = torch.full((clients,), -1)
        self._table: Tensor | None = None
        self._used = 0

    @property
    def values(self) -> Tensor | None:
        """The rows ever written, in the order of `slot`."""
        return None if self._table is None else self._table[: self._used]

    @values.setter
    def values(self, rows: Tensor | None) -> None:
        self._table, self._used = None, 0
        if rows is not None:
            self._table, self._used = self._room(len(rows), rows), len(rows)
            self._table.copy_(rows)

    def __getitem__(self, ids: Tensor) -> Tensor:
        slot = self.slot[ids]
        new = slot < 0
        if self._table is None or bool(new.all()):
            return self.default(ids)
        rows = self._room(len(ids), self._table)
        torch.index_select(self._table, 0, to_device(slot.clamp(min=0), self.home), out=rows)
        rows = rows.to(self.device, non_blocking=self._pinned)
        if bool(new.any()):
            rows[to_device(new.nonzero()[:, 0], self.device)] = self.default(ids[new])
        return rows

    def write(self, ids: Tensor, rows: Tensor) -> None:
        """Set the rows of clients `ids` (k,) to `rows` (k, d), in place."""
        new = torch.unique(ids[self.slot[ids] < 0])
        needed = self._used + len(new)
        self.slot[new] = torch.arange(self._used, needed)
        if self._table is None or needed > len(self._table):
            # Twice what is needed, so that a table that grows is not copied at each write.
            grown = self._room(min(2 * needed, len(self.slot)), rows)
            if self._table is not None:
                grown[: self._used] = self._table[: self._used]
            self._table = grown
        self._used = needed
        self._table[to_device(self.slot[ids], self.home)] = rows.to(self.home)

    def mean(self, weights: Tensor) -> Tensor:
        """sum_k weights_k rows_k (d,) over all clients, `weights` (n,)."""
        blocks = torch.arange(len(self.slot)).split(64)
        return sum(weights[ids[0] : ids[-1] + 1] @ self[ids] for ids in blocks)  # type: ignore[return-value]

    def _room(self, rows: int, like: Tensor) -> Tensor:
        """Room for rows where the table lies; pinned where they move, so that nobody waits for them."""
        size = (rows, *like.shape[1:])
        return torch.empty(size, dtype=like.dtype, device=self.home, pin_memory=self._pinned)
