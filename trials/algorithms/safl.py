"""SAFL: clients keep part of their own weights early on, as in simulated annealing."""

from dataclasses import dataclass

from trials.algorithm import Scored, State, choice, real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class SAFL(FedAvg):
    """Client k starts from v = u z_bar + (1 - u) z_k; per weight u = epsilon with probability
    exp(-t / L), else 1, where t is the time of z_bar and of z_k; then z_bar <- sum_S eta_k z_k.

    z_k are the client's own last trained weights, at first its initial ones. epsilon = 1 with a
    common start is FedAvg.

    Equations: SAFL Algorithm 1, (2)-(7).
    Keeps: d (its own weights).
    Down: K d (none in round 1).
    Up: K d.
    Reading: mixing happens once a round, each weight with its own draw. t counts rounds (`clock=rounds`, with
        which L = 80 suits the figures), or the client's local steps (`steps`), as the box of
        Algorithm 1 does: then one L suits all batch sizes. Round 1 has no
        server model yet, so all start from z_k: own initial weights as in the paper (`init=own`), or
        common ones, and then round 1 is FedAvg's. z_bar is ranked; `devices`, sum_k eta_k z_k over
        all devices as they were trained last, is scored beside it. The defaults, nearly FedAvg, lost least over
        families of recorded trials (docs/search.md); the paper's 0.3 and 80 are `published`.
    """

    paper = "SAFL"
    any_optimizer = True
    home = {"init=own": "its paper's devices start from weights of their own (init=own)"}

    epsilon: float = real(0.65, low=0.0, high=1.0, at_least=0, at_most=1)
    L: float = real(0.3, low=0.1, high=200.0, log=True, above=0)
    clock: str = choice("rounds", ("rounds", "steps"), searched=False)

    def init(self, fed: Federation) -> State:
        """Return the server's weights `w`, and each client's own `z` (n, d)."""
        state = super().init(fed)
        # In ASTW-SAFL the base that follows is ASTW, whose state has `z` already.
        return state if "z" in state else {**state, "z": fed.client_rows(fed.initial)}

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """Return the mixed weights (k, d) of (6), (7); in round 1 the clients' own."""
        z = state["z"][ids]
        if fed.round == 1:
            return z
        ticks = fed.steps(ids) if self.clock == "steps" else z.new_ones(len(ids))
        p = torch.exp(-(fed.round - 1) * ticks / self.L).unsqueeze(1)
        # One coin for each weight, the same for every algorithm that asks for it.
        annealed = (fed.uniform("anneal", ids, fed.d) < p).to(z)
        u = 1 - (1 - self.epsilon) * annealed
        return u * super().start(state, ids, fed) + (1 - u) * z

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Average as (3), and let the clients remember where they ended."""
        state["z"].write(ids, local)
        return super().aggregate(state, ids, start, local, fed)

    def personal(self, state: State, fed: Federation) -> Tensor:
        weights: Tensor = state["z"][fed.everyone]
        return weights

    def scored(self, state: State, fed: Federation) -> Scored:
        """Return z_bar, and the weighted mean of all devices' weights."""
        devices = state["z"].mean(fed.weights(fed.everyone))
        return {**super().scored(state, fed), "devices": devices}
