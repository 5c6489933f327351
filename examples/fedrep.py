r"""FedRep: clients share a body, and each keeps a head of its own (Collins et al. 2021).

    suite sweep quickstart --algorithms fedavg,examples/fedrep.py:FedRep --models mlp \
        --set metric=personal --name fedrep

shares the body of a model of two or more layers, and ranks by clients' own scores.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trials.algorithm import Devices, Scored, State
from trials.algorithms.fedavg import FedAvg
from trials.common.errors import UserError
from trials.engine.federation import Federation
from trials.models.base import Model
from trials.settings import Settings


@dataclass(frozen=True)
class FedRep(FedAvg):
    """h_k <- SGD on the head with the body fixed; b_k <- SGD on the body with h_k fixed;
    b <- sum_S p_k b_k. The head is the model's last layer.

    Equations: Collins et al. 2021, Algorithm 1.
    Keeps: h (the head).
    Down: K (d - h).
    Up: K (d - h).
    Reading: head and body take the study's local steps each, on the same minibatches.
    """

    paper = "Collins et al. 2021"
    requires = {"metric": ("personal", "its result is a head of each client")}

    def check(self, clients: int, model: Model, settings: Settings) -> None:
        """Refuse a model without a body, which has nothing to share."""
        if model.layout[-1].layer == 0:
            raise UserError("fedrep needs a model of two or more layers: a body and a head")

    def init(self, fed: Federation) -> State:
        """Return the server's weights `w` (d,) and the clients' `own` (n, d); heads of `own` are in use."""
        return {**super().init(fed), "own": fed.client_rows(fed.initial)}

    def body(self, fed: Federation) -> int:
        """Return the number of weights before the last layer's."""
        last = fed.model.layout[-1].layer
        return next(slot.start for slot in fed.model.layout if slot.layer == last)

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """Return the server's body under each client's head."""
        start, b = state["own"][ids].clone(), self.body(fed)
        start[:, :b] = fed.broadcast(ids, state["w"][:b])
        return start

    def train(
        self, state: State, ids: Tensor, start: Tensor, fed: Federation, at_round: int | None = None
    ) -> Tensor:
        """Return the head's steps, then the body's, (k, d)."""
        head = (torch.arange(fed.d, device=fed.device) >= self.body(fed)).to(start)
        for part in (head.expand_as(start), 1 - head.expand_as(start)):
            start = fed.train(ids, start, self.lr, lambda w, g, part: g * part, part=part)
        return start

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the mean of the bodies; heads stay."""
        state["own"].write(ids, local)
        w, b = state["w"].clone(), self.body(fed)
        w[:b] = fed.weights(ids) @ fed.upload(ids, local[:, :b])
        return {**state, "w": w}

    def scored(self, state: State, fed: Federation) -> Scored:
        """Return the server's body under every client's head."""
        models, sizes = state["own"][fed.everyone].clone(), fed.tensor(fed.data.sizes)
        models[:, : self.body(fed)] = state["w"][: self.body(fed)]
        return {"clients": Devices(models, sizes / sizes.sum())}
