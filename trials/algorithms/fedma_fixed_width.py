"""FedMA at fixed width: hidden units are matched to the server's before they are averaged."""

from dataclasses import dataclass
from itertools import pairwise

from trials.algorithm import State
from trials.algorithms.fedavg import FedAvg
from trials.errors import UserError
from trials.federation import Federation
from trials.models.base import Model
from trials.settings import Settings
from trials.tensors import Tensor, torch


@dataclass(frozen=True)
class FedMAFixedWidth(FedAvg):
    """w <- sum_S p_k Pi_k(w_k): layer by layer, Pi_k permutes client k's units (rows of weights and
    bias, whose inputs are already permuted) to be nearest to the server's in squared distance, and
    the inputs of the next layer with them.

    Equations: Wang et al. 2020 (FedMA), (2)-(3), restricted.
    Keeps: nothing.
    Down: K d.
    Up: K d.
    Reading: the affordable stand-in of FedMA: fixed width, one Hungarian assignment a layer and
        client against the server's current model, no new units, no layer-wise freezing and
        retraining; outputs are not permuted and averaged with the study's weights. One layer is
        FedAvg.
    """

    paper = "Wang et al. 2020 (FedMA)"

    def check(self, clients: int, model: Model, settings: Settings) -> None:
        """Each layer's inputs must be the units of the layer before (times pixels)."""
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
        """Match, then average."""
        received = fed.upload(ids, local)
        matched = torch.stack([match(w, state["w"], fed.model) for w in received])
        return {**state, "w": fed.weights(ids) @ matched}


def match(w: Tensor, reference: Tensor, model: Model) -> Tensor:
    """w (d,) with its hidden units in the order nearest to `reference` (d,)."""
    w = w.clone()
    mine, theirs = model.views(w), model.views(reference)
    layers = dict.fromkeys(name.rpartition(".")[0] for name in mine)
    order: Tensor | None = None
    for layer in layers:
        tensors = [t for t in (f"{layer}.weight", f"{layer}.bias") if t in mine]
        weight = mine[tensors[0]]
        if order is not None:
            by_unit = weight.view(len(weight), len(order), -1)
            by_unit.copy_(by_unit[:, order].clone())
        if layer == list(layers)[-1]:
            break
        units, target = (
            torch.cat([of[t].reshape(len(weight), -1) for t in tensors], 1) for of in (mine, theirs)
        )
        from scipy.optimize import linear_sum_assignment  # takes every start half a second

        # |a - b|^2 = |a|^2 + |b|^2 - 2 <a, b>, of which only the product depends on the matching.
        cost = -(target @ units.T).nan_to_num(0.0)
        order = torch.from_numpy(linear_sum_assignment(cost.cpu().numpy())[1]).to(w.device)
        for t in tensors:
            mine[t].copy_(mine[t][order].clone())
    return w
