"""SAFL: clients keep part of their own weights early on, as in simulated annealing."""

import math
from dataclasses import dataclass

from torch import Tensor

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.engine import Federation


@dataclass(frozen=True)
class SAFL(FedAvg):
    """Client k starts from v = u z_bar + (1 - u) z_k; per weight u = epsilon with probability
    p_t = exp(-t / L), else 1; then z_bar <- sum_S eta_k z_k.

    SAFL Algorithm 1, (3), (6), (7). z_k are the client's own last trained weights, at first its
    initial ones: the paper gives every device its own (`init=own`); with `init=common` round 1 is
    FedAvg's. Round 1 has no server model yet, so all start from z_k and nothing is sent down.
    epsilon = 1 with a common start is FedAvg. Readings: t counts rounds (settings.md 1, item 7) and
    mixing happens once a round, per weight (item 8). State: `w` = z_bar (d,), `z` (n, d).
    Floats: K d down (none in round 1), K d up.
    """

    paper = "SAFL"

    epsilon: float = real(0.3, low=0.0, high=1.0)
    L: float = real(80.0, low=1.0, high=200.0, log=True)

    def init(self, fed: Federation) -> State:
        """The server's weights, and each client's own."""
        return {**super().init(fed), "z": fed.client_rows(fed.initial)}

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """(6), (7); the client's own weights in round 1."""
        own = state["z"][ids]
        if fed.round == 1:
            return own
        p = math.exp(-fed.round / self.L)
        annealed = (fed.uniform("anneal", ids, fed.d) < p).to(own)
        u = 1 - (1 - self.epsilon) * annealed
        return u * fed.broadcast(ids, state["w"]) + (1 - u) * own

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """(3), and the clients remember where they ended."""
        state["z"].write(ids, local)
        return super().aggregate(state, ids, start, local, fed)
