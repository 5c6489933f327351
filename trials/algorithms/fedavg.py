"""Federated averaging."""

from dataclasses import dataclass
from typing import ClassVar

from trials.algorithm import Algorithm, Scored, State
from trials.common.tensors import Tensor
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """The server's weights w become the weighted mean of the selected clients' weights after local SGD.
    w <- sum_S p_k w_k, w_k = LocalSGD(w), over the set S of K selected clients. p_k is m_k / sum_S m for clients with
    m_k samples, or 1 / K if `aggregation` is plain.

    Equations: McMahan et al. 2017, Algorithm 1; FedAgg (2)-(3); FedUmf 3.1; SAFL (2)-(4).
    Keeps: nothing.
    Down: K d (none in round 1 with `init=own`).
    Up: K d.
    Reading: with `init=own`, clients start round 1 from their own initial weights, as in SAFL. FOLB (2) and FedUmf take
        the plain mean, `aggregation=plain`.
    """

    paper = "McMahan et al. 2017"
    any_optimizer = True
    sent: ClassVar[tuple[str, ...]] = ("w",)
    """The entries of the state that the server sends to clients in each round. Clients start from the first."""

    def init(self, fed: Federation) -> State:
        """Return the initial state: the server's weights `w` (d,)."""
        return {"w": fed.initial_server()}

    def round(self, state: State, fed: Federation) -> State:
        """Return the state after one round: select clients, send them the weights, train them and aggregate."""
        ids = fed.select()
        start = self.start(state, ids, fed)
        local = self.train(state, ids, start, fed)
        return self.aggregate(state, ids, start, local, fed)

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """Return the weights (k, d) from which clients `ids` (k,) start local training."""
        # With own initial weights the server has no model before the first aggregation.
        if fed.round == 1 and fed.settings.init == "own":
            return fed.initial(ids)
        w, *_ = [fed.broadcast(ids, state[name]) for name in self.sent]
        return w

    def train(
        self, state: State, ids: Tensor, start: Tensor, fed: Federation, at_round: int | None = None
    ) -> Tensor:
        """Return the weights (k, d) of clients `ids` after training from `start` (k, d). `at_round` draws an earlier round's minibatches."""
        rows = self.rows(state, ids, fed)
        return fed.train(ids, start, self.lr, self.direction, at_round, start=start, **rows)

    def rows(self, state: State, ids: Tensor, fed: Federation) -> dict[str, Tensor]:
        """Return further arguments of the method `direction`, by name: tensors (k, ...) with one row per client."""
        return {}

    def direction(self, w: Tensor, g: Tensor, start: Tensor, **rows: Tensor) -> Tensor:
        """Return the direction of a local step, which subtracts lr times it from weights w. g are gradients at w, `start` the weights before training."""
        return g

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the state after clients `ids` (k,) have trained from weights `start` (k, d) to `local` (k, d)."""
        return {**state, "w": fed.weights(ids) @ fed.upload(ids, local)}

    def scored(self, state: State, fed: Federation) -> Scored:
        """Return the model to evaluate, by name: the server's weights (d,)."""
        return {"server": state["w"]}
