"""FedNova: each update is divided by its number of local steps, so that clients with more steps do not bias the mean."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedNova(FedAvg):
    """FedAvg with normalised updates: w <- w + tau sum_S p_k (w_k - w) / J_k, tau = sum_S p_k J_k.
    Client k takes J_k local steps. Equal J_k is FedAvg.

    Equations: Wang et al. 2020 (FedNova), (4)-(6).
    Keeps: nothing.
    Down: K d.
    Up: K d + K (J_k).
    Reading: with local momentum rho, the step count J_k becomes the sum of the coefficients with which gradients enter
        the update, (J - rho (1 - rho^J) / (1 - rho)) / (1 - rho), as in the paper's section 4.
    """

    paper = "Wang et al. 2020 (FedNova)"
    unsupported = {"init=own": "updates are relative to one common model w"}

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        p, rho = fed.weights(ids), fed.settings.momentum
        J = fed.upload(ids, fed.steps(ids))
        # Under momentum a gradient also moves the later steps.
        J = (J - rho * (1 - rho**J) / (1 - rho)) / (1 - rho)
        delta = fed.upload(ids, local) - start
        return {**state, "w": state["w"] + (p @ J) * ((p / J) @ delta)}
