"""Ditto: each client keeps a model of its own near the server's (Li et al. 2021).

    suite sweep quickstart --algorithms fedavg,examples/ditto.py:Ditto --set metric=personal --name ditto

searches and ranks by what each client's model scores on that client's data.
"""

from dataclasses import dataclass

from torch import Tensor

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.engine.federation import Federation


@dataclass(frozen=True)
class Ditto(FedAvg):
    """FedAvg for w; beside it client k steps along g(v_k) + lam (v_k - w), w as it was received.

    Equations: Li et al. 2021, Algorithm 1.
    Keeps: d (v_k).
    Down: K d.
    Up: K d.
    Reading: both models of a client see the same minibatches. v_k starts at the initial weights.
    """

    paper = "Li et al. 2021"
    requires = {"metric": ("personal", "its result is a model of each client")}

    lam: float = real(0.1, low=0.01, high=10.0, log=True, at_least=0)

    def init(self, fed: Federation) -> State:
        """`w` (d,), and the clients' own models `v` (n, d)."""
        return {**super().init(fed), "v": fed.client_rows(fed.initial)}

    def train(
        self, state: State, ids: Tensor, start: Tensor, fed: Federation, at_round: int | None = None
    ) -> Tensor:
        """Return the own models' steps, which stay with the clients, and then FedAvg's, (k, d)."""
        own = fed.train(ids, state["v"][ids], self.lr, self.pulled, start=start)
        state["v"].write(ids, own)
        return super().train(state, ids, start, fed, at_round)

    def pulled(self, w: Tensor, g: Tensor, start: Tensor) -> Tensor:
        """g + lam (v - w)."""
        return g + self.lam * (w - start)

    def personal(self, state: State, fed: Federation) -> Tensor:
        """Return the clients' own models."""
        own: Tensor = state["v"][fed.everyone]
        return own
