"""LB-near-optimal sampling: devices are drawn by how their gradient agrees with the global one."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedprox import FedProx
from trials.common.tensors import Tensor
from trials.engine.federation import Federation


@dataclass(frozen=True)
class LBOptimal(FedProx):
    """S <- K draws with replacement from P_k ~ |<grad f(w), g_k>|; w <- mean_S w_k on FedProx.

    Equations: FOLB (7), III-D.1 (direct sampling).
    Keeps: nothing.
    Down: N d.
    Up: (N + K) d; a device drawn twice sends its model once.
    Reading: grad f = sum_k p_k g_k over all devices with the study's aggregation weights. The plain
        mean of the draws, repeats counted. Needs all devices, so it is a reference and not ranked;
        the draws map the study's uniform numbers through P.
    """

    paper = "FOLB"
    reference = True
    unsupported = {"init=own": "gradients are compared at one common model w"}

    def round(self, state: State, fed: Federation) -> State:
        """All devices say how much they matter, the drawn ones train."""
        w = fed.broadcast(fed.everyone, state["w"])
        ids = fed.draw(self.importance(fed.gradient(fed.everyone, w), fed))
        local = fed.upload(ids, self.train(state, ids, w[fed.index(ids)], fed))
        return {**state, "w": local.mean(0)}

    def importance(self, g: Tensor, fed: Federation) -> Tensor:
        """(7) up to its sum: (n,) from all devices' gradients (n, d)."""
        g = fed.upload(fed.everyone, g)
        return (g @ (fed.weights(fed.everyone) @ g)).abs()
