"""SAFL: clients keep part of their own weights early on, as in simulated annealing."""

from dataclasses import dataclass

from trials.algorithm import Scored, State, choice, real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class SAFL(FedAvg):
    """FedAvg whose clients start from a random mixture of the server's model and their own last weights.
    Client k starts from v = u z_bar + (1 - u) z_k, where z_k are its own last trained weights, at first its initial
    ones. After t rounds, each weight has u = epsilon with probability exp(-t / L), else u = 1. Then
    z_bar <- sum_S eta_k z_k, with the aggregation weights eta_k. epsilon = 1 with a common start is FedAvg.

    Equations: SAFL Algorithm 1, (2)-(7).
    Keeps: d (its own weights).
    Down: K d (none in round 1).
    Up: K d.
    Reading: a client mixes the two models once a round, with a draw for each weight. In exp(-t / L), t counts rounds
        (`clock=rounds`, which agrees with the paper's figures for L = 80) or the client's local steps (`clock=steps`, as
        in Algorithm 1, so that one L suits all batch sizes). Round 1 has no server model yet, so clients start from their
        own initial weights as in the paper (`init=own`), or from common ones, which makes round 1 FedAvg's. The server's
        model is ranked. The weighted mean of all devices' last trained models is scored, too, as `devices`. The default
        epsilon and L, nearly FedAvg, came closest to the best scores in recorded trials. The paper's are 0.3 and 80.
    """

    paper = "SAFL"
    any_optimizer = True
    home = {"init=own": "its paper's devices start from weights of their own (init=own)"}

    epsilon: float = real(0.65, low=0.0, high=1.0, at_least=0, at_most=1)
    L: float = real(0.3, low=0.1, high=200.0, log=True, above=0)
    clock: str = choice("rounds", ("rounds", "steps"), searched=False)

    def init(self, fed: Federation) -> State:
        """Return the state before round 1: the server's weights `w` (d,), and the clients' own weights `z` (n, d)."""
        state = super().init(fed)
        # In ASTW-SAFL the next base class is ASTW, whose state has `z` already.
        return state if "z" in state else {**state, "z": fed.client_rows(fed.initial)}

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """Return the clients' start weights (k, d). From round 2 on, equations (6) and (7) mix a client's own and the server's."""
        z = state["z"][ids]
        if fed.round == 1:
            return z
        ticks = fed.steps(ids) if self.clock == "steps" else z.new_ones(len(ids))
        p = torch.exp(-(fed.round - 1) * ticks / self.L).unsqueeze(1)
        # One draw for each weight, the same in all algorithms that derive from SAFL.
        annealed = (fed.uniform("anneal", ids, fed.d) < p).to(z)
        u = 1 - (1 - self.epsilon) * annealed
        return u * super().start(state, ids, fed) + (1 - u) * z

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the new state. The server's model is the trained weights' mean, equation (3). Each client keeps its trained weights."""
        state["z"].write(ids, local)
        return super().aggregate(state, ids, start, local, fed)

    def personal(self, state: State, fed: Federation) -> Tensor:
        weights: Tensor = state["z"][fed.everyone]
        return weights

    def scored(self, state: State, fed: Federation) -> Scored:
        """Return the server's model, and as `devices` the weighted mean of all devices' last trained models."""
        devices = state["z"].mean(fed.weights(fed.everyone))
        return {**super().scored(state, fed), "devices": devices}
