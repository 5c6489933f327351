"""FedAvgM: FedAvg with momentum on the server."""

from dataclasses import dataclass

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """FedAvg with momentum on the server: Delta = sum_S p_k (w_k - w); v <- beta v + Delta; w <- w + server_lr v.
    beta = 0 with server_lr = 1 is FedAvg.

    Equations: Hsu, Qi and Brown 2019.
    Keeps: nothing; the server v (d).
    Down: K d.
    Up: K d.
    Reading: v = 0 at the start, and there is no Nesterov step.
    """

    paper = "Hsu et al. 2019"
    any_optimizer = True

    beta: float = real(0.9, low=0.0, high=0.99, at_least=0, at_most=1)
    server_lr: float = real(1.0, low=0.1, high=3.0, log=True, at_least=0, rate=True)

    def init(self, fed: Federation) -> State:
        """Return the initial state: the server's weights `w` and momentum `v` = 0, both (d,)."""
        state = super().init(fed)
        return {**state, "v": torch.zeros_like(state["w"])}

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        delta = fed.weights(ids) @ (fed.upload(ids, local) - state["w"])
        v = self.beta * state["v"] + delta
        return {**state, "w": state["w"] + self.server_lr * v, "v": v}
