"""SCAFFOLD: control variates correct local steps for the drift of clients."""

from dataclasses import dataclass
from typing import ClassVar

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class SCAFFOLD(FedAvg):
    """FedAvg with control variates c_k of clients and c of the server: a local step follows g - c_k + c.
    c_k' = c_k - c + (w - w_k) / (J_k lr) after J_k local steps; w <- w + server_lr sum_S p_k (w_k - w);
    c <- c + (1 / N) sum_S om_k (c_k' - c_k). om_k = N p_k with p_k the aggregation weight among all clients, or 1 where
    `aggregation` is plain, as in the paper. All control variates start at 0, so round 1 is FedAvg's if server_lr = 1.

    Equations: Karimireddy et al. 2020, Algorithm 1, (3)-(5), option II.
    Keeps: d (c_k); the server c (d).
    Down: 2 K d.
    Up: 2 K d.
    Reading: control variates divide by the current learning rate where it decays. Clients are weighted by relative
        size, as in the code of the FedDyn and FedDC authors, so that unequal clients agree at the optimum of the
        weighted objective. With `clip_norm`, c_k is computed from the clipped steps.
    """

    paper = "Karimireddy et al. 2020"
    sent: ClassVar[tuple[str, ...]] = ("w", "c")
    unsupported = {
        "init=own": "drift is measured from one common model w",
        "momentum": "option II computes the mean gradient from w - w_k, which momentum distorts",
        "selection=with_replacement": "the server's c is the mean of client states, which change once a round",
    }

    server_lr: float = real(1.0, low=0.1, high=1.0, log=True, searched=False, at_least=0, rate=True)

    def init(self, fed: Federation) -> State:
        """Return the server's `w` and `c`, both (d,), and the clients' `c_k` (n, d). The control variates `c` and `c_k` are 0."""
        state = super().init(fed)
        return {**state, "c": torch.zeros_like(state["w"]), "c_k": fed.client_rows()}

    def rows(self, state: State, ids: Tensor, fed: Federation) -> dict[str, Tensor]:
        """Return `correction` (k, d), the server's control variate minus each client's: c - c_k."""
        return {"correction": state["c"] - state["c_k"][ids]}

    def direction(self, w: Tensor, g: Tensor, start: Tensor, **rows: Tensor) -> Tensor:
        return g + rows["correction"]

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the state with new client control variates c_k, and with w and c by equations (4), (5)."""
        # (w - w_k) / (J_k lr) is the mean direction of the local steps, correction included.
        moved = (start - local) / (self.lr * fed.steps(ids).unsqueeze(1))
        change = fed.upload(ids, moved - state["c"])
        state["c_k"].write(ids, state["c_k"][ids] + change)
        delta = fed.upload(ids, local - start)
        return {
            **state,
            "w": state["w"] + self.server_lr * (fed.weights(ids) @ delta),
            "c": state["c"] + fed.relative_size(ids) @ change / fed.n,
        }
