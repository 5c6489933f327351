"""FOLB: local models weighted by how well their gradients agree with the mean gradient."""

from dataclasses import dataclass

from trials.algorithm import State, choice, real
from trials.algorithms.fedprox import FedProx
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FOLB(FedProx):
    """FedProx with updates weighted by how well the device's gradient agrees with the mean gradient.
    w <- w + sum_S (I_k / sum_S |I_j|) delta_k, delta_k = w_k - w. With the full local gradient g_k = grad F_k(w) and
    G = mean_S g_k:

    - variant `plain` (13): I_k = <g_k, G>;
    - variant `heterogeneity` (18): I_k = <g_k, G> - psi gamma_k |G|^2. gamma_k = |grad h_k(w_k; w)| / |grad F_k(w)|
      says how inexactly the device solved its problem. It is 0 where grad F_k(w) = 0, and at most 1, since the paper
      takes it from [0, 1] (V-A). psi = 0 is `plain`.

    Equations: FOLB (13), (18).
    Keeps: nothing.
    Down: K d.
    Up: 2 K d (gradient and model); under (18) also K.
    Reading: there is one set of devices, selected as in all other algorithms of the study. The full local gradient
        takes one extra pass. If all weights are 0, the server keeps its model. Sample counts do not enter the weights.
        A large psi can make all weights negative and so reverse the update, as printed; no guard is added. The default
        mu came closest to the best scores in recorded trials. The paper's 1 is `published`.
    """

    paper = "FOLB"
    any_optimizer = True
    unsupported = {"init=own": "gradients are compared at one common model w"}
    home = {"system": "its paper's devices take unequal numbers of steps (+system)"}

    mu: float = real(0.003, low=1e-4, high=1.0, log=True, at_least=0)
    variant: str = choice("plain", ("plain", "heterogeneity"))
    psi: float = real(
        1.0, low=0.1, high=100.0, log=True, when={"variant": "heterogeneity"}, at_least=0
    )

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        g = fed.upload(ids, fed.gradient(ids, start))
        mean = g.mean(0)
        agreement = g @ mean
        if self.variant == "heterogeneity":
            gamma = fed.upload(ids, inexactness(self, ids, start, local, g, fed))
            agreement = agreement - self.psi * gamma * (mean @ mean)
        total = agreement.abs().sum()
        delta = fed.upload(ids, local) - start
        # If all I_k are 0, the server keeps its weights.
        p = torch.where(total > 0, agreement / total, agreement)
        return {**state, "w": state["w"] + p @ delta}


def inexactness(
    proximal: FedProx, ids: Tensor, start: Tensor, local: Tensor, g: Tensor, fed: Federation
) -> Tensor:
    """Return how inexactly each device solved its problem: gamma_k (k,) of FOLB (18). `g` has the gradients at `start`."""
    residual = proximal.direction(local, fed.gradient(ids, local), start).norm(dim=1)
    return (residual / g.norm(dim=1)).nan_to_num(0.0, posinf=0.0).clamp(max=1.0)
