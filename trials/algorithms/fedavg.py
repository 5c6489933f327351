"""Federated averaging."""

from dataclasses import dataclass

from torch import Tensor

from trials.algorithm import Algorithm, State
from trials.engine import Federation


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """w <- sum_S p_k w_k, w_k = LocalSGD(w).

    McMahan et al. 2017, Algorithm 1. p_k = m_k / sum_S m (or 1 / K with `aggregation=plain`, as in
    FOLB (2) and FedUmf 3.1). With `init=own` clients start round 1 from their own initial weights
    (SAFL (2)-(4)). State: `w` (d,). Floats: K d down, K d up.
    """

    paper = "McMahan et al. 2017"

    def init(self, fed: Federation) -> State:
        """The server's weights."""
        return {"w": fed.initial_server()}

    def round(self, state: State, fed: Federation) -> State:
        """Select, start, train, aggregate."""
        ids = fed.select()
        start = self.start(state, ids, fed)
        local = fed.train(ids, start, self.lr, self.direction, start=start)
        return self.aggregate(state, ids, start, local, fed)

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """Where clients `ids` (k,) begin: rows (k, d)."""
        if fed.round == 1 and fed.settings.init == "own":
            return fed.initial(ids)
        return fed.broadcast(ids, state["w"])

    def direction(self, w: Tensor, g: Tensor, start: Tensor) -> Tensor:
        """What a local step follows, from weights, gradients and start points, all (a, d)."""
        return g

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """The state after clients `ids` went from `start` to `local`, both (k, d)."""
        return {**state, "w": fed.weights(ids) @ fed.upload(ids, local)}

    def scored(self, state: State) -> dict[str, Tensor]:
        """The server's model."""
        return {"server": state["w"]}
