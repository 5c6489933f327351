"""FedMA at fixed width: hidden units are matched to the server's before they are averaged."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.algorithm import State
from trials.algorithms.fedavg import FedAvg
from trials.common.errors import UserError
from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device
from trials.engine.federation import Federation
from trials.models.base import Model
from trials.settings import Settings


@dataclass(frozen=True)
class FedMAFixedWidth(FedAvg):
    """FedAvg after matching: w <- sum_S p_k Pi_k(w_k), where Pi_k permutes the hidden units of client k.
    Layer by layer, Pi_k brings client k's units (rows of weights and bias, whose inputs are already permuted) into the
    order nearest to the server's units in squared distance, and permutes the inputs of the next layer accordingly.

    Equations: Wang et al. 2020 (FedMA), (2)-(3), restricted.
    Keeps: nothing.
    Down: K d.
    Up: K d.
    Reading: an affordable stand-in for FedMA, at fixed width. There is one Hungarian assignment for each layer and
        client, against the server's current model. There are no new units, and layers are not frozen and retrained one
        by one. Output units are not permuted, only averaged. A model of one layer gives FedAvg.
    """

    paper = "Wang et al. 2020 (FedMA)"
    any_optimizer = True

    def check(self, clients: int, model: Model, settings: Settings) -> None:
        """Raise `UserError` unless each layer's number of inputs is a multiple of the previous layer's number of units."""
        weights = [slot for slot in model.layout if slot.name.endswith(".weight")]
        for before, after in pairwise(weights):
            if len(after.shape) < 2 or after.shape[1] % before.shape[0]:
                raise UserError(
                    f"fedma_fixed_width needs a chain of layers, but {after.name} {after.shape} "
                    f"does not follow {before.name} {before.shape}"
                )

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        matched = match(fed.upload(ids, local), state["w"], fed.model)
        return {**state, "w": fed.weights(ids) @ matched}


def match(w: Tensor, reference: Tensor, model: Model) -> Tensor:
    """Return the weights `w` (k, d) with their hidden units reordered to match those of `reference` (d,) best."""
    w = w.clone()
    clients, server = model.views(w), model.views(reference)
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in server))
    client, orders = torch.arange(len(w), device=w.device)[:, None], None
    for layer in layers:
        tensors = [name for name in (f"{layer}.weight", f"{layer}.bias") if name in server]
        if orders is not None:
            # Inputs follow the order of the units before them, each with all of its pixels.
            inputs = clients[tensors[0]]
            by_unit = inputs.view(*inputs.shape[:2], orders.shape[1], -1).transpose(1, 2)
            by_unit.copy_(by_unit[client, orders])
        if layer == layers[-1]:
            break
        # A unit is a row of weights and its bias.
        target = torch.cat([server[name].reshape(len(server[name]), -1) for name in tensors], 1)
        units = torch.cat([clients[name].reshape(len(w), len(target), -1) for name in tensors], 2)
        # |a - b|^2 = |a|^2 + |b|^2 - 2 <a, b>, of which only the product depends on the matching.
        cost = torch.stack([-(target @ rows.T).nan_to_num(0.0) for rows in units])
        orders = to_device(assignments(cost.cpu().numpy()), w.device)
        for name in tensors:
            clients[name].copy_(clients[name][client, orders])
    return w


def assignments(costs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the column indices (k, n) that the cheapest assignment gives to the rows of each cost matrix (k, n, n)."""
    from scipy.optimize import linear_sum_assignment  # importing takes half a second

    return np.stack([linear_sum_assignment(cost)[1] for cost in costs])
