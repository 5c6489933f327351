"""FedNu with the sign rule: the update of a device whose gradient disagrees with the global one is reversed."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedprox import FedProx
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedNuSign(FedProx):
    """FedProx's clients with signs: w <- w + (1 / K) sum_S sign(<grad f(w), g_k>) delta_k.
    delta_k = w_k - w is a device's update, and g_k = grad F_k(w) its full local gradient.

    Equations: FOLB (5), Proposition 1.
    Keeps: nothing.
    Down: N d.
    Up: (N + K) d: gradients of all devices, models of the selected.
    Reading: the global gradient is the mean over all devices with the study's aggregation weights, as (5) needs it.
        Since it takes all devices, the method is a reference and not ranked. sign(0) = 0.
    """

    paper = "FOLB"
    any_optimizer = True
    reference = True
    unsupported = {"init=own": "gradients are compared at one common model w"}

    def round(self, state: State, fed: Federation) -> State:
        """Return the state after one round. An update of a device whose gradient opposes the global gradient is reversed."""
        w = fed.broadcast(fed.everyone, state["w"])
        g = fed.upload(fed.everyone, fed.gradient(fed.everyone, w))
        # Proposition 1 takes the global gradient, so all devices send theirs.
        sign = (g @ (fed.weights(fed.everyone) @ g)).sign()
        ids = fed.select()
        rows = fed.index(ids)
        delta = fed.upload(ids, self.train(state, ids, w[rows], fed)) - w[rows]
        return {**state, "w": state["w"] + (sign[rows].unsqueeze(1) * delta).mean(0)}
