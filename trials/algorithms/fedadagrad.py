"""FedAdagrad: Adagrad on the server, with the clients' mean update as its gradient."""

from dataclasses import dataclass

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedAdagrad(FedAvg):
    """FedAvg with Adagrad on the server: Delta = sum_S p_k (w_k - w);
    M <- beta1 M + (1 - beta1) Delta; V <- V + Delta^2; w <- w + server_lr M / (sqrt(V) + tau), elementwise.

    Equations: Reddi et al. 2021, Algorithm 2.
    Keeps: nothing; the server M and V (2 d).
    Down: K d.
    Up: K d.
    Reading: M = 0 and V = tau^2 at the start, without bias correction. beta1 = 0 as usual for Adagrad. FedAgg states
        neither beta1 nor the server rate.
    """

    paper = "Reddi et al. 2021"
    any_optimizer = True

    server_lr: float = real(0.1, low=1e-3, high=10.0, log=True, at_least=0, rate=True)
    beta1: float = real(0.0, low=0.0, high=0.99, searched=False, at_least=0, at_most=1)
    tau: float = real(1e-3, low=1e-5, high=0.1, log=True, searched=False, above=0)

    def init(self, fed: Federation) -> State:
        """Return the initial state: server weights `w`, and moments `M` = 0 and `V` = tau^2, all (d,)."""
        state = super().init(fed)
        zeros = torch.zeros_like(state["w"])
        # tau^2 in V bounds the first steps, where Delta is small.
        return {**state, "M": zeros, "V": zeros + self.tau**2}

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        delta = fed.weights(ids) @ (fed.upload(ids, local) - state["w"])
        M = self.beta1 * state["M"] + (1 - self.beta1) * delta
        V = self.second_moment(state["V"], delta)
        w = state["w"] + self.server_lr * M / (V.sqrt() + self.tau)
        return {**state, "w": w, "M": M, "V": V}

    def second_moment(self, V: Tensor, delta: Tensor) -> Tensor:
        """Return the new second moment (d,) from the old one `V` (d,) and the clients' mean update `delta` (d,)."""
        return V + delta**2
