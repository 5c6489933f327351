"""FedNu with the sign rule: a device that disagrees with the global gradient is turned around."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedprox import FedProx
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedNuSign(FedProx):
    """w <- w + (1 / K) sum_S sign(<grad f(w), g_k>) delta_k on FedProx, delta_k = w_k - w.

    Equations: FOLB (5), Proposition 1.
    Keeps: nothing.
    Down: N d.
    Up: (N + K) d: gradients of all devices, models of the selected.
    Reading: grad f = sum_k p_k g_k over all devices with the study's aggregation weights, as (5)
        needs it; so it is a reference and not ranked. sign(0) = 0.
    """

    paper = "FOLB"
    any_optimizer = True
    reference = True
    unsupported = {"init=own": "gradients are compared at one common model w"}

    def round(self, state: State, fed: Federation) -> State:
        """Take the gradients of all devices, and train the selected ones."""
        w = fed.broadcast(fed.everyone, state["w"])
        g = fed.upload(fed.everyone, fed.gradient(fed.everyone, w))
        # Proposition 1 takes the global gradient, hence all devices.
        sign = (g @ (fed.weights(fed.everyone) @ g)).sign()
        ids = fed.select()
        rows = fed.index(ids)
        delta = fed.upload(ids, self.train(state, ids, w[rows], fed)) - w[rows]
        return {**state, "w": state["w"] + (sign[rows].unsqueeze(1) * delta).mean(0)}
