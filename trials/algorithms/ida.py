"""IDA: clients are weighted by the inverse distance of their model from the mean model."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor
from trials.engine.federation import Federation


@dataclass(frozen=True)
class IDA(FedAvg):
    """FedAvg with weights inverse to distance: w <- sum_S (r_k / sum_S r_j) z_k, r_k = 1 / (|z_bar - z_k| + 1e-12).
    z_k is client k's trained model, and z_bar = sum_S p_k z_k.

    Equations: Yeganeh et al. 2020; SAFL (8).
    Keeps: nothing.
    Down: K d.
    Up: K d.
    Reading: the mean model is computed first, with the study's weights, and clients are reweighted once. This is the
        plain form, which SAFL uses, without the factor of inverse training accuracy.
    """

    paper = "Yeganeh et al. 2020"
    any_optimizer = True

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        z = fed.upload(ids, local)
        nearness = 1 / ((fed.weights(ids) @ z - z).norm(dim=1) + 1e-12)
        return {**state, "w": nearness / nearness.sum() @ z}
