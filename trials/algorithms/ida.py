"""IDA: clients weigh by the inverse distance of their model to the mean model."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor
from trials.engine.federation import Federation


@dataclass(frozen=True)
class IDA(FedAvg):
    """r_k = 1 / (|z_bar - z_k| + 1e-12), z_bar = sum_S p_k z_k; w <- sum_S (r_k / sum_S r_j) z_k.

    Equations: Yeganeh et al. 2020; SAFL (8).
    Keeps: nothing.
    Down: K d.
    Up: K d.
    Reading: z_bar is the weighted mean first, then one pass of reweighting. The plain form, as SAFL
        uses it, not the one multiplied by inverse training accuracy.
    """

    paper = "Yeganeh et al. 2020"
    any_optimizer = True

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        z = fed.upload(ids, local)
        nearness = 1 / ((fed.weights(ids) @ z - z).norm(dim=1) + 1e-12)
        return {**state, "w": nearness / nearness.sum() @ z}
